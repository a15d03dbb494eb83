"""`etcompile krm`: a KRM function, for kustomize and kpt; `etcompile-krm` is another name of it."""

import sys
from pathlib import Path

import click

from etcompile.cli.boundary import bounded, named_files
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import SettingOptions, options, setting_options, tell, write
from etcompile.cli.structs import takes
from etcompile.exitcodes import REFUSED

_OWN = f"{__name__}.own"
"""The files that the function's own command line names, and no configuration of a repository."""


class _Function(CompilingCommand):
    """A command that remembers which files its command line names."""

    for_others = True

    def repository(self) -> str:
        return _root()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_OWN] = named_files(self, args)
        return super().parse_args(ctx, args)


@click.command("krm", cls=_Function)
@setting_options
@takes(SettingOptions)
def command(ctx: click.Context, given: SettingOptions) -> None:
    """Run as a KRM function: replace the jobs of a ResourceList by their objects.

    Reads a ResourceList from standard input and writes one to standard output, as kustomize and kpt
    want it. The functionConfig is a job, an EtcompileGenerator (names files), or an
    EtcompileTransformer (takes the jobs among the items, and their scale intents).
    """
    from etcompile.integrations.krm import answer

    wanted = bounded(options(given), _root(), ctx.meta[_OWN])
    found = answer(sys.stdin.buffer.read(), wanted, strict=given.strict)
    for text in found.texts():
        write(text)
    # A pipeline shows what stands on standard error, and the results to who asks for them.
    tell(found.diagnostics, given)
    if found.refused:
        ctx.exit(REFUSED)


def _root() -> str:
    """The root of the repository that the function runs for."""
    from etcompile.diagnostics.output import repository

    return str(repository(Path.cwd()))


def main() -> None:
    """Runs it as a program of its own, where an earlier version has installed that program."""
    from etcompile.cli import krm_function

    krm_function()
