"""Pages and files for people, from the templates in `templates/`.

A page is sent to somebody and opened years later, so it loads nothing. What is shown in it was
written by others (names, messages, last lines of logs), so every value is escaped, and characters
that hide or turn around others are replaced. Files are YAML and Markdown, with holes `<< name >>`
and lines of `<% if %>`: GitHub's workflows have `{{ }}` of their own, and a template should read,
and highlight, as the file that it becomes.
"""

from typing import Any

from etcompile import data
from etcompile._version import __version__
from etcompile.diagnostics.message_text import printable


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


def text(template: str, **values: Any) -> str:
    """The text of a file.

    Args:
        template: The name of a file in `templates`.
        values: What fills the holes; a hole that nothing fills is an error.
    """
    import jinja2  # noqa: PLC0415 - as above

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data.folder("templates")),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - YAML and Markdown, not HTML
    )
    return environment.get_template(template).render(values)
