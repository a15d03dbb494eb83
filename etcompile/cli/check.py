"""`etcompile check`: everything render would refuse or warn about, and advice about training."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from msgspec.structs import replace

from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import AdviceOptions, CompileOptions, compiler_options
from etcompile.cli.parameters import option, subcommand
from etcompile.cli.reporting import counted, notices, refuses, report
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic
from etcompile.diagnostics.output.audience import STANDARD_INPUT
from etcompile.exitcodes import DIFFERENT, REFUSED
from etcompile.load import access


class CheckOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile check`."""

    advice: AdviceOptions
    fix: bool = option(
        help="Correct in the files what can only have been meant one way, such as the spelling of"
        " a field, and report the rest. Comments and layout stay as they are.",
    )
    unsafe_fixes: bool = option(
        help="With --fix or --diff: also correct what was probably meant. Look at the result."
    )
    diff: bool = option(
        help="Write what --fix would change to standard output, and change nothing."
    )


@subcommand("check", CheckOptions, cls=CompilingCommand)
def command(ctx: click.Context, options: CheckOptions) -> None:
    """Report the errors and warnings of job files, and write nothing unless told to --fix them.

    These are those of render, and advice about training: ET9xxx. PATH is as for render. Ends with
    2 if something is refused, and with 1 if --diff shows changes.
    """
    if options.fix and options.diff:
        raise click.UsageError("--diff changes nothing, and --fix does: name one of them.")
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise click.UsageError("--unsafe-fixes needs --fix or --diff.")
    paths = _beside(options.paths) if options.advice.beside else options.paths
    select = options.advice.select
    chosen = replace(compiler_options(options), without_keys=True, lint=True, select=select)
    is_piped = STANDARD_INPUT in paths and (options.fix or options.diff)
    # It is read more than once.
    piped = {STANDARD_INPUT: sys.stdin.buffer.read()} if is_piped else {}

    def compiled() -> Compilation:
        return compile(paths, chosen)

    differs = False
    with access.instead_of(piped):
        if options.fix or options.diff:
            from etcompile.cli.corrections import correct

            compilation, differs = correct(
                compiled, options, unsafe=options.unsafe_fixes, diff=options.diff
            )
        else:
            compilation = compiled()
        findings = compilation.findings
        if any(finding.fix for finding in findings):
            from etcompile.fixes import with_edits

            findings = tuple(with_edits(findings))
    # Standard output may hold a patch, or the text that came on standard input.
    report(findings, options, are_data=not (options.diff or is_piped))
    if notices(options) and any(finding.fix for finding in findings):
        click.echo(_fixable(findings), err=True)
    if refuses(compilation.diagnostics, options):
        ctx.exit(REFUSED)
    if differs:
        ctx.exit(DIFFERENT)
    if not notices(options):
        return
    if not compilation.diagnostics:
        click.echo(f"ok: {_counted(compilation)}", err=True)
    for need, jobs in _needs(compilation).items():
        click.echo(f"needs in the cluster: {need} (for {', '.join(jobs)})", err=True)


def _fixable(findings: Iterable[Diagnostic]) -> str:
    """How many of the findings can be corrected, and how."""
    safe = sum(finding.fix.is_safe for finding in findings if finding.fix)
    unsafe = sum(not finding.fix.is_safe for finding in findings if finding.fix)
    if not safe:
        return f"{unsafe} can be corrected with --fix --unsafe-fixes, which guess what was meant"
    more = f", {unsafe} more with --unsafe-fixes" if unsafe else ""
    return f"{safe} can be corrected with --fix{more}"


def _counted(compilation: Compilation) -> str:
    """What was checked: `1 job, 7 objects`, and how many warnings were ignored."""
    jobs = sum(group.name is not None for group in compilation.groups)
    objects = sum(len(group.objects) for group in compilation.groups)
    ignored = len(compilation.suppressed)
    counts = f"{counted(jobs, 'job')}, {counted(objects, 'object')}"
    return f"{counts} ({counted(ignored, 'warning')} ignored)" if ignored else counts


def _beside(paths: Iterable[str]) -> list[str]:
    """The paths, and the files of their folders that may hold objects.

    Whoever names the files that changed, as pre-commit does, leaves out the job that a new scale
    intent is for.
    """
    found: dict[str, None] = {}
    for path in paths:
        found[path] = None
        if path != "-" and Path(path).is_file():
            others = sorted(Path(path).parent.iterdir())
            found |= {str(other): None for other in others if _may_hold_objects(other)}
    return list(found)


def _may_hold_objects(file: Path) -> bool:
    return file.suffix in (".yaml", ".yml", ".json") and file.name[0] != "." and file.is_file()


def _needs(compilation: Compilation) -> dict[str, list[str]]:
    """What must be in the cluster, which nobody can see from here, and for which jobs."""
    found: dict[str, list[str]] = {}
    for group in compilation.groups:
        for need in group.needs:
            found.setdefault(need, []).append(str(group.name))
    return found
