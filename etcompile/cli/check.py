"""`etcompile check`: everything render would refuse or warn about, and advice about training."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile.cli import completing
from etcompile.cli.options import (
    CompileOptions,
    compile_options,
    counted,
    options,
    refuses,
    talks,
    tell,
)
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.exitcodes import REFUSED


class CheckOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile check`."""

    beside: bool
    select: tuple[str, ...]


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


@click.command("check", cls=SectionedCommand)
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
@takes(CheckOptions)
def command(ctx: click.Context, given: CheckOptions) -> None:
    """Report the errors and warnings of job files, and write nothing.

    These are those of render, and advice about training: ET9xxx. PATH is as for render.
    """
    paths = _beside(given.paths) if given.beside else given.paths
    asked = replace(options(given), without_keys=True, lint=True, select=given.select)
    compilation = compile(paths, asked)
    tell(compilation.findings, given, are_data=True)
    if refuses(compilation.diagnostics, given):
        ctx.exit(REFUSED)
    if not talks(given):
        return
    if not compilation.diagnostics:
        click.echo(f"ok: {_counted(compilation)}", err=True)
    for need, jobs in _needs(compilation).items():
        click.echo(f"needs in the cluster: {need} (for {', '.join(jobs)})", err=True)


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
