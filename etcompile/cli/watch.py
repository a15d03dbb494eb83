"""Run the watcher, or print the manifests that run it in a cluster (`etcompile watch`)."""

import gc
import logging
import os
import signal
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct, structs

from etcompile.cli.command_line import option, refuse_without, released_image, subcommand
from etcompile.cli.options import Connection
from etcompile.cli.reporting import write
from etcompile.exitcodes import CLUSTER, INTERRUPTED
from etcompile.model.protocol import WATCH, WATCHER, WATCHES

if TYPE_CHECKING:
    from etcompile.integrations.watcher_manifests import Installation
    from etcompile.kubeapi import Cluster
    from etcompile.kubeapi.controller.lease import Lease
    from etcompile.watch.core.controller import Watcher

_LISTEN = "127.0.0.1:8080"


class ManifestOptions(Struct, frozen=True, kw_only=True):
    image: str | None = option(
        metavar="IMAGE",
        help="With --manifests: image of the watcher.  [default: that of this release]",
    )
    logs: bool = option(
        "--read-logs",
        help="With --manifests: allow the watcher to read logs, for jobs that limit how long a Pod"
        " may log nothing.",
    )
    removal: bool = option(
        "--remove-finished",
        help="With --manifests: allow the watcher to delete what is left of jobs with a"
        " ttlSecondsAfterFinished.",
    )
    gangs: bool = option(
        "--remove-pod-groups",
        help="With --manifests: also allow it to delete their PodGroups. Only administrators of"
        " the cluster can usually grant that.",
    )
    without_policy: bool = option(
        help="With --manifests: leave out the ValidatingAdmissionPolicy, which only administrators"
        " of the cluster may create. The watcher then trusts everyone who can write ConfigMaps."
    )
    pod_monitor: bool = option(
        help="With --manifests: add a PodMonitor, by which the Prometheus operator finds the"
        " metrics."
    )
    dashboard: bool = option(
        help="With --manifests: add the Grafana dashboard, as a ConfigMap with the label"
        " grafana_dashboard, which Grafana's sidecar looks for."
    )


class _Options(Struct, frozen=True, kw_only=True):
    namespaces: tuple[str, ...] = option(
        *("-n", "--namespace"),
        metavar="NS",
        help="Watch the jobs of this namespace. May be repeated.  [default: that of the context]",
    )
    all_namespaces: bool = option("-A", help="Watch the jobs of all namespaces.")
    once: bool = option(help="Do what is due now, and exit.")
    home: str | None = option(
        metavar="NS",
        help="Namespace of the Lease for leader election; with --manifests also that of the"
        " watcher.  [default: the first --namespace, else that of the context]",
    )
    name: str = option(
        default=WATCH,
        metavar="NAME",
        help="Name of the Lease for leader election: watchers of one --home with different names"
        " are different watchers. With --manifests also that of all objects.",
    )
    lease: float = option(
        default=15.0,
        metavar="SECONDS",
        type=click.FloatRange(2.0, 600.0),
        help="Duration of the leader's lease: how long until another watcher takes over.",
    )
    listen: str = option(
        default=_LISTEN,
        metavar="[ADDRESS]:PORT",
        help="Address of /metrics, /healthz and /readyz; '' serves none of them.",
    )
    connection: Connection
    manifests: bool = option(
        help="Print the manifests that run the watcher in the cluster, and exit."
    )
    installation: ManifestOptions
    log_format: Literal["text", "json"] = option(
        default="text", help="Format of the log: text, or one JSON object per line."
    )
    verbose: bool = option("-v", help="Also log each action.")
    quiet: bool = option("-q", help="Log warnings only.")


@subcommand("watch", _Options)
def command(ctx: click.Context, options: _Options) -> None:
    """Run the watcher, which replaces failed Pods and updates host lists.

    The watcher finds jobs by the ConfigMaps that render created for them. All of its state is in
    the cluster, so that it can be killed and restarted at any time. If several watchers run, one
    of them is the leader and acts.

    Exit codes: 0 finished or stopped, 2 usage error, 6 the API server cannot be reached or refuses,
    130 interrupted.
    """
    from etcompile.k8s.names import is_subdomain

    # The name becomes the value of a label, too.
    if not is_subdomain(options.name) or len(options.name) > 63:
        problem = f"{options.name!r} is not a name that objects of Kubernetes can have"
        raise click.BadParameter(problem, param_hint="--name")
    if options.namespaces and options.all_namespaces:
        raise click.UsageError("--namespace and --all-namespaces cannot be combined")
    if options.manifests:
        from etcompile import emit
        from etcompile.integrations.watcher_manifests import manifests

        objects = manifests(_installation(options))
        write(*(f"---\n{emit.to_yaml(value)}" for value in objects))
        return
    refuse_without("--manifests", *ManifestOptions.__struct_fields__)
    from etcompile.kubeapi import ClusterError

    # The watcher runs for months; `main` disables this for commands that end soon.
    gc.enable()
    _log_to_standard_error(options)
    try:
        ctx.exit(_watch(options))
    except ClusterError as error:
        click.echo(f"etcompile: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        ctx.exit(CLUSTER)


def _watch(options: _Options) -> int:
    from etcompile.kubeapi import Retries
    from etcompile.kubeapi.controller.lease import Lease
    from etcompile.watch.core.controller import Choices
    from etcompile.watch.watcher import watcher

    connect = options.connection.connect
    # Requests are sent once: after a failure the watcher decides again.
    once = Retries(attempts=1)
    cluster = connect(connections=64, timeout=15.0, retries=once)
    electing = connect(connections=1, timeout=options.lease / 4, retries=once)
    namespaces = None if options.all_namespaces else options.namespaces or (cluster.namespace,)
    home = options.home or (namespaces or (cluster.namespace,))[0]
    identity = os.environ.get("ETCOMPILE_WATCH_IDENTITY") or socket.gethostname()
    # A restarted Pod has the same host name.
    identity = f"{identity}_{uuid.uuid4().hex[:8]}"
    marks = {"labels": {WATCHES: ""}, "annotations": {WATCHES: ",".join(namespaces or ("*",))}}
    leading = Lease(electing, home, options.name, identity, WATCHER, options.lease, marks)
    watching = watcher(cluster, Choices(namespaces), identity=identity, leading=leading)
    if not options.once:
        return _until_stopped(watching, leading, cluster, options)
    if not leading.attempt():
        if leading.problem:
            click.echo(f"etcompile: {leading.problem}", err=True)
            return CLUSTER
        click.echo(f"{leading.holder} is the leader for these jobs: nothing to do", err=True)
        return 0
    stop = threading.Event()
    renewing = threading.Thread(target=leading.run, args=(stop,), daemon=True)
    renewing.start()
    try:
        watching.once()
    finally:
        stop.set()
        renewing.join()
    return 0


def _until_stopped(
    watcher: "Watcher", leading: "Lease", cluster: "Cluster", options: _Options
) -> int:
    from etcompile.kubeapi.controller.endpoints import Endpoints

    stop, signals = threading.Event(), []

    def stop_on(number: int, _frame: object) -> None:
        signals.append(number)
        stop.set()

    signal.signal(signal.SIGTERM, stop_on)
    signal.signal(signal.SIGINT, stop_on)
    serving = None
    if options.listen:
        address, _, port = options.listen.rpartition(":")
        checks = {"/healthz": watcher.healthy, "/readyz": watcher.ready}
        try:
            serving = Endpoints(address.strip("[]"), int(port), watcher.metrics.text, checks)
        except (OSError, ValueError) as error:
            problem = f"cannot listen on {options.listen}: {error}"
            if options.listen != _LISTEN:
                raise click.BadParameter(problem, param_hint="--listen") from error
            click.echo(f"warning: {problem}", err=True)  # it is only the default
    ended = threading.Event()
    electing = threading.Thread(target=leading.run, args=(ended,), name="leading", daemon=True)
    watcher.start()
    electing.start()
    stop.wait()
    watcher.stop()
    ended.set()
    electing.join(10)
    cluster.close()
    if serving is not None:
        serving.close()
    return INTERRUPTED if signals[:1] == [signal.SIGINT] else 0


def _installation(options: _Options) -> "Installation":
    from etcompile.integrations.watcher_manifests import Installation

    namespaces = None if options.all_namespaces else options.namespaces
    if namespaces == ():
        raise click.UsageError("--manifests needs --namespace NS or --all-namespaces")
    home = options.home or (namespaces[0] if namespaces else options.name)
    parts = structs.asdict(options.installation)
    parts["policy"] = not parts.pop("without_policy")
    parts["image"] = parts["image"] or released_image("etcompile")
    return Installation(home, namespaces, name=options.name, **parts)


def _log_to_standard_error(options: _Options) -> None:
    from etcompile.diagnostics.redaction import shown, shown_value
    from etcompile.watch.core.reports import TEXT, JsonFormatter

    def mask(record: logging.LogRecord) -> bool:
        record.msg, record.args = shown(record.getMessage()), ()
        record.fields = shown_value(getattr(record, "fields", {}))
        return True

    handler = logging.StreamHandler()
    is_json = options.log_format == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(TEXT))
    handler.addFilter(mask)
    logger = logging.getLogger("etcompile")
    logger.addHandler(handler)
    level = logging.DEBUG if options.verbose else logging.INFO
    logger.setLevel(logging.WARNING if options.quiet else level)
