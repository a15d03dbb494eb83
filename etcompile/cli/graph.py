"""Show what the compiled objects wait for, as a tree or a flowchart (`etcompile graph`)."""

from typing import Literal

import click
from msgspec.structs import replace

from etcompile.cli.command_line import option, subcommand
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import CompileOptions, compiler_options
from etcompile.cli.reporting import compiled, report, write
from etcompile.diagnostics import RefusedError, codes


class _Options(CompileOptions, frozen=True, kw_only=True):
    output: Literal["tree", "mermaid"] = option(
        "-o", default="tree", help="A tree for the terminal, or a Mermaid flowchart."
    )


@subcommand("graph", _Options, cls=CompilingCommand, flags=())
def command(_ctx: click.Context, options: _Options) -> None:
    """Show the order in which the objects of jobs start, and what each waits for.

    An object waits for all earlier waves and for what its spec names; a launcher waits for its
    workers. Objects that wait for each other are an error.
    """
    from etcompile.diagnostics import diagnose
    from etcompile.operations.declarations import declarations
    from etcompile.plan.needs import FORMS, bundled, deadlock, graph

    chosen = replace(compiler_options(options), without_keys=True)
    compilation = compiled(options.paths, chosen, options)
    if not compilation.ok:
        raise RefusedError(compilation.findings)
    whole = graph(declarations(compilation))
    ring = deadlock(whole)
    problems = [diagnose(codes.DEADLOCK, None, ring=ring)] if ring else []
    if problems:
        raise RefusedError((*compilation.findings, *problems))
    report(compilation.findings, options)
    write(FORMS[options.output](bundled(whole)))
