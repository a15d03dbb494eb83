"""Correct problems in files: `etcompile check --fix`, and quick fixes of editors.

A diagnostic says what its fix is (`diagnostics.diagnostic.Fix`). This package changes the text at
that place and checks the result.
"""

from etcompile.fixes.corrected_files import FixedFile, fixed_files, with_edits, with_fix
from etcompile.fixes.edits import lines_of, text_edits

__all__ = ["FixedFile", "fixed_files", "lines_of", "text_edits", "with_edits", "with_fix"]
