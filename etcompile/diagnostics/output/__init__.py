"""Diagnostics in a form that somebody reads: a person, a script, a code scanner, a CI log.

A module here is a form: its `render` turns diagnostics into text, and the text is all it makes.
Where that goes is the command line's business. A form is imported when it is asked for, so
that a run with nothing to say loads none.
"""

import importlib
from collections.abc import Sequence
from typing import Literal

from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.output.audience import Audience, repository

__all__ = ["FORMATS", "SUPPRESSION_FORMS", "Audience", "Format", "render", "repository"]

Format = Literal["text", "json", "sarif", "github", "rdjson"]

FORMATS: tuple[Format, ...] = ("text", "json", "sarif", "github", "rdjson")
"""The forms by name; each is the module of that name."""

SUPPRESSION_FORMS: tuple[Format, ...] = ("json", "sarif")
"""The forms that also hold what a comment or an option suppresses, marked as such."""


def render(form: Format, diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """Diagnostics in one of the `FORMATS`.

    Args:
        form: The name of the form.
        diagnostics: What to tell; there may be none.
        audience: Who reads it.

    Returns:
        The text, ending in a line break. Without diagnostics that is an empty document where
        the form has documents (json, sarif, rdjson), and nothing elsewhere.
    """
    text: str = importlib.import_module(f"{__name__}.{form}").render(diagnostics, audience)
    return text
