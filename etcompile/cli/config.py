"""Show the settings for an input, and where each of them comes from (`etcompile config`)."""

import json
from typing import Any, Literal

import click
from msgspec import Struct

from etcompile.cli.command_line import option, subcommand
from etcompile.cli.configured import configured, settings
from etcompile.cli.options import OPTIONAL_PATHS, ReportOptions
from etcompile.cli.reporting import report, write
from etcompile.exitcodes import REFUSED


class _Options(Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    environment: str | None = option(
        metavar="NAME", help="Environment in the file whose settings apply."
    )
    config: str | None = option(
        metavar="FILE",
        type=click.Path(),
        help="Configuration file to use instead of the nearest one.",
    )
    output: Literal["text", "json"] = option("-o", default="text", help="Format of the output.")


@subcommand("config", _Options)
def command(ctx: click.Context, options: _Options) -> None:
    """Show the settings with which PATH is compiled, and where each of them comes from.

    They come from the nearest etcompile.toml above PATH, or the table tool.etcompile of a
    pyproject.toml, up to the root of the repository. The command line and overlays override them.
    Exits with 2 if the file has errors.
    """
    result = configured(
        options.paths or (".",), environment=options.environment, file=options.config
    )
    if result.diagnostics:
        reporting = ReportOptions(form=options.output, color="auto", quiet=False)
        report(result.diagnostics, reporting, are_data=True)
        ctx.exit(REFUSED)
    places: dict[str, tuple[Any, str]] = {
        name: ([] if param.multiple else param.default, "default")
        for name, param in settings().items()
    }
    if (file := result.configuration) is not None:
        for name, value in result.settings.items():
            places[name] = value.value, str(file.location(value.place))
    lines = sorted(places.items())
    if options.output == "json":
        record = result.record
        document = {
            "file": file.file if file else None,
            "sha256": record[1] if record else None,
            "environment": options.environment,
            "settings": {name: {"value": value, "from": place} for name, (value, place) in lines},
        }
        write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    chosen = f", environment {options.environment}" if options.environment else ""
    write(f"# configuration file: {file.file if file else 'none'}{chosen}\n")
    texts = []
    for name, (setting, place) in lines:
        shown = "(none)" if setting is None else json.dumps(setting, ensure_ascii=False)
        texts.append((f"{name} = {shown}", place))
    width = min(max(len(text) for text, _ in texts), 48)
    write(*(f"{text:<{width}}  # {place}\n" for text, place in texts))
