"""`etcompile config`: the settings that hold for an input, and where each of them comes from."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import click
from msgspec import Struct

from etcompile.cli import completing
from etcompile.cli.configured import Configured, configured, settings
from etcompile.cli.options import FILENAMES, OPTIONAL_PATHS, ReportOptions
from etcompile.cli.parameters import Setting, option, subcommand
from etcompile.cli.reporting import report, write
from etcompile.exitcodes import REFUSED


class ConfigOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile config`."""

    paths: tuple[str, ...] = OPTIONAL_PATHS
    filenames: tuple[str, ...] = FILENAMES
    environment: str | None = option(
        metavar="NAME",
        shell_complete=completing.environments,
        help="Environment of the file whose settings count.",
    )
    config: str | None = option(
        metavar="FILE",
        shell_complete=completing.files,
        help="Configuration file, not the nearest.",
    )
    output: Literal["text", "json"] = option("-o", default="text", help="Format of the output.")


class _Line(Struct, frozen=True):
    """A setting.

    Args:
        name: The name of its option without hyphens.
        value: What holds; None if there is no default.
        source: `file:line:column`, or `default`.
    """

    name: str
    value: Any
    source: str


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
    lines = [*_lines(found)]
    if options.output == "json":
        record = found.record
        value = {
            "file": found.configuration.file if found.configuration else None,
            "sha256": record[1] if record else None,
            "environment": options.environment,
            "settings": {line.name: {"value": line.value, "from": line.source} for line in lines},
        }
        write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return
    chosen = f", environment {options.environment}" if options.environment else ""
    file = found.configuration.file if found.configuration else "none"
    write(f"# configuration file: {file}{chosen}\n")
    texts = [f"{line.name} = {_shown(line.value)}" for line in lines]
    width = min(max(map(len, texts)), 48)
    write(*(f"{text:<{width}}  # {line.source}\n" for text, line in zip(texts, lines, strict=True)))


def _lines(found: Configured) -> Iterator[_Line]:
    for name, param in sorted(settings().items()):
        setting = found.settings.get(name)
        if setting is not None and found.configuration is not None:
            source = str(found.configuration.location(setting.place))
            yield _Line(name, setting.value, source)
        else:
            yield _Line(name, _default(param), "default")


def _default(param: Setting) -> Any:
    """What holds where nobody says anything; an empty list or None if that is nothing."""
    default = param.default
    if param.multiple:
        return list(default) if isinstance(default, list | tuple) else []
    return default if isinstance(default, str | bool) else None


def _shown(value: Any) -> str:
    """A value as the file would have it; nothing where there is none."""
    if value is None:
        return "(none)"
    return json.dumps(value, ensure_ascii=False)
