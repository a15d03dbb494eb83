"""Values that a shell offers for arguments and options, where click cannot know them by itself.

Apart from the commands, because none of this is imported unless somebody presses Tab.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Values = Iterable[tuple[str, str]]
"""Each with what it means, or nothing."""
Complete = Callable[[click.Context, click.Parameter, str], Any]


def _offering(values: Callable[[], Values], *, files: bool = False) -> Complete:
    """What click asks: the values that begin as what was typed, and files if those do too."""

    def complete(
        ctx: click.Context,  # noqa: ARG001
        param: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        found = [
            CompletionItem(value, help=words or None)
            for value, words in values()
            if value.lower().startswith(begun)
        ]
        # First: bash forgets what it was told before files.
        return ([CompletionItem(incomplete, type="file")] if files else []) + found

    return complete


def _codes() -> Values:
    from etcompile.diagnostics.catalogue import codes_by_name

    return [(code, name) for name, code in codes_by_name().items()]


def _warnings() -> Values:
    from etcompile.diagnostics import RULES, Severity

    return [(code, name) for code, name in _codes() if RULES[code].severity is Severity.WARNING]


def _selectable() -> Values:
    from etcompile.diagnostics.selection import selectable

    known = selectable()
    return [(code, name) for code, name in _codes() if code in known]


def _schemas() -> Values:
    from etcompile.cli.schema import names

    return names()


def _overlays() -> Values:
    from etcompile.overlays.files import shipped

    return [(name, "ships with etcompile") for name in shipped()]


def _runtimes() -> Values:
    from etcompile.stages.runtimes import shipped

    return [(document.name or "", "") for document in shipped()]


def _versions() -> Values:
    from etcompile.check import kubernetes

    return [(version, "") for version in reversed(kubernetes.versions())]


def _secrets() -> Values:
    return [
        ("runtime", "a Secret made in the cluster, outside of render"),
        ("existing:", "NAME of a Secret that somebody looks after"),
        ("external", "made in the cluster by External Secrets"),
        ("sealed:", "CERT.pem: encrypted in the output, for Sealed Secrets"),
        ("sops:", "age1...: encrypted in the output, with SOPS"),
        ("csi:", "NAME of a SecretProviderClass"),
    ]


codes = _offering(_codes)
warnings = _offering(_warnings)
selectable = _offering(_selectable)
kinds = _offering(_schemas)
overlays = _offering(_overlays, files=True)
runtimes = _offering(_runtimes)
versions = _offering(_versions)
secrets = _offering(_secrets)
files = _offering(tuple, files=True)


def contexts(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> "list[CompletionItem]":
    """The contexts of the kubeconfig."""
    from etcompile.kubeapi import kubeconfig

    try:
        names = kubeconfig.contexts(ctx.params.get("kubeconfig"))
    except Exception:
        return []
    return _items(names, incomplete)


def namespaces(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> "list[CompletionItem]":
    """The namespaces of the cluster."""
    return _items(_live(ctx, "Namespace"), incomplete)


def jobs(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> "list[CompletionItem]":
    """The jobs of the namespace in the cluster."""
    return _items(_live(ctx, "ConfigMap"), incomplete)


def _live(ctx: click.Context, kind: str) -> Iterable[str]:
    """Names from the cluster that the options so far lead to; none if it does not answer soon."""
    from etcompile.kubeapi import Retries, connect
    from etcompile.model.protocol import JOB_LABEL

    where = (ctx.params.get(name) for name in ("context", "namespace", "kubeconfig"))
    try:
        with connect(*where, timeout=2.0, retries=Retries(attempts=1)) as cluster:
            labels = JOB_LABEL if kind == "ConfigMap" else ""
            resource = cluster.resource("v1", kind)
            found = cluster.list(resource, labels=labels, metadata_only=True)
    except Exception:
        return ()
    metadata = [value["metadata"] for value in found.items]
    named = (each["labels"][JOB_LABEL] if labels else each["name"] for each in metadata)
    return sorted(set(named))


def _items(names: Iterable[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def environments(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> "list[CompletionItem]":
    """The environments of the configuration file that counts for what is typed so far."""
    from click.shell_completion import CompletionItem

    from etcompile.load import configuration

    given = ctx.params
    files = [word for word in given.get("config") or () if "=" not in word]
    named = next(iter(files), None) or given.get("file")
    folder = configuration.folder_of(named or next(iter(given.get("paths") or ()), "."))
    root = configuration.root_of(folder)
    try:
        found = configuration.read(named, root) if named else configuration.nearest(folder, root)
    except OSError:
        return []
    values = found.values if isinstance(found, configuration.Configuration) else {}
    names = values.get("environments")
    known = [*names] if isinstance(names, dict) else []
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
