"""Diagnostics as text for people, scripts, code scanners and the logs of CI.

Each form is a module with a function `render`, which is imported when it is used, so that a run
without diagnostics imports none.
"""

import importlib
from collections.abc import Sequence
from typing import Literal

from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.output.audience import Audience, repository

__all__ = ["FORMATS", "SUPPRESSION_FORMS", "Audience", "Format", "render", "repository"]

Format = Literal["text", "json", "sarif", "github", "rdjson"]

_MODULES: dict[Format, str] = {
    "text": "terminal",
    "json": "json",
    "sarif": "sarif",
    "github": "github",
    "rdjson": "rdjson",
}
FORMATS = tuple(_MODULES)
"""The forms by name."""

SUPPRESSION_FORMS: tuple[Format, ...] = ("json", "sarif")
"""The forms that also contain what a comment or an option suppresses, marked as such."""


def render(form: Format, diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """Diagnostics in one of the `FORMATS`.

    Args:
        form: The name of the form.
        diagnostics: What to write; there may be none.
        audience: Who reads it.

    Returns:
        The text, ending in a line break. Without diagnostics that is an empty document where
        the form has documents (json, sarif, rdjson), and nothing elsewhere.
    """
    text: str = importlib.import_module(f"{__name__}.{_MODULES[form]}").render(
        diagnostics, audience
    )
    return text
