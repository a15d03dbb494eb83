"""`etcompile config`: the settings that hold for an input, and where each of them comes from."""

import json
from typing import Any, Literal

import click
from msgspec import Struct

from etcompile.cli import completion
from etcompile.cli.configured import configured, settings
from etcompile.cli.framework import Setting, option, subcommand
from etcompile.cli.options import FILENAMES, OPTIONAL_PATHS, ReportOptions
from etcompile.cli.reporting import report, write
from etcompile.exitcodes import REFUSED


class ConfigOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile config`."""

    paths: tuple[str, ...] = OPTIONAL_PATHS
    filenames: tuple[str, ...] = FILENAMES
    environment: str | None = option(
        metavar="NAME",
        shell_complete=completion.environments,
        help="Environment of the file whose settings count.",
    )
    config: str | None = option(
        metavar="FILE",
        shell_complete=completion.files,
        help="Configuration file, not the nearest.",
    )
    output: Literal["text", "json"] = option("-o", default="text", help="Format of the output.")


@subcommand("config", ConfigOptions)
def command(ctx: click.Context, options: ConfigOptions) -> None:
    """Show the settings with which PATH is compiled, and where each of them comes from.

    They come from the nearest etcompile.toml above PATH, or the table tool.etcompile of a
    pyproject.toml, up to the root of the repository. The command line and overlays count before
    them. Ends with 2 if the file is faulty.
    """
    found = configured(options.paths, environment=options.environment, file=options.config)
    if found.diagnostics:
        reporting = ReportOptions(form=options.output, color="auto", quiet=False)
        report(found.diagnostics, reporting, are_data=True)
        ctx.exit(REFUSED)
    places: dict[str, tuple[Any, str]] = {
        name: (_default(param), "default") for name, param in settings().items()
    }
    if (file := found.configuration) is not None:
        for name, value in found.settings.items():
            places[name] = value.value, str(file.location(value.place))
    lines = sorted(places.items())
    if options.output == "json":
        record = found.record
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
    texts = [
        f"{name} = {'(none)' if value is None else json.dumps(value, ensure_ascii=False)}"
        for name, (value, _) in lines
    ]
    width = min(max(map(len, texts)), 48)
    write(
        *(
            f"{text:<{width}}  # {place}\n"
            for text, (_, (_, place)) in zip(texts, lines, strict=True)
        )
    )


def _default(param: Setting) -> Any:
    """What holds where nobody says anything; an empty list or None if that is nothing."""
    if param.multiple:
        return []
    return param.default if isinstance(param.default, str | bool) else None
