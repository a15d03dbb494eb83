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


def offering(values: Callable[[click.Context], Values], *, files: bool = False) -> Complete:
    """What click calls: the values that begin as what was typed.

    Args:
        values: The values, by the options that were typed before.
        files: Offer files, too.
    """

    def complete(
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        found = [
            CompletionItem(value, help=words or None)
            for value, words in values(ctx)
            if value.lower().startswith(begun)
        ]
        # First: bash forgets what it was told before files.
        return ([CompletionItem(incomplete, type="file")] if files else []) + found

    return complete


def _codes(_ctx: click.Context) -> Values:
    from etcompile.diagnostics.catalogue import codes_by_name

    return [(code, name) for name, code in codes_by_name().items()]


def _warnings(ctx: click.Context) -> Values:
    from etcompile.diagnostics import RULES, Severity

    return [(code, name) for code, name in _codes(ctx) if RULES[code].severity is Severity.WARNING]


def _selectable(ctx: click.Context) -> Values:
    from etcompile.diagnostics.selection import selectable

    known = selectable()
    return [(code, name) for code, name in _codes(ctx) if code in known]


def _overlays(_ctx: click.Context) -> Values:
    from etcompile.overlays.files import shipped

    return [(name, "ships with etcompile") for name in shipped()]


def _runtimes(_ctx: click.Context) -> Values:
    from etcompile.compiler.runtimes import shipped

    return [(document.name or "", "") for document in shipped()]


def _versions(_ctx: click.Context) -> Values:
    from etcompile.check import kubernetes

    return [(version, "") for version in reversed(kubernetes.versions())]


def _secrets(_ctx: click.Context) -> Values:
    return [
        ("runtime", "a Secret made in the cluster, outside of render"),
        ("existing:", "NAME of a Secret that somebody looks after"),
        ("external", "made in the cluster by External Secrets"),
        ("sealed:", "CERT.pem: encrypted in the output, for Sealed Secrets"),
        ("sops:", "age1...: encrypted in the output, with SOPS"),
        ("csi:", "NAME of a SecretProviderClass"),
    ]


def _contexts(ctx: click.Context) -> Values:
    """The contexts of the kubeconfig."""
    from etcompile.kubeapi import kubeconfig

    try:
        return [(name, "") for name in kubeconfig.contexts(ctx.params.get("kubeconfig"))]
    except Exception:
        return []


def _namespaces(ctx: click.Context) -> Values:
    """The namespaces of the cluster."""
    return _live(ctx, "Namespace")


def _jobs(ctx: click.Context) -> Values:
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
            found = cluster.list(resource, labels=labels, metadata_only=True)
    except Exception:
        return []
    metadata = [value["metadata"] for value in found.items]
    named = (each["labels"][JOB_LABEL] if labels else each["name"] for each in metadata)
    return [(name, "") for name in sorted(set(named))]


def _environments(ctx: click.Context) -> Values:
    """The environments of the configuration file that counts for what is typed so far."""
    from etcompile.load import configuration

    config = ctx.params.get("config") or ()
    files = [config] if isinstance(config, str) else [word for word in config if "=" not in word]
    named = next(iter(files), None)
    folder = configuration.folder_of(named or next(iter(ctx.params.get("paths") or ()), "."))
    root = configuration.root_of(folder)
    try:
        found = configuration.read(named, root) if named else configuration.nearest(folder, root)
    except OSError:
        return []
    values = found.values if isinstance(found, configuration.Configuration) else {}
    names = values.get("environments")
    return [(name, "") for name in names] if isinstance(names, dict) else []


codes = offering(_codes)
warnings = offering(_warnings)
selectable = offering(_selectable)
overlays = offering(_overlays, files=True)
runtimes = offering(_runtimes)
versions = offering(_versions)
secrets = offering(_secrets)
files = offering(lambda _ctx: (), files=True)
contexts = offering(_contexts)
namespaces = offering(_namespaces)
jobs = offering(_jobs)
environments = offering(_environments)
