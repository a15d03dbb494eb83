"""What `etcompile check --fix` and `--diff` do: write the corrected files, or show them."""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from msgspec import structs

from etcompile.cli.options import TalkOptions, counted, talks, write
from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic
from etcompile.diagnostics.redaction import redacted
from etcompile.fixes import FixedFile, fixed_files
from etcompile.load import access


def correct(
    compiled: Callable[[], Compilation], given: TalkOptions, *, unsafe: bool, diff: bool
) -> tuple[Compilation, bool]:
    """Corrects the files of a run, or shows what that would change.

    Args:
        compiled: Makes the run.
        given: How to talk.
        unsafe: Correct what was probably meant, too.
        diff: Show it, and write nothing.

    Returns:
        The run as it is after that, with what went wrong on the way; and whether changes were
        shown.
    """
    files = fixed_files(lambda: compiled().findings, unsafe=unsafe)
    if diff:
        for file in files:
            write(*_diff(file))
        # What is reported besides is what would still be wrong.
        with access.instead_of({file.file: file.after for file in files}):
            return compiled(), bool(files)
    problems: list[Diagnostic] = []
    for file in files:
        problems += _written(file)
        if talks(given) and not problems:
            click.echo(_told(file), err=True)
    result = compiled()
    return structs.replace(result, diagnostics=(*problems, *result.diagnostics)), False


def _written(file: FixedFile) -> Sequence[Diagnostic]:
    from etcompile.emit.files import write_file

    return write_file(Path(file.file), file.after)


def _told(file: FixedFile) -> str:
    """What was corrected in a file, a line each."""
    lines = [f"{file.file}: {counted(len(file.fixed), 'correction')}"]
    for diagnostic in file.fixed:
        place, fix = diagnostic.location, diagnostic.fix
        if place is not None and fix is not None:
            lines.append(f"  line {place.line}: {fix.title} ({diagnostic.code})")
    return "\n".join(lines)


def _diff(file: FixedFile) -> list[str]:
    """A file's change as `diff -u` shows it, without the credentials on lines that stay."""
    before, after = (
        redacted(text.decode(errors="replace")).splitlines(keepends=True)
        for text in (file.before, file.after)
    )
    lines: list[str] = []
    for line in difflib.unified_diff(before, after, file.file, file.file):
        whole = line.endswith("\n")
        lines.append(line if whole else f"{line}\n\\ No newline at end of file\n")
    return lines
