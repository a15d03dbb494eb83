"""Complete command lines: values of options that click does not know, and shell scripts.

Shells call click by the script that `etcompile completion` prints; kubectl calls
`kubectl_complete-etcompile`, which is here, too. Lists of values are imported only when the user
presses Tab.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from etcompile.cli.command_line import HELP, Command

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@click.command("completion", cls=Command, context_settings=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell for `etcompile`.

    bash: eval "$(etcompile completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after
    compinit. fish: etcompile completion fish > ~/.config/fish/completions/etcompile.fish. For
    kubectl nothing is needed: its own completion finds ours.
    """
    from click.shell_completion import get_completion_class

    from etcompile.cli.main import PROGRAM

    complete = get_completion_class(shell)
    if complete is None:  # a plugin of click removed it
        raise click.ClickException(f"click knows no {shell}")
    root = ctx.find_root().command
    script = complete(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    # Not source(): that starts the shell to check its version.
    click.echo(script.source_template % script.source_vars())


def kubectl() -> None:
    """Complete for kubectl, which calls this as `kubectl_complete-etcompile WORD...`.

    Prints a value a line, with a tab and its meaning, and last a colon and a number for the shell:
    4 if it shall not add files (cobra's ShellCompDirectiveNoFileComp), else 0.
    """
    from click.shell_completion import ShellComplete

    from etcompile.cli.main import PROGRAM, program

    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(program, {}, PROGRAM, "").get_completions(words, incomplete)
    values = [item for item in items if item.type == "plain"]
    for item in values:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{4 if len(values) == len(items) else 0}")


# Values -------------------------------------------------------------------------------------------


def beginning_with(values: Iterable[tuple[str, str]], incomplete: str) -> "list[CompletionItem]":
    """Return the values that begin like an incomplete one, each with what it means."""
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(value, help=words or None)
        for value, words in values
        if value.lower().startswith(incomplete.lower())
    ]


def codes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from etcompile.diagnostics.catalogue import codes_by_name

    return beginning_with(((code, name) for name, code in codes_by_name().items()), incomplete)


def settings(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from etcompile.data import setting_schemas

    words = []
    for key, schema in setting_schemas().items():
        known = ["true", "false"] if schema["type"] == "boolean" else [""]
        values = schema.get("items", schema).get("enum", known)
        words += [(f"{key}={value}", schema["description"]) for value in values]
    # Files first: bash drops values before them.
    return [CompletionItem(incomplete, type="file"), *beginning_with(words, incomplete)]


def overlays(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from etcompile.overlays.overlay_files import shipped

    names = beginning_with(((name, "ships with etcompile") for name in shipped()), incomplete)
    # Files first: bash drops values before them.
    return [CompletionItem(incomplete, type="file"), *names]


def contexts(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from etcompile.kubeapi import kubeconfig

    try:
        names = kubeconfig.contexts(ctx.params.get("kubeconfig"))
    except Exception:
        return []
    return beginning_with(((name, "") for name in names), incomplete)
