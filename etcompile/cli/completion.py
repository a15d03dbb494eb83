"""`etcompile completion`: what makes a shell complete commands, options and their values.

Shells ask click, by a script that this prints; kubectl asks `kubectl_complete-etcompile`, which
answers from here too.
"""

import sys

import click

from etcompile.cli.suggestion import Choice
from etcompile.cli.usage import Command


@click.command("completion", cls=Command)
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell for `etcompile`.

    bash: eval "$(etcompile completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after
    compinit. fish: etcompile completion fish > ~/.config/fish/completions/etcompile.fish. For
    kubectl nothing is needed: its own completion finds ours.
    """
    from click.shell_completion import get_completion_class

    from etcompile.cli.main import PROGRAM, _etcompile

    made = get_completion_class(shell)
    if made is None:  # whoever took it out of click's list
        raise click.ClickException(f"click knows no {shell}")
    script = made(_etcompile, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
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
