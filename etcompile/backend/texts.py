"""Scripts from templates: those we ship, or the user's of the same name.

Those we ship were translated to Python ahead of time (`shipped`), because importing Jinja2 is a
fifth of a render. Jinja2 itself renders as soon as the user has a template of their own, or a
shipped one was edited since.
"""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from etcompile import data
from etcompile.backend import shipped
from etcompile.diagnostics.spelling import probably

_Render = Callable[[str, Mapping[str, Any]], str]


class TemplateError(Exception):
    """A template does not render.

    Args:
        template: Its file name.
        problem: Why not.
    """

    def __init__(self, template: str, problem: str) -> None:
        super().__init__(template, problem)
        self.template = template
        self.problem = problem


class Texts:
    """Renders the templates of one compilation.

    Args:
        directory: A folder whose templates replace those of the same name.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def digests(self) -> Iterator[tuple[str, str]]:
        """The user's own templates: `templates/NAME` and the SHA-256 of each."""
        for file in sorted(self._directory.glob("*.j2")) if self._directory else ():
            with contextlib.suppress(OSError):
                yield f"templates/{file.name}", hashlib.sha256(file.read_bytes()).hexdigest()

    def unused(self) -> Iterator[tuple[Path, str | None]]:
        """The user's files that replace no template, each with the one that was probably meant.

        A template that another of theirs names is used by that one. What is not called `*.j2` is
        no template, unless only that is missing.
        """
        folder = self._directory
        if folder is None:
            return
        with contextlib.suppress(OSError):
            files = {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}
            for name in sorted(files.keys() - shipped.SOURCES.keys()):
                if name.endswith(".j2"):
                    if not any(_mentions(files[other], name) for other in files.keys() - {name}):
                        yield files[name], _meant(name)
                elif f"{name}.j2" in shipped.SOURCES:
                    yield files[name], f"{name}.j2"

    def render(self, name: str, **values: object) -> str:
        """The text of the template `name` (without `.j2`), rendered with `values`.

        Raises:
            TemplateError: it is not there, is no template, or asks for an unknown variable.
        """
        file = f"{name}.j2"
        try:
            return self._render(file, values)
        except ValueError as error:
            raise TemplateError(file, str(error)) from error

    @functools.cached_property
    def _render(self) -> _Render:
        folder = data.folder("templates")
        if self._directory is None and _translated(folder):
            return _render_shipped
        from etcompile.backend import jinja  # noqa: PLC0415 - see the module's docstring

        folders = [self._directory, folder] if self._directory else [folder]
        return functools.partial(jinja.render, jinja.environment(folders))


def _translated(folder: Path) -> bool:
    """Whether `shipped` was made from the templates that are there now."""
    try:
        return all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for name, digest in shipped.SOURCES.items()
        )
    except OSError:
        return False


def _meant(name: str) -> str | None:
    # All end alike, so only what is in front of that tells them apart.
    stems = {one.partition(".")[0]: one for one in shipped.SOURCES}
    close = probably(name.partition(".")[0], stems)
    return stems[close] if close else None


def _mentions(file: Path, name: str) -> bool:
    return file.name.endswith(".j2") and name.encode() in file.read_bytes()


def _render_shipped(file: str, values: Mapping[str, Any]) -> str:
    try:
        return "".join(shipped.TEMPLATES[file](values))
    except KeyError as error:
        raise ValueError(f"{error} is undefined") from error
