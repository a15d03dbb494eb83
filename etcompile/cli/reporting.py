"""Write data to standard output, diagnostics and notices to standard error."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import click
from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Severity, has_errors
from etcompile.diagnostics.output import SUPPRESSION_FORMS, Format

if TYPE_CHECKING:
    from etcompile.compiler.choices import Options
    from etcompile.compiler.pipeline import Compilation


class Reporting(Struct, frozen=True):
    """How to report errors and warnings; `ignore` has codes of warnings."""

    form: Format = "text"
    color: str = "auto"
    quiet: bool = False
    strict: bool = False
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        keys = {"form": "output-format", **{key: key for key in cls.__struct_fields__[1:]}}
        return cls(**{name: settings[key] for name, key in keys.items() if key in settings})


def report(
    diagnostics: Sequence[Diagnostic], reporting: Reporting, *, are_data: bool = False
) -> None:
    """Write all diagnostics of a run.

    Args:
        diagnostics: All at once, since JSON and SARIF are one document. Suppressed ones appear only
            in formats that mark them.
        are_data: They are the output of the command, so machines read them on standard output.
    """
    form = reporting.form
    diagnostics = _marked(diagnostics, reporting.ignore)
    if reporting.quiet and not reporting.strict:
        diagnostics = [each for each in diagnostics if each.severity is Severity.ERROR]
    if form not in SUPPRESSION_FORMS:
        diagnostics = [each for each in diagnostics if each.suppressed is None]
    if form == "text" and not diagnostics:
        return
    from etcompile.diagnostics.output import Audience, render
    from etcompile.load.configuration import root_of

    audience = Audience(colored(reporting.color, sys.stderr), Path(root_of(os.path.realpath("."))))
    text = render(form, diagnostics, audience)
    if form == "text":
        click.echo(text, err=True, nl=False, color=True)
    else:
        stream = sys.stdout if are_data else sys.stderr
        # As bytes: machines read UTF-8, whatever the terminal's encoding.
        stream.buffer.write(text.encode())
        stream.flush()


def compiled(paths: Sequence[str], chosen: "Options", reporting: Reporting) -> "Compilation":
    """Compile paths, and name the output folders that were skipped."""
    from etcompile.compiler.pipeline import compile  # noqa: A004
    from etcompile.load.configuration import from_here

    compilation = compile(paths, chosen)
    for folder in compilation.outputs if notices(reporting) else ():
        click.echo(f"{from_here(folder)}: skipped, because etcompile rendered it", err=True)
    return compilation


def refuses(diagnostics: Sequence[Diagnostic], reporting: Reporting) -> bool:
    """Return True for an error, or under `--strict` for anything reported."""
    if has_errors(diagnostics) or not reporting.strict:
        return has_errors(diagnostics)
    marked = _marked(diagnostics, reporting.ignore)
    return any(diagnostic.suppressed is None for diagnostic in marked)


def _marked(diagnostics: Sequence[Diagnostic], ignored: Sequence[str]) -> list[Diagnostic]:
    if not ignored:
        return [*diagnostics]
    from etcompile.diagnostics.suppression import by_option

    return [*by_option(diagnostics, ignored)]


def notices(reporting: Reporting) -> bool:
    """Return True if a person reads the output and did not ask for quiet."""
    return reporting.form == "text" and not reporting.quiet


def write(*texts: str, errors: str = "strict") -> None:
    """Write to standard output as bytes, so that every terminal gets the same as a file.

    Args:
        errors: How to handle characters that UTF-8 cannot encode, as for `str.encode`.
    """
    for text in texts:
        sys.stdout.buffer.write(text.encode(errors=errors))
    sys.stdout.flush()


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 job`, `7 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def colored(when: str, stream: TextIO) -> bool:
    if when == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return when == "always"
