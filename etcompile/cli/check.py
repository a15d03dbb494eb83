"""`etcompile check`: everything render would refuse or warn about, and nothing else."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile.cli.options import REFUSED, compile_options, options, refuses, talks, tell
from etcompile.compiler import Compilation, compile  # noqa: A004


@click.command("check")
@compile_options
@click.option(
    "--beside",
    is_flag=True,
    help="Read what stands beside each PATH too: a scale intent is nothing without its job.",
)
@click.pass_context
def command(ctx: click.Context, /, *, beside: bool, **given: Any) -> None:
    """Report everything render would refuse or warn about."""
    paths = _beside(given["paths"]) if beside else given["paths"]
    compilation = compile(paths, replace(options(given), without_keys=True))
    tell(compilation.diagnostics, given, are_data=True)
    if refuses(compilation.diagnostics, strict=given["strict"]):
        ctx.exit(REFUSED)
    if not talks(given):
        return
    if not compilation.diagnostics:
        click.echo("nothing to say against it", err=True)
    for need, jobs in _needs(compilation).items():
        click.echo(f"needs in the cluster: {need} (for {', '.join(jobs)})", err=True)


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
            found |= {str(one): None for one in beside if _may_hold_objects(one)}
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
