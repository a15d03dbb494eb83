"""Diagnostics as text for people, scripts, code scanners and the logs of CI.

Each form is a module with a function `render`, which is imported when it is used, so that a run
without diagnostics imports none.
"""

import importlib
from collections.abc import Sequence
from typing import Literal, get_args

from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.output.audience import Audience, repository

__all__ = ["FORMATS", "SUPPRESSION_FORMS", "Audience", "Format", "render", "repository"]

Format = Literal["text", "json", "sarif", "github", "rdjson"]

FORMATS: tuple[Format, ...] = get_args(Format)

SUPPRESSION_FORMS: tuple[Format, ...] = ("json", "sarif")
"""The forms that also contain what a comment or an option suppresses, marked as such."""


def render(form: Format, diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """Diagnostics in one of the `FORMATS`.

    Returns:
        The text, ending in a line break. Without diagnostics that is an empty document where
        the form has documents (json, sarif, rdjson), and nothing elsewhere.
    """
    module = importlib.import_module(f"{__name__}.{'terminal' if form == 'text' else form}")
    text: str = module.render(diagnostics, audience)
    return text
