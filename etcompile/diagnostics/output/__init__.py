"""Diagnostics as text for people, scripts, code scanners and the logs of CI.

Each form is a module with a function `render`, which is imported when it is used, so that a run
without diagnostics imports none.
"""

import contextlib
import importlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Literal, get_args

from msgspec import Struct

from etcompile.diagnostics.diagnostic import Diagnostic

__all__ = ["FORMATS", "SUPPRESSION_FORMS", "Audience", "Format", "render"]

Format = Literal["text", "json", "sarif", "github", "rdjson"]

FORMATS: tuple[Format, ...] = get_args(Format)

SUPPRESSION_FORMS: tuple[Format, ...] = ("json", "sarif")
"""The forms that also contain what a comment or an option suppresses, marked as such."""

STANDARD_INPUT = "-"
"""What a location calls standard input."""


class Audience(Struct, frozen=True):
    """Who reads.

    Args:
        root: The folder that files are named from; None if they are named as the user did.
    """

    color: bool = False
    root: Path | None = None

    def name(self, file: str) -> str:
        """What the readers call a file: its path from the root, absolute if it is outside."""
        if self.root is None or file == STANDARD_INPUT:
            return file
        path = os.path.abspath(file)  # noqa: PTH100 - Path has no way to fold '..' alone
        spellings = [PurePath(path)]
        with contextlib.suppress(ValueError):  # what no file system can hold, such as a NUL
            spellings.append(PurePath(os.path.realpath(path)))
        for spelling in spellings:
            if spelling.is_relative_to(self.root):
                return spelling.relative_to(self.root).as_posix()
        return path


def render(form: Format, diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """Diagnostics in one of the `FORMATS`.

    Returns:
        The text, ending in a line break. Without diagnostics that is an empty document where
        the form has documents (json, sarif, rdjson), and nothing elsewhere.
    """
    module = importlib.import_module(f"{__name__}.{'terminal' if form == 'text' else form}")
    text: str = module.render(diagnostics, audience)
    return text
