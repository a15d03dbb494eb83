"""Report errors, warnings and advice on job files, and fix them (`etcompile check`)."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

from etcompile.cli.command_line import HELP, CompilingCommand, refuse_without
from etcompile.cli.options import PATHS, RENDERING, compiles, packed
from etcompile.cli.reporting import (
    Reporting,
    compiled,
    counted,
    notices,
    refuses,
    report,
    write,
)
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.output import STANDARD_INPUT
from etcompile.diagnostics.redaction import redacted
from etcompile.exitcodes import DIFFERENT, REFUSED
from etcompile.load import access
from etcompile.load.configuration import from_here
from etcompile.load.sources import SUFFIXES

if TYPE_CHECKING:
    from etcompile.compiler.choices import Options
    from etcompile.compiler.configured import Configured
    from etcompile.compiler.pipeline import Compilation
    from etcompile.fixes import FixedFile
    from etcompile.operations.cluster_capacity import JobCapacity

_WRITABLE = 0o222


class _Corrections(Struct, frozen=True):
    fix: bool
    unsafe_fixes: bool
    diff: bool


@click.command("check", cls=CompilingCommand, context_settings=HELP)
@PATHS
@compiles(*RENDERING, "capacity")
@click.option(
    "--beside",
    "with_siblings",
    is_flag=True,
    help="Also read the other files in the folder of each PATH, such as the job of a ScaleOut, and"
    " no excluded file.",
)
@packed(
    "corrections",
    _Corrections,
    click.option(
        "--fix",
        is_flag=True,
        help="Correct the files where only one correction is possible, such as a misspelt field,"
        " and report the rest. Comments and layout stay as they are.",
    ),
    click.option(
        "--unsafe-fixes",
        is_flag=True,
        help="With --fix or --diff: also correct what was probably meant. Review the result.",
    ),
    click.option(
        "--diff",
        is_flag=True,
        help="Write what --fix would change to standard output, and change nothing.",
    ),
)
@click.pass_context
def command(
    ctx: click.Context,
    paths: Sequence[str],
    configured: "Configured",
    reporting: Reporting,
    with_siblings: bool,
    corrections: _Corrections,
) -> None:
    """Report the errors and warnings of job files; with --fix, correct the files.

    Reports what render reports, and advice about training (ET9xxx). PATH is as for render. Exit
    codes: 0 nothing is refused, 1 --diff shows changes, 2 something is refused.
    """
    fix, diff = corrections.fix, corrections.diff
    if fix and diff:
        raise click.UsageError("--diff changes nothing, and --fix does: name one of them.")
    if not (fix or diff):
        refuse_without("--fix or --diff", "unsafe_fixes")
    chosen = configured.options
    if with_siblings:
        # pre-commit names the files that changed, without the job of a new scale intent.
        named, paths = paths, [*paths]
        for file in map(Path, named):
            others = sorted(file.parent.iterdir()) if file.is_file() else ()
            files = (f for f in others if f.suffix in SUFFIXES and f.is_file())
            paths += (str(f) for f in files if f.name[0] != ".")
        exclude = chosen.limits.exclude
        paths = [path for path in dict.fromkeys(paths) if not exclude.matches(path)]
    partial = all(map(os.path.isfile, paths)) or None
    chosen = structs.replace(chosen, without_keys=True, lint=True, partial=partial)
    is_piped = STANDARD_INPUT in paths and (fix or diff)
    # Standard input is compiled several times while it is corrected.
    piped = {STANDARD_INPUT: sys.stdin.buffer.read()} if is_piped else {}
    with access.instead_of(piped):
        compilation, has_patch = _corrected(paths, chosen, corrections, reporting)
        findings = compilation.findings
        if any(finding.fix for finding in findings):
            from etcompile.fixes import with_edits

            findings = tuple(with_edits(findings))
    capacities: Sequence[JobCapacity] = ()
    if configured.values["capacity"] and compilation.ok:
        from etcompile.cli.capacity import capacity_of
        from etcompile.operations.cluster_capacity import capacity_problems

        capacities, _ = capacity_of(compilation, configured)
        problems = tuple(capacity_problems(capacities))
        findings = (*findings, *problems)
        compilation = structs.replace(
            compilation, diagnostics=(*compilation.diagnostics, *problems)
        )
    # Standard output may contain a patch, or the corrected standard input.
    report(findings, reporting, are_data=not (diff or is_piped))
    fixes = [finding.fix for finding in findings if finding.fix]
    if notices(reporting) and fixes:
        safe = sum(fix.is_safe for fix in fixes)
        unsafe = len(fixes) - safe
        more = f", {unsafe} more with --unsafe-fixes" if unsafe else ""
        words = f"{safe} can be corrected with --fix{more}"
        if not safe:
            words = (
                f"{unsafe} can be corrected with --fix --unsafe-fixes, which guess what was meant"
            )
        click.echo(words, err=True)
    if refuses(compilation.diagnostics, reporting):
        ctx.exit(REFUSED)
    if has_patch:
        ctx.exit(DIFFERENT)
    if not notices(reporting):
        return
    if not compilation.diagnostics:
        jobs = sum(group.name is not None for group in compilation.groups)
        objects = sum(len(group.objects) for group in compilation.groups)
        counts = {"job": jobs, "object": objects, **compilation.counts}
        words = ", ".join(counted(number, noun) for noun, number in counts.items() if number)
        ignored = len(compilation.suppressed)
        more = f" ({counted(ignored, 'warning')} ignored)" if ignored else ""
        click.echo(f"ok: {words or 'no documents'}{more}", err=True)
    for each in capacities:
        if each.answer.verdict in ("fits", "unknown"):
            why = f": {'; '.join(each.answer.reasons)}" if each.answer.reasons else ""
            click.echo(f"capacity: {each.title} {each.words}{why}", err=True)
    needs: dict[str, list[str]] = {}
    for group in compilation.groups:
        for need in group.needs:
            needs.setdefault(need, []).append(str(group.name))
    for need, names in needs.items():
        click.echo(f"needs in the cluster: {need} (for {', '.join(names)})", err=True)


def _corrected(
    paths: Sequence[str], chosen: "Options", corrections: _Corrections, reporting: Reporting
) -> "tuple[Compilation, bool]":
    """Compile the files, corrected if requested; return whether a patch was written, too."""
    files: Sequence[FixedFile] = ()
    if corrections.fix or corrections.diff:
        from etcompile.compiler.pipeline import compile  # noqa: A004
        from etcompile.fixes import fixed_files

        unsafe = corrections.unsafe_fixes
        files = fixed_files(lambda: compile(paths, chosen).findings, unsafe=unsafe)
    if corrections.diff:
        for file in files:
            before, after = (text.decode(errors="replace") for text in (file.before, file.after))
            # git apply takes names relative to the working directory.
            name = from_here(os.path.normpath(file.file))
            shown = _patch(name, redacted(before), redacted(after))
            write(*shown, errors="surrogateescape")
            if shown != _patch(name, before, after):
                words = "a credential is hidden in the patch, which cannot be applied; --fix can"
                click.echo(f"{file.file}: {words}", err=True)
        with access.instead_of({file.file: file.after for file in files}):
            return compiled(paths, chosen, reporting), bool(files)
    problems = [problem for file in files for problem in _written(file, reporting)]
    piped = {file.file: file.after for file in files if file.file == STANDARD_INPUT}
    with access.instead_of(piped):
        result = compiled(paths, chosen, reporting)
        if corrections.fix and (text := access.replacement(STANDARD_INPUT)) is not None:
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
    return structs.replace(result, diagnostics=(*problems, *result.diagnostics)), False


def _written(file: "FixedFile", reporting: Reporting) -> Sequence[Diagnostic]:
    """Write a fixed file and report it, unless it is read-only or has changed since."""
    from etcompile.emit.files import write_file

    name = "standard input"
    if file.file != STANDARD_INPUT:
        name, path, reason = file.file, Path(file.file), None
        try:
            if not (path.stat().st_mode & _WRITABLE and os.access(path, os.W_OK)):
                reason = "it is read-only"
            elif access.content(file.file) != file.before:
                reason = "somebody has changed it since it was read"
        except OSError as error:
            reason = error.strerror or str(error)
        if reason is not None:
            return [diagnose(codes.WRITE_FAILED, None, path=file.file, reason=reason)]
        if problems := write_file(path, file.after):
            return problems
    if notices(reporting):
        click.echo(f"{name}: {counted(len(file.fixed), 'correction')}", err=True)
        for diagnostic in file.fixed:
            place, fix = diagnostic.location, diagnostic.fix
            if place is not None and fix is not None:
                words = f"  line {place.line}: {fix.title} ({diagnostic.code})"
                click.echo(words, err=True)
    return []


def _patch(name: str, before: str, after: str) -> list[str]:
    import difflib

    from etcompile.fixes import lines_of

    # A tab ends a name with blanks.
    name = f"{name}\t" if " " in name else name
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(lines_of(before), lines_of(after), name, name)
    ]
