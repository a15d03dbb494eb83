"""Write diagnostics for people, scripts, code scanners and the logs of CI.

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
"""The forms that also list suppressed diagnostics, marked as such."""

STANDARD_INPUT = "-"


class Audience(Struct, frozen=True):
    """The reader of an output."""

    color: bool = False
    root: Path | None = None  # folder that files are named from; None: as the user named them

    def name(self, file: str) -> str:
        """Return the reader's name of a file: its path from the root, absolute if outside."""
        if self.root is None or file == STANDARD_INPUT:
            return file
        path = os.path.abspath(file)  # noqa: PTH100 - Path has no way to fold '..' alone
        spellings = [PurePath(path)]
        with contextlib.suppress(ValueError):  # names that no file system allows, such as a NUL
            spellings.append(PurePath(os.path.realpath(path)))
        for spelling in spellings:
            if spelling.is_relative_to(self.root):
                return spelling.relative_to(self.root).as_posix()
        return path


def render(form: Format, diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """Write diagnostics in one of the `FORMATS`, ending in a line break.

    Without diagnostics the result is an empty document if the form has documents (json, sarif,
    rdjson), else nothing.
    """
    module = importlib.import_module(f"{__name__}.{'terminal' if form == 'text' else form}")
    text: str = module.render(diagnostics, audience)
    return text
