"""Render scripts from templates: shipped ones, or the user's of the same name.

Shipped templates were translated to Python when etcompile was installed (`shipped`), because
importing Jinja2 takes a fifth of a render. Jinja2 renders as soon as the user has templates, if a
shipped one was edited since, and if nothing was installed.
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
"""Functions that yield the text of a template, by its name."""


class TemplateError(Exception):
    """A template that does not render.

    Args:
        file: The path of the user's template; None for a shipped one.
        line: The line at fault, if known.
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
    """The user's templates, wherever they come from."""

    def names(self) -> Sequence[str]:
        """Return their names, sorted; raise OSError if they cannot be listed."""

    def content(self, name: str) -> bytes:
        """Return the bytes of one of them; raise OSError if it cannot be read."""

    def file(self, name: str) -> str:
        """Return the path of one of them, for messages."""


class Texts:
    """The templates of one compilation, and their rendering."""

    def __init__(self, overrides: Sources | None = None) -> None:
        self._overrides = overrides

    def digests(self) -> Iterator[tuple[str, str]]:
        for name, content in self._templates.items():
            yield f"templates/{name}", sha256(content)

    def unused(self) -> Iterator[tuple[str, str | None]]:
        """Yield the user's files that replace no template, each with the one that it may mean.

        A template that another of the user's templates names is used by that one. A file that is
        not called `*.j2` is ignored, unless only that ending is missing.
        """
        for name in sorted(set(self._names) - shipped_names()):
            if name.endswith(".j2"):
                others = (text for other, text in self._templates.items() if other != name)
                if not any(name.encode() in text for text in others):
                    # All have the same ending, so only the stem can be compared.
                    stems = {template.partition(".")[0]: template for template in shipped_names()}
                    close = probably(name.partition(".")[0], stems)
                    yield name, stems[close] if close else None
            elif f"{name}.j2" in shipped_names():
                yield name, f"{name}.j2"

    @functools.cached_property
    def _names(self) -> Sequence[str]:
        return self._overrides.names() if self._overrides else ()

    @functools.cached_property
    def _templates(self) -> dict[str, bytes]:
        templates: dict[str, bytes] = {}
        for name in self._names:
            if self._overrides and name.endswith(".j2"):
                with contextlib.suppress(OSError):
                    templates[name] = self._overrides.content(name)
        return templates

    def render(self, name: str, **values: object) -> str:
        """Return the text of the template `name` (without `.j2`), rendered with `values`.

        Raises:
            TemplateError: It does not exist, is no template, or uses an unknown variable.
        """
        file = f"{name}.j2"
        try:
            return self._render(file, values)
        except ValueError as error:
            user = self._overrides if file in self._names else None
            path = user.file(file) if user else None
            raise TemplateError(file, str(error), path, getattr(error, "line", None)) from error

    @staticmethod
    def plain(name: str) -> str:
        return (data.folder("templates") / name).read_text("utf-8")

    @functools.cached_property
    def _render(self) -> _Render:
        folder = data.folder("templates")
        if self._overrides is None and (translated := _translated(folder)):

            def render(file: str, values: Mapping[str, Any]) -> str:
                try:
                    return "".join(translated[file](values))
                except KeyError as error:
                    raise ValueError(f"{error} is undefined") from error

            return render
        from etcompile.backend import jinja  # noqa: PLC0415 - see the module's docstring

        content = self._overrides.content if self._overrides else None
        return functools.partial(jinja.render, jinja.environment(folder, content))


@functools.cache
def shipped_names() -> frozenset[str]:
    return frozenset(file.name for file in data.folder("templates").glob("*.j2"))


def _translated(folder: Path) -> _Translated | None:
    """Return the templates as Python; None if they were made from other templates."""
    try:
        shipped = importlib.import_module("etcompile.backend.shipped")
        current = shipped.SOURCES.keys() == shipped_names() and all(
            sha256((folder / name).read_bytes()) == digest
            for name, digest in shipped.SOURCES.items()
        )
    except (ImportError, OSError):
        return None
    return shipped.TEMPLATES if current else None
