"""`etcompile lsp`: a language server, which an editor starts."""

import click

from etcompile.cli.options import SettingOptions, options, setting_options
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes


@click.command("lsp", cls=SectionedCommand)
@setting_options
@takes(SettingOptions)
def command(_ctx: click.Context, given: SettingOptions) -> None:
    """Speak the Language Server Protocol on standard input and output.

    An editor starts it and shows what it says: errors and warnings while you type, their
    corrections, the fields of every kind down into the Pod template, what a field is for, and what
    a job compiles to. docs/editors.md has the settings for VS Code, Neovim and Helix. It needs
    pip install 'etcompile[lsp]'.
    """
    try:
        from etcompile.integrations.editor.server import server
    except ImportError as error:
        raise click.ClickException(
            f"{error.name} is not installed: pip install 'etcompile[lsp]'"
        ) from error
    server(options(given)).start_io()
