"""Run the language server that an editor starts (`etcompile lsp`)."""

import gc
from typing import TYPE_CHECKING, Any

import click

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import RENDERING, choices, compile_options, usage_errors

if TYPE_CHECKING:
    from etcompile.compiler.choices import Options
    from etcompile.diagnostics import Diagnostic


@click.command("lsp", cls=CompilingCommand, context_settings=HELP)
@compile_options(*RENDERING)
@click.pass_context
def command(ctx: click.Context, /, **params: Any) -> None:
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
    from etcompile.compiler.configured import configured

    # The command line applies to every file of the editor, each with its own configuration.
    how, flagged = choices(ctx, RENDERING, params)
    with usage_errors(ctx, flagged):
        without_file = configured([], isolated=True, overrides=how["overrides"]).options

    def options_of(path: str) -> "tuple[Options, tuple[Diagnostic, ...]]":
        result = configured([path], **how)
        return without_file if result.diagnostics else result.options, result.diagnostics

    # It runs for days, unlike other commands (etcompile.cli.main).
    gc.freeze()
    gc.enable()
    server(options_of).start_io()
