"""`etcompile graph`: what the compiled objects wait for, as a tree or a flowchart."""

from typing import Literal

import click
from msgspec.structs import replace

from etcompile import emit
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    CompileOptions,
    file_setting_options,
    options,
    paths_argument,
    refuses,
    tell,
    write,
)
from etcompile.cli.structs import output_option, takes
from etcompile.compiler import compile  # noqa: A004
from etcompile.diagnostics import codes
from etcompile.exitcodes import REFUSED


class GraphOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile graph`."""

    output: Literal["tree", "mermaid"]


@click.command("graph", cls=CompilingCommand)
@paths_argument(required=True)
@file_setting_options
@output_option(
    "tree",
    "mermaid",
    help="A tree for the terminal, or a Mermaid flowchart.",
)
@takes(GraphOptions)
def command(ctx: click.Context, given: GraphOptions) -> None:
    """Show the order in which the objects of jobs start, and what each waits for.

    An object waits for all earlier waves and for what its spec names; a launcher waits for its
    workers. Objects that wait for each other are an error.
    """
    from etcompile.diagnostics import diagnose
    from etcompile.operations.declarations import job_title
    from etcompile.plan.bundles import bundled
    from etcompile.plan.draw import FORMS
    from etcompile.plan.graph import Group, deadlock, graph

    compilation = compile(given.paths, replace(options(given), without_keys=True))
    if refuses(compilation.diagnostics, given):
        tell(compilation.findings, given)
        ctx.exit(REFUSED)
    whole = graph(
        (
            Group(job_title(group.namespace, group.name), group.objects, group.waits)
            for group in compilation.groups
        ),
        emit.wave,
    )
    ring = deadlock(whole)
    problems = [diagnose(codes.DEADLOCK, None, ring=ring)] if ring else []
    tell((*compilation.findings, *problems), given)
    if problems:
        ctx.exit(REFUSED)
    write(FORMS[given.output](bundled(whole)))
