"""`etcompile render`: job specifications to manifests, on standard output or in a folder."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from etcompile import emit
from etcompile.cli.options import REFUSED, compile_options, options, refuses, tell
from etcompile.compiler import Compilation, compile  # noqa: A004


@click.command("render")
@compile_options
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write a folder with a kustomization instead of a stream; it is replaced as a whole.",
)
@click.option("--split", is_flag=True, help="With -o: one file per object.")
@click.pass_context
def command(ctx: click.Context, /, output: Path | None, *, split: bool, **given: Any) -> None:
    """Compile job specifications to Kubernetes manifests.

    PATH is a file, a directory, a glob, or - for standard input. Scale intents find their job
    by name, in whatever order they come.
    """
    if split and output is None:
        raise click.UsageError("--split needs -o DIR")
    compilation = compile(given["paths"], replace(options(given), output=output))
    tell(compilation.diagnostics, given)
    if refuses(compilation.diagnostics, strict=given["strict"]):
        ctx.exit(REFUSED)
    if output is None:
        manifests = emit.stream(compilation.objects, compilation.sources)
        sys.stdout.buffer.write(manifests.encode())
        sys.stdout.flush()
    else:
        _write(ctx, compilation, output, given, split=split)


def _write(
    ctx: click.Context,
    compilation: Compilation,
    output: Path,
    given: dict[str, Any],
    *,
    split: bool,
) -> None:
    groups = [
        emit.Group(group.name, group.namespace, group.objects, group.sources)
        for group in compilation.groups
    ]
    inputs = [Path(path) for path in (*given["paths"], *compilation.files) if path != "-"]
    written = emit.write(output, emit.layout(groups, split=split), inputs=inputs)
    tell(written.diagnostics, given)
    if written.diagnostics:
        ctx.exit(REFUSED)
    if not given["quiet"]:
        counts = f"{written.written} written, {written.unchanged} unchanged"
        removed = f", {len(written.removed)} removed" if written.removed else ""
        click.echo(f"{output}: {counts}{removed}", err=True)
