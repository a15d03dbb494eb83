"""Show what the compiled objects wait for, as a tree or a flowchart (`etcompile graph`)."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import PATHS, chooses_output, compiles
from etcompile.cli.reporting import Reporting, compiled, report, write
from etcompile.diagnostics import RefusedError, codes

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured


@click.command("graph", cls=CompilingCommand, context_settings=HELP)
@PATHS
@compiles("namespace", "overlay", "output-format", "quiet")
@chooses_output("A tree for the terminal, or a Mermaid flowchart.", "tree", "mermaid")
def command(
    paths: tuple[str, ...], configured: "Configured", reporting: Reporting, output: str
) -> None:
    """Show the order in which the objects of jobs start, and what each waits for.

    An object waits for all earlier waves and for what its spec names; a launcher waits for its
    workers. Objects that wait for each other are an error.
    """
    from etcompile.diagnostics import diagnose
    from etcompile.operations.declarations import declarations
    from etcompile.plan.needs import FORMS, bundled, deadlock, graph

    chosen = replace(configured.options, without_keys=True)
    compilation = compiled(paths, chosen, reporting)
    if not compilation.ok:
        raise RefusedError(compilation.findings)
    whole = graph(declarations(compilation))
    ring = deadlock(whole)
    problems = [diagnose(codes.DEADLOCK, None, ring=ring)] if ring else []
    if problems:
        raise RefusedError((*compilation.findings, *problems))
    report(compilation.findings, reporting)
    write(FORMS[output](bundled(whole)))
