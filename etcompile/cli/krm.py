"""Run as a KRM function for kustomize and kpt (`etcompile krm`, `etcompile-krm`)."""

import os
import sys
from typing import TYPE_CHECKING

import click

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import RENDERING, Door, compiles
from etcompile.cli.reporting import Reporting, report, write
from etcompile.diagnostics import RefusedError
from etcompile.load.configuration import root_of

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured


@click.command("krm", cls=CompilingCommand, context_settings=HELP)
@compiles(*RENDERING, door=lambda: Door(root_of(os.path.realpath("."))))
def command(configured: "Configured", reporting: Reporting) -> None:
    """Run as a KRM function: replace the jobs in a ResourceList with their objects.

    Reads a ResourceList from standard input and writes one to standard output, as kustomize and kpt
    expect. The functionConfig is a job, an EtcompileGenerator (names files), or an
    EtcompileTransformer (takes the jobs among the items, and their scale intents).
    """
    from etcompile.integrations.krm import answer

    result = answer(sys.stdin.buffer.read(), configured.options, strict=reporting.strict)
    for text in result.texts():
        write(text)
    # A pipeline shows standard error; it shows results only on request.
    if result.refused:
        raise RefusedError(result.diagnostics)
    report(result.diagnostics, reporting)
