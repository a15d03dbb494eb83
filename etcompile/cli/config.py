"""Show the settings for an input, and where each of them comes from (`etcompile config`)."""

import json
from typing import Any

import click

from etcompile.cli.command_line import HELP, Command
from etcompile.cli.options import OPTIONAL_PATHS, chooses_output
from etcompile.cli.reporting import Reporting, report, write
from etcompile.data import setting_schemas
from etcompile.diagnostics.output import Format
from etcompile.exitcodes import REFUSED


@click.command("config", cls=Command, context_settings=HELP)
@OPTIONAL_PATHS
@click.option("--environment", metavar="NAME", help="Environment in the file whose settings apply.")
@click.option(
    "--config",
    "named",
    metavar="FILE",
    type=click.Path(),
    help="Configuration file to use instead of the nearest one.",
)
@chooses_output("Format of the output.", "text", "json")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    environment: str | None,
    named: str | None,
    output: Format,
) -> None:
    """Show the settings with which PATH is compiled, and where each of them comes from.

    They come from the nearest etcompile.toml above PATH, or the table tool.etcompile of a
    pyproject.toml, up to the root of the repository. The command line and overlays override them.
    Exits with 2 if the file has errors.
    """
    from etcompile.compiler.configured import configured

    result = configured(paths or (".",), environment=environment, file=named)
    if result.diagnostics:
        report(result.diagnostics, Reporting(output), are_data=True)
        ctx.exit(REFUSED)
    places: dict[str, tuple[Any, str]] = {
        key: (schema.get("default", [] if schema["type"] == "array" else None), "default")
        for key, schema in setting_schemas().items()
    }
    if (file := result.configuration) is not None:
        for key, (value, where) in result.written.items():
            places[key] = value, str(file.location(where))
    lines = sorted(places.items())
    if output == "json":
        record = result.record
        document = {
            "file": file.file if file else None,
            "sha256": record[1] if record else None,
            "environment": environment,
            "settings": {name: {"value": value, "from": place} for name, (value, place) in lines},
        }
        write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    chosen = f", environment {environment}" if environment else ""
    write(f"# configuration file: {file.file if file else 'none'}{chosen}\n")
    texts = []
    for name, (setting, place) in lines:
        shown = "(none)" if setting is None else json.dumps(setting, ensure_ascii=False)
        texts.append((f"{name} = {shown}", place))
    width = min(max(len(text) for text, _ in texts), 48)
    write(*(f"{text:<{width}}  # {place}\n" for text, place in texts))
