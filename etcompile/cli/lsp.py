"""Run the language server that an editor starts (`etcompile lsp`)."""

import gc

import click

from etcompile.cli.command_line import SectionedCommand, subcommand
from etcompile.cli.configured import ConfigurationError, configured_options
from etcompile.cli.options import SettingOptions, compiler_options
from etcompile.compiler.choices import Options
from etcompile.diagnostics import Diagnostic

_WORDS = f"{__name__}.words"


class _Server(SectionedCommand):
    """A command that remembers its command line, which applies to every file of the editor."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


@subcommand("lsp", SettingOptions, cls=_Server)
def command(ctx: click.Context, options: SettingOptions) -> None:
    """Speak the Language Server Protocol on standard input and output.

    An editor starts it and shows errors and warnings while you type, their corrections, and what
    a job compiles to. Each file is compiled as its configuration file says. docs/editors.md has the
    settings for VS Code, Neovim and Helix, also for the YAML language server, which completes
    fields. It needs the extra etcompile[lsp].
    """
    try:
        from etcompile.integrations.editor.server import server
    except ImportError as error:
        advice = "install the extra etcompile[lsp], as docs/install.md shows"
        raise click.ClickException(f"{error.name} is not installed: {advice}") from error
    words, without_file = ctx.meta[_WORDS], compiler_options(options)

    def options_of(path: str) -> tuple[Options, tuple[Diagnostic, ...]]:
        try:
            return configured_options(path, *words), ()
        except ConfigurationError as error:
            return without_file, error.diagnostics

    # It runs for days, unlike other commands (etcompile.cli.main).
    gc.freeze()
    gc.enable()
    server(options_of).start_io()
