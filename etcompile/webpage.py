"""Pages for people: one file each, from the templates in `templates/pages`.

A page is sent to somebody and opened years later, so it loads nothing. What is shown in it was
written by others (names, messages, last lines of logs), so every value is escaped, and characters
that hide or turn around others are replaced.
"""

from typing import Any

from etcompile import data
from etcompile._version import __version__
from etcompile.diagnostics.output.characters import printable


def page(template: str, **values: Any) -> str:
    """A page as HTML.

    Args:
        template: The name of a file in `templates/pages`.
        values: What it shows; `title` is what a browser calls it.
    """
    import jinja2  # noqa: PLC0415 - most commands write no page

    def finalize(value: Any) -> Any:
        return printable(value, keep="\n\t") if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data.folder("templates") / "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(version=__version__, **values)
