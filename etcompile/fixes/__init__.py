"""Problems that are put right in the files: `etcompile check --fix`, and quick fixes of editors.

A diagnostic says what would put it right (`diagnostics.diagnostic.Fix`); here it is done, in the
text, at its place, and read again.
"""

from etcompile.fixes.corrected_files import FixedFile, fixed_files, with_edits, with_fix
from etcompile.fixes.edits import lines_of, text_edits

__all__ = ["FixedFile", "fixed_files", "lines_of", "text_edits", "with_edits", "with_fix"]
