"""`etcompile krm`: a KRM function, for kustomize and kpt; `etcompile-krm` is another name of it."""

import sys
from typing import Any

import click

from etcompile.cli.options import REFUSED, options, setting_options, tell


@click.command("krm")
@setting_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Replace jobs by what they compile to, in a ResourceList.

    Reads a ResourceList from standard input and writes one to standard output, as kustomize and kpt
    want it. The functionConfig is a job, an EtcompileGenerator (names files), or an
    EtcompileTransformer (takes the jobs among the items, and their scale intents).
    """
    from etcompile.krm import answer

    found = answer(sys.stdin.buffer.read(), options(given), strict=given["strict"])
    for text in found.texts():
        sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()
    # A pipeline shows what stands on standard error, and the results to who asks for them.
    tell(found.diagnostics, given)
    if found.refused:
        ctx.exit(REFUSED)


def main() -> None:
    """Runs it as a program of its own, which is what a functionConfig can name."""
    from etcompile.cli.main import main as etcompile

    sys.argv[1:1] = ["krm"]
    etcompile()
