"""`etcompile completion`: what makes a shell complete commands, options and their values.

Shells ask click, by a script that this prints; kubectl asks `kubectl_complete-etcompile`, which
answers from here too.
"""

import sys
from typing import Literal

import click
from msgspec import Struct

from etcompile.cli.parameters import argument, subcommand


class CompletionOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile completion`."""

    shell: Literal["bash", "zsh", "fish"] = argument()


@subcommand("completion", CompletionOptions)
def command(ctx: click.Context, options: CompletionOptions) -> None:
    """Print the completion script of a shell for `etcompile`.

    bash: eval "$(etcompile completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after
    compinit. fish: etcompile completion fish > ~/.config/fish/completions/etcompile.fish. For
    kubectl nothing is needed: its own completion finds ours.
    """
    from click.shell_completion import get_completion_class

    from etcompile.cli.main import PROGRAM

    complete = get_completion_class(options.shell)
    if complete is None:  # whoever took it out of click's list
        raise click.ClickException(f"click knows no {options.shell}")
    root = ctx.find_root().command
    script = complete(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    # Not source(): that starts the shell to see how old it is.
    click.echo(script.source_template % script.source_vars())


_FILES, _NO_FILES = 0, 4
"""Bits of cobra's that kubectl reads after the values: whether the shell is to add files."""


def kubectl() -> None:
    """Answers kubectl's own completion, which calls this as `kubectl_complete-etcompile WORD...`.

    One value a line, a tab and what it means, and last a colon and a number for the shell.
    """
    from click.shell_completion import ShellComplete

    from etcompile.cli.main import PROGRAM, _etcompile

    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(_etcompile, {}, PROGRAM, "").get_completions(words, incomplete)
    values = [item for item in items if item.type == "plain"]
    for item in values:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_NO_FILES if len(values) == len(items) else _FILES}")
