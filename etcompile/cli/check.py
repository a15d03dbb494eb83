"""`etcompile check`: everything render would refuse or warn about, and nothing else."""

from typing import Any

import click

from etcompile.cli.options import REFUSED, compile_options, options, refuses, talks, tell
from etcompile.compiler import compile  # noqa: A004


@click.command("check")
@compile_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Report everything render would refuse or warn about."""
    compilation = compile(given["paths"], options(given))
    tell(compilation.diagnostics, given, are_data=True)
    if refuses(compilation.diagnostics, strict=given["strict"]):
        ctx.exit(REFUSED)
    if talks(given) and not compilation.diagnostics:
        click.echo("nothing to say against it", err=True)
