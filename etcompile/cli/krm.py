"""Run as a KRM function for kustomize and kpt (`etcompile krm`, `etcompile-krm`)."""

import os
import sys

import click

from etcompile.cli.command_line import subcommand
from etcompile.cli.configured import CompilingCommand, bounded
from etcompile.cli.options import SettingOptions, compiler_options
from etcompile.cli.reporting import report, write
from etcompile.diagnostics import RefusedError
from etcompile.load.configuration import root_of


class _Function(CompilingCommand):
    def repository(self) -> str:
        return root_of(os.path.realpath("."))


@subcommand("krm", SettingOptions, cls=_Function)
def command(ctx: click.Context, options: SettingOptions) -> None:
    """Run as a KRM function: replace the jobs in a ResourceList with their objects.

    Reads a ResourceList from standard input and writes one to standard output, as kustomize and kpt
    expect. The functionConfig is a job, an EtcompileGenerator (names files), or an
    EtcompileTransformer (takes the jobs among the items, and their scale intents).
    """
    from etcompile.integrations.krm import answer

    chosen = bounded(ctx, compiler_options(options))
    result = answer(sys.stdin.buffer.read(), chosen, strict=options.strict)
    for text in result.texts():
        write(text)
    # A pipeline shows standard error; it shows results only on request.
    if result.refused:
        raise RefusedError(result.diagnostics)
    report(result.diagnostics, options)
