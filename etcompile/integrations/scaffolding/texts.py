"""Scaffolds from the folders of `templates/`: plain files with a few holes.

The holes are `<< name >>`, and lines of `<% if %>`, because `{{ }}` belongs to GitHub's
workflows and a template should read, and highlight, as the file that it becomes.
"""

import functools
from typing import Any

import jinja2

from etcompile import data


def text(file: str, **values: Any) -> str:
    """The text of a scaffold.

    Args:
        file: Its template, below `templates/`.
        values: What fills the holes; a hole that nothing fills is an error.
    """
    return _environment().get_template(file).render(values)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data.folder("templates")),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, not HTML
    )
