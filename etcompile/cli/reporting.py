"""What a command writes: data on standard output, diagnostics and notices on standard error."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from etcompile.cli.options import ReportOptions
from etcompile.diagnostics import Diagnostic, Severity, has_errors
from etcompile.diagnostics.output import SUPPRESSION_FORMS

if TYPE_CHECKING:
    from etcompile.compiler import Compilation, Options


def report(
    diagnostics: Sequence[Diagnostic], options: ReportOptions, *, are_data: bool = False
) -> None:
    """Writes all diagnostics of a run.

    Args:
        diagnostics: All of them: a form for machines is one document. Suppressed ones are only
            in the forms that mark them as such.
        are_data: They are what the command is for, so that machines find them on standard
            output.
    """
    form = options.form
    diagnostics = _marked(diagnostics, options.ignore)
    if options.quiet and not options.strict:
        diagnostics = [each for each in diagnostics if each.severity is Severity.ERROR]
    if form not in SUPPRESSION_FORMS:
        diagnostics = [each for each in diagnostics if each.suppressed is None]
    if form == "text" and not diagnostics:
        return
    from etcompile.diagnostics.output import Audience, render
    from etcompile.load.configuration import root_of

    audience = Audience(colored(options.color, sys.stderr), Path(root_of(os.path.realpath("."))))
    text = render(form, diagnostics, audience)
    if form == "text":
        click.echo(text, err=True, nl=False, color=True)
    else:
        stream = sys.stdout if are_data else sys.stderr
        # As bytes: what a machine reads is UTF-8, whatever the terminal's encoding.
        stream.buffer.write(text.encode())
        stream.flush()


def compiled(paths: Sequence[str], chosen: "Options", options: ReportOptions) -> "Compilation":
    """Return what paths compile to, and name the output folders that were passed over."""
    from etcompile.compiler import compile  # noqa: A004

    compilation = compile(paths, chosen)
    for folder in compilation.outputs if notices(options) else ():
        here = os.path.relpath(folder)
        shown = folder if here.startswith(os.pardir) else here
        click.echo(f"{shown}: skipped, because etcompile rendered it", err=True)
    return compilation


def refuses(diagnostics: Sequence[Diagnostic], options: ReportOptions) -> bool:
    """Whether the run is refused: for an error, or under `--strict` for anything reported."""
    if has_errors(diagnostics) or not options.strict:
        return has_errors(diagnostics)
    marked = _marked(diagnostics, options.ignore)
    return any(diagnostic.suppressed is None for diagnostic in marked)


def _marked(diagnostics: Sequence[Diagnostic], ignored: Sequence[str]) -> list[Diagnostic]:
    if not ignored:
        return [*diagnostics]
    from etcompile.diagnostics.suppression import by_option

    return [*by_option(diagnostics, ignored)]


def notices(options: ReportOptions) -> bool:
    """Whether a person reads, who wants to know what was done."""
    return options.form == "text" and not options.quiet


def write(*texts: str, errors: str = "strict") -> None:
    """Writes to standard output as bytes, so that every terminal gets what a file would.

    Args:
        errors: What becomes of a character that UTF-8 has not, as for `str.encode`.
    """
    for text in texts:
        sys.stdout.buffer.write(text.encode(errors=errors))
    sys.stdout.flush()


def counted(number: int, noun: str) -> str:
    """A number of things in words: `1 job`, `7 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def colored(when: str, stream: TextIO) -> bool:
    """Whether what goes to a stream is to be coloured, as `--color` wants it."""
    if when == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return when == "always"
