"""Scripts from Jinja2 templates: those we ship, or the user's of the same name.

Undefined variables are errors: a script with a hole in it would only fail in the cluster.
"""

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import jinja2

from etcompile import data


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
        folders = [directory] if directory else []
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader([*folders, data.folder("templates")]),
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,  # noqa: S701 - shell, not HTML
        )
        self._template = functools.cache(self._environment.get_template)

    def digests(self) -> Iterator[tuple[str, str]]:
        """The user's own templates: `templates/NAME` and the SHA-256 of each."""
        for file in sorted(self._directory.glob("*.j2")) if self._directory else ():
            with contextlib.suppress(OSError):
                yield f"templates/{file.name}", hashlib.sha256(file.read_bytes()).hexdigest()

    def render(self, name: str, **values: object) -> str:
        """The text of the template `name` (without `.j2`), rendered with `values`.

        Raises:
            TemplateError: it is not there, is no template, or asks for an unknown variable.
        """
        file = f"{name}.j2"
        try:
            return self._template(file).render(values)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(file, f"line {error.lineno}: {error.message}") from error
        except Exception as error:  # a template is a program: it may fail in any way
            raise TemplateError(file, str(error) or type(error).__name__) from error
