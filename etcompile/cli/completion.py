"""What a shell completes: values of options, where click does not know them, and its script.

Shells ask click, by the script that `etcompile completion` prints; kubectl asks
`kubectl_complete-etcompile`, which answers from here too. Nothing is imported for a list of values
unless somebody presses Tab.
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from etcompile.cli.command_line import argument, subcommand

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Values = Iterable[tuple[str, str]]
"""Each with what it means, or nothing."""
Complete = Callable[[click.Context, click.Parameter, str], Any]


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
    if complete is None:  # a plugin of click has removed it
        raise click.ClickException(f"click knows no {options.shell}")
    root = ctx.find_root().command
    script = complete(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    # Not source(): that starts the shell to see how old it is.
    click.echo(script.source_template % script.source_vars())


def kubectl() -> None:
    """Answers kubectl's own completion, which calls this as `kubectl_complete-etcompile WORD...`.

    One value a line, a tab and what it means, and last a colon and a number for the shell: 4 if it
    is not to add files (cobra's ShellCompDirectiveNoFileComp), else 0.
    """
    from click.shell_completion import ShellComplete

    from etcompile.cli.main import PROGRAM, _etcompile

    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(_etcompile, {}, PROGRAM, "").get_completions(words, incomplete)
    values = [item for item in items if item.type == "plain"]
    for item in values:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{4 if len(values) == len(items) else 0}")


# Values -------------------------------------------------------------------------------------------


def offering(values: Callable[[click.Context], Values], *, files: bool = False) -> Complete:
    """What click calls for an option: the values that begin as what was typed.

    Args:
        values: The values, by the options that were typed before.
    """

    def complete(
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        # Files first: bash forgets what stands before them.
        items = [CompletionItem(incomplete, type="file")] if files else []
        for value, words in values(ctx):
            if value.lower().startswith(incomplete.lower()):
                items.append(CompletionItem(value, help=words or None))
        return items

    return complete


def _codes() -> list[tuple[str, str]]:
    from etcompile.diagnostics.catalogue import codes_by_name

    return [(code, name) for name, code in codes_by_name().items()]


@offering
def codes(_ctx: click.Context) -> Values:
    """The codes of all diagnostics."""
    return _codes()


@offering
def warnings(_ctx: click.Context) -> Values:
    """The codes of warnings."""
    from etcompile.diagnostics import RULES, Severity

    return [(code, name) for code, name in _codes() if RULES[code].severity is Severity.WARNING]


@offering
def selectable(_ctx: click.Context) -> Values:
    """The codes of advice that is reported only on request."""
    from etcompile.diagnostics.suppression import selectable

    known = selectable()
    return [(code, name) for code, name in _codes() if code in known]


@functools.partial(offering, files=True)
def overlays(_ctx: click.Context) -> Values:
    """Overlays that ship with etcompile, and files."""
    from etcompile.overlays.overlay_files import shipped

    return [(name, "ships with etcompile") for name in shipped()]


@offering
def runtimes(_ctx: click.Context) -> Values:
    """The runtimes that Trainer ships."""
    from etcompile.compiler.runtimes import shipped

    return [(document.name or "", "") for document in shipped()]


@offering
def versions(_ctx: click.Context) -> Values:
    """The versions of Kubernetes, the newest first."""
    from etcompile.check import kubernetes

    return [(version, "") for version in reversed(kubernetes.versions())]


@offering
def secrets(_ctx: click.Context) -> Values:
    """The modes of `--secret`."""
    return [
        ("runtime", "a Secret that apply or the watcher creates in the cluster"),
        ("existing:", "NAME of a Secret that you created"),
        ("external", "a Secret that External Secrets creates in the cluster"),
        ("sealed:", "CERT.pem: encrypted in the output, for Sealed Secrets"),
        ("sops:", "age1...: encrypted in the output, with SOPS"),
        ("csi:", "NAME of a SecretProviderClass"),
    ]


@offering
def contexts(ctx: click.Context) -> Values:
    """The contexts of the kubeconfig."""
    from etcompile.kubeapi import kubeconfig

    try:
        return [(name, "") for name in kubeconfig.contexts(ctx.params.get("kubeconfig"))]
    except Exception:
        return []


@offering
def namespaces(ctx: click.Context) -> Values:
    """The namespaces of the cluster."""
    return _live(ctx, "Namespace")


@offering
def jobs(ctx: click.Context) -> Values:
    """The jobs of the namespace in the cluster."""
    return _live(ctx, "ConfigMap")


def _live(ctx: click.Context, kind: str) -> Values:
    """Names from the cluster that the options so far lead to; none if it does not answer soon."""
    from etcompile.kubeapi import Retries, connect
    from etcompile.model.protocol import JOB_LABEL

    where = (ctx.params.get(name) for name in ("context", "namespace", "kubeconfig"))
    try:
        with connect(*where, timeout=2.0, retries=Retries(attempts=1)) as cluster:
            labels = JOB_LABEL if kind == "ConfigMap" else ""
            resource = cluster.resource("v1", kind)
            objects = cluster.list(resource, labels=labels, metadata_only=True).items
    except Exception:
        return []
    metadata = [value["metadata"] for value in objects]
    names = {each["labels"][JOB_LABEL] if labels else each["name"] for each in metadata}
    return [(name, "") for name in sorted(names)]


@offering
def environments(ctx: click.Context) -> Values:
    """The environments of the configuration file that counts for what is typed so far."""
    from etcompile.load import configuration

    config = ctx.params.get("config") or ()
    files = [config] if isinstance(config, str) else [word for word in config if "=" not in word]
    named = next(iter(files), None)
    folder = configuration.folder_of(named or next(iter(ctx.params.get("paths") or ()), "."))
    root = configuration.root_of(folder)
    try:
        file = configuration.read(named, root) if named else configuration.nearest(folder, root)
    except OSError:
        return []
    values = file.values if isinstance(file, configuration.Configuration) else {}
    names = values.get("environments")
    return [(name, "") for name in names] if isinstance(names, dict) else []


files = offering(lambda _ctx: (), files=True)
"""Files."""
