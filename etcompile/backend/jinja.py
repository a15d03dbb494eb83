"""Jinja2 as our templates use it. Apart from `texts`, which imports it only when it is needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2


def environment(folders: Sequence[Path]) -> jinja2.Environment:
    """Where templates are looked up and how they are read.

    Undefined variables are errors: a script with a hole in it would only fail in the cluster.

    Args:
        folders: The first that has a template of the wanted name counts.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - shell, not HTML
    )


def render(where: jinja2.Environment, file: str, values: Mapping[str, Any]) -> str:
    """The text of one template.

    Args:
        where: As `environment` makes it; it keeps the templates it has read.
        file: The template's file name.
        values: Its variables.

    Raises:
        ValueError: it is not there, is no template, or asks for an unknown variable.
    """
    try:
        return where.get_template(file).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from error
    except Exception as error:  # a template is a program: it may fail in any way
        raise ValueError(str(error) or type(error).__name__) from error
