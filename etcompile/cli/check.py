"""`etcompile check`: everything render would refuse or warn about, and advice about training."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile.cli import completing
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    CompileOptions,
    compile_options,
    counted,
    options,
    refuses,
    talks,
    tell,
)
from etcompile.cli.structs import takes
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic
from etcompile.diagnostics.output.audience import STANDARD_INPUT
from etcompile.exitcodes import DIFFERENT, REFUSED
from etcompile.load import access


class CheckOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile check`."""

    beside: bool
    select: tuple[str, ...]
    fix: bool
    unsafe_fixes: bool
    diff: bool


def _selected(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> Any:
    """The codes of `--select`; only those that are not reported anyhow can be selected."""
    if not given:
        return ()
    from etcompile.diagnostics.selection import problem
    from etcompile.diagnostics.suppression import codes_of

    codes = codes_of(given)
    if found := [f"{code}: {why[0]}; {why[1]}" for code in codes if (why := problem(code))]:
        raise click.BadParameter("; ".join(found))
    return codes


@click.command("check", cls=CompilingCommand)
@compile_options
@click.option(
    "--beside",
    is_flag=True,
    help="Also read the other files in the folder of each PATH, such as the job of a ScaleOut.",
)
@click.option(
    "--select",
    metavar="CODE",
    multiple=True,
    callback=_selected,
    shell_complete=completing.selectable,
    help="Also report this advice, which is not reported by default, such as ET9034, or several,"
    " separated by commas. May be repeated.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Correct in the files what can only have been meant one way, such as the spelling of a"
    " field, and report the rest. Comments and layout stay as they are.",
)
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="With --fix or --diff: also correct what was probably meant. Look at the result.",
)
@click.option(
    "--diff",
    is_flag=True,
    help="Write what --fix would change to standard output, and change nothing.",
)
@takes(CheckOptions)
def command(ctx: click.Context, given: CheckOptions) -> None:
    """Report the errors and warnings of job files, and write nothing unless told to --fix them.

    These are those of render, and advice about training: ET9xxx. PATH is as for render. Ends with
    2 if something is refused, and with 1 if --diff shows changes.
    """
    if given.fix and given.diff:
        raise click.UsageError("--diff changes nothing, and --fix does: name one of them.")
    if given.unsafe_fixes and not (given.fix or given.diff):
        raise click.UsageError("--unsafe-fixes needs --fix or --diff.")
    paths = _beside(given.paths) if given.beside else given.paths
    asked = replace(options(given), without_keys=True, lint=True, select=given.select)
    is_piped = STANDARD_INPUT in paths and (given.fix or given.diff)
    # It is read more than once.
    piped = {STANDARD_INPUT: sys.stdin.buffer.read()} if is_piped else {}

    def compiled() -> Compilation:
        return compile(paths, asked)

    differs = False
    with access.instead_of(piped):
        if given.fix or given.diff:
            from etcompile.cli.corrections import correct

            compilation, differs = correct(
                compiled, given, unsafe=given.unsafe_fixes, diff=given.diff
            )
        else:
            compilation = compiled()
        findings = compilation.findings
        if any(finding.fix for finding in findings):
            from etcompile.fixes import with_edits

            findings = tuple(with_edits(findings))
    # Standard output may hold a patch, or the text that came on standard input.
    tell(findings, given, are_data=not (given.diff or is_piped))
    if talks(given) and any(finding.fix for finding in findings):
        click.echo(_fixable(findings), err=True)
    if refuses(compilation.diagnostics, given):
        ctx.exit(REFUSED)
    if differs:
        ctx.exit(DIFFERENT)
    if not talks(given):
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
            beside = sorted(Path(path).parent.iterdir())
            found |= {str(neighbour): None for neighbour in beside if _may_hold_objects(neighbour)}
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
