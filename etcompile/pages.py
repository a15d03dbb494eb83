"""Fill the templates of pages and files for people (`templates/`).

A page is sent to somebody and opened years later, so it loads nothing. It shows texts that others
wrote (names, messages, last lines of logs), so every value is escaped, and characters that hide or
reverse text are replaced. Files are YAML and Markdown, with holes `<< name >>` and lines of
`<% if %>`: GitHub's workflows use `{{ }}` themselves, and a template should read, and highlight,
as the file that it becomes.
"""

from typing import Any

from etcompile import data
from etcompile._version import __version__
from etcompile.diagnostics.message_text import printable


def page(template: str, **values: Any) -> str:
    """Render an HTML page.

    Args:
        template: The name of a file in `templates/pages`.
        values: What it shows; `title` is its title in a browser.
    """

    def finalize(value: Any) -> Any:
        return printable(value, keep="\n\t") if type(value) is str else value

    values = {"version": __version__, **values}
    return _filled("pages", template, values, finalize=finalize, lstrip_blocks=True)


def text(template: str, **values: Any) -> str:
    """Render a text file.

    Args:
        template: The name of a file in `templates`.
        values: What fills the holes; a hole without a value is an error.
    """
    holes = {"variable_start_string": "<<", "variable_end_string": ">>"}
    lines = {"block_start_string": "<%", "block_end_string": "%>"}
    return _filled(".", template, values, **holes, **lines)


def _filled(folder: str, template: str, values: dict[str, Any], **syntax: Any) -> str:
    import jinja2  # noqa: PLC0415 - most commands write no page

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data.folder("templates") / folder),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=folder == "pages",  # noqa: S701 - others are YAML and Markdown, not HTML
        **syntax,
    )
    return environment.get_template(template).render(values)
