"""`etcompile check`: everything render would refuse or warn about, and nothing else."""

from typing import Any

import click
from msgspec.structs import replace

from etcompile.cli.options import REFUSED, compile_options, options, refuses, talks, tell
from etcompile.compiler import Compilation, compile  # noqa: A004


@click.command("check")
@compile_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Report everything render would refuse or warn about."""
    compilation = compile(given["paths"], replace(options(given), without_keys=True))
    tell(compilation.diagnostics, given, are_data=True)
    if refuses(compilation.diagnostics, strict=given["strict"]):
        ctx.exit(REFUSED)
    if not talks(given):
        return
    if not compilation.diagnostics:
        click.echo("nothing to say against it", err=True)
    for need, jobs in _needs(compilation).items():
        click.echo(f"needs in the cluster: {need} (for {', '.join(jobs)})", err=True)


def _needs(compilation: Compilation) -> dict[str, list[str]]:
    """What must be in the cluster, which nobody can see from here, and for which jobs."""
    found: dict[str, list[str]] = {}
    for group in compilation.groups:
        for need in group.needs:
            found.setdefault(need, []).append(str(group.name))
    return found
