"""Scripts from templates: those we ship, or the user's of the same name.

Those we ship were translated to Python when etcompile was installed (`shipped`), because importing
Jinja2 is a fifth of a render. Jinja2 itself renders as soon as the user has a template of their
own, and where a shipped one was edited since, or nothing was installed.
"""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from etcompile import data
from etcompile.diagnostics.spelling import probably
from etcompile.digest import sha256

_Render = Callable[[str, Mapping[str, Any]], str]
_Translated = Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]]
"""By the name of a template, what yields its text."""


class TemplateError(Exception):
    """A template does not render.

    Args:
        file: The path of the user's own, if it is that.
        line: The line of it that does not, if it is known.
    """

    def __init__(
        self, template: str, problem: str, file: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(template, problem, file, line)
        self.template = template
        self.problem = problem
        self.file = file
        self.line = line


class Sources(Protocol):
    """The user's own templates, wherever they come from."""

    def names(self) -> Sequence[str]:
        """Their names, sorted; raises OSError."""

    def content(self, name: str) -> bytes:
        """The bytes of one of them; raises OSError."""

    def file(self, name: str) -> str:
        """The path of one of them, for messages."""


class Texts:
    """Renders the templates of one compilation."""

    def __init__(self, own: Sources | None = None) -> None:
        self._own = own

    def digests(self) -> Iterator[tuple[str, str]]:
        """The user's own templates: `templates/NAME` and the SHA-256 of each."""
        for name, content in self._templates.items():
            yield f"templates/{name}", sha256(content)

    def unused(self) -> Iterator[tuple[str, str | None]]:
        """The user's files that replace no template, each with the one that was probably meant.

        A template that another of theirs names is used by that one. What is not called `*.j2` is
        no template, unless only that is missing.
        """
        for name in sorted(set(self._names) - shipped_names()):
            if name.endswith(".j2"):
                others = (text for other, text in self._templates.items() if other != name)
                if not any(name.encode() in text for text in others):
                    # All end alike, so only what is in front of that tells them apart.
                    stems = {template.partition(".")[0]: template for template in shipped_names()}
                    close = probably(name.partition(".")[0], stems)
                    yield name, stems[close] if close else None
            elif f"{name}.j2" in shipped_names():
                yield name, f"{name}.j2"

    @functools.cached_property
    def _names(self) -> Sequence[str]:
        with contextlib.suppress(OSError):
            return self._own.names() if self._own else ()
        return ()

    @functools.cached_property
    def _templates(self) -> dict[str, bytes]:
        templates: dict[str, bytes] = {}
        for name in self._names:
            if self._own and name.endswith(".j2"):
                with contextlib.suppress(OSError):
                    templates[name] = self._own.content(name)
        return templates

    def render(self, name: str, **values: object) -> str:
        """The text of the template `name` (without `.j2`), rendered with `values`.

        Raises:
            TemplateError: it is not there, is no template, or asks for an unknown variable.
        """
        file = f"{name}.j2"
        try:
            return self._render(file, values)
        except ValueError as error:
            own = self._own.file(file) if self._own and file in self._names else None
            raise TemplateError(file, str(error), own, getattr(error, "line", None)) from error

    @staticmethod
    def plain(name: str) -> str:
        """The text of a file of ours that is no template."""
        return (data.folder("templates") / name).read_text("utf-8")

    @functools.cached_property
    def _render(self) -> _Render:
        folder = data.folder("templates")
        if self._own is None and (translated := _translated(folder)):

            def render(file: str, values: Mapping[str, Any]) -> str:
                try:
                    return "".join(translated[file](values))
                except KeyError as error:
                    raise ValueError(f"{error} is undefined") from error

            return render
        from etcompile.backend import jinja  # noqa: PLC0415 - see the module's docstring

        own = self._own.content if self._own else None
        return functools.partial(jinja.render, jinja.environment(folder, own))


@functools.cache
def shipped_names() -> frozenset[str]:
    """The file names of the templates that we ship."""
    return frozenset(file.name for file in data.folder("templates").glob("*.j2"))


def _translated(folder: Path) -> _Translated | None:
    """The templates as Python; None if they were made from other templates than are there now."""
    try:
        shipped = importlib.import_module("etcompile.backend.shipped")
        current = shipped.SOURCES.keys() == shipped_names() and all(
            sha256((folder / name).read_bytes()) == digest
            for name, digest in shipped.SOURCES.items()
        )
    except (ImportError, OSError):
        return None
    return shipped.TEMPLATES if current else None
