"""What `etcompile check --fix` and `--diff` do: write the corrected files, or show them."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from msgspec import structs

from etcompile.cli.options import ReportOptions
from etcompile.cli.reporting import counted, notices, write
from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.output.audience import STANDARD_INPUT
from etcompile.diagnostics.redaction import HIDDEN, secret_spans
from etcompile.fixes import FixedFile, fixed_files, lines_of
from etcompile.load import access

_CONTEXT = 3
_NO_BREAK = "\n\\ No newline at end of file\n"
_WRITABLE = 0o222


def correct(
    compiled: Callable[[], Compilation], options: ReportOptions, *, unsafe: bool, diff: bool
) -> tuple[Compilation, bool]:
    """Corrects the files of a run, or shows what that would change.

    Args:
        compiled: Makes the run.
        options: Whether to write notices.
        unsafe: Correct what was probably meant, too.
        diff: Show it, and write nothing.

    Returns:
        The run as it is after that, with what went wrong on the way; and whether changes were
        shown.
    """
    files = fixed_files(lambda: compiled().findings, unsafe=unsafe)
    if diff:
        for file in files:
            write(*_diff(file), errors="surrogateescape")
        # What is reported besides is what would still be wrong.
        with access.instead_of({file.file: file.after for file in files}):
            return compiled(), bool(files)
    problems: list[Diagnostic] = []
    for file in files:
        if file.file != STANDARD_INPUT and (refused := _written(file)):
            problems += refused
        elif notices(options):
            click.echo(_told(file), err=True)
    piped = {file.file: file.after for file in files if file.file == STANDARD_INPUT}
    with access.instead_of(piped):
        result = compiled()
        if (text := access.held(STANDARD_INPUT)) is not None:
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
    return structs.replace(result, diagnostics=(*problems, *result.diagnostics)), False


def _written(file: FixedFile) -> Sequence[Diagnostic]:
    """Writes a file, unless nobody may, or somebody else has since it was read."""
    from etcompile.emit.files import write_file

    path, reason = Path(file.file), None
    try:
        if not (path.stat().st_mode & _WRITABLE and os.access(path, os.W_OK)):
            reason = "it is read-only"
        elif access.content(file.file) != file.before:
            reason = "somebody has changed it since it was read"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason is not None:
        return [diagnose(codes.WRITE_FAILED, None, path=file.file, reason=reason)]
    return write_file(path, file.after)


def _told(file: FixedFile) -> str:
    """What was corrected in a file, a line each."""
    name = "standard input" if file.file == STANDARD_INPUT else file.file
    lines = [f"{name}: {counted(len(file.fixed), 'correction')}"]
    for diagnostic in file.fixed:
        place, fix = diagnostic.location, diagnostic.fix
        if place is not None and fix is not None:
            lines.append(f"  line {place.line}: {fix.title} ({diagnostic.code})")
    return "\n".join(lines)


def _diff(file: FixedFile) -> Iterator[str]:
    """A file's change as a patch, in which credentials are hidden.

    Where one is on a line of the patch, that cannot be applied, and somebody is told.
    """
    texts = [text.decode(errors="replace") for text in (file.before, file.after)]
    before, after = (lines_of(text) for text in texts)
    old, new = (_without_credentials(text) for text in texts)
    name = _name(file.file)
    yield f"--- {name}\n+++ {name}\n"
    is_whole = True
    for hunk in _hunks(before, after):
        lines = _range(hunk.start, hunk.stop)
        yield f"@@ -{lines} +{lines} @@\n"
        for is_same, run in itertools.groupby(hunk, lambda line: before[line] == after[line]):
            numbers = [*run]
            is_whole = is_whole and all(
                before[line] == old[line] and after[line] == new[line] for line in numbers
            )
            for sign, shown in ((" ", old),) if is_same else (("-", old), ("+", new)):
                for line in numbers:
                    end = "" if shown[line].endswith("\n") else _NO_BREAK
                    yield f"{sign}{shown[line]}{end}"
    if not is_whole:
        words = "a credential is hidden in the patch, which cannot be applied; --fix can"
        click.echo(f"{file.file}: {words}", err=True)


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[range]:
    """The lines that differ, with those around them; a correction never adds or removes a line."""
    hunk = range(0)
    for line in range(len(before)):
        if before[line] == after[line]:
            continue
        first, last = max(line - _CONTEXT, 0), min(line + _CONTEXT + 1, len(before))
        if first > hunk.stop and hunk:
            yield hunk
            hunk = range(0)
        hunk = range(hunk.start if hunk else first, last)
    if hunk:
        yield hunk


def _without_credentials(text: str) -> list[str]:
    """The lines of a text, as many as it has, with what may not be shown left out."""
    hidden = secret_spans(text)
    lines, start = [], 0
    for line in lines_of(text):
        end = start + len(line.rstrip("\r\n"))
        shown = line
        for first, last in reversed(hidden):
            if first < end and last > start:
                shown = f"{shown[: max(first - start, 0)]}{HIDDEN}{shown[min(last, end) - start :]}"
        lines.append(shown)
        start += len(line)
    return lines


def _name(file: str) -> str:
    """A file as a patch names it: seen from the working directory, as `git apply` wants it."""
    path = os.path.normpath(file)
    below = os.path.relpath(path)
    name = path if below.startswith(os.pardir) else below
    return f"{name}\t" if " " in name else name


def _range(start: int, stop: int) -> str:
    length = stop - start
    first = start + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"
