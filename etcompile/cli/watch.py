"""Run the watcher, or print the manifests that run it in a cluster (`etcompile watch`)."""

import gc
import json
import logging
import os
import signal
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from etcompile.cli.command_line import HELP, Command, refuse_without, released_image
from etcompile.cli.options import Connection, connects, packed
from etcompile.cli.reporting import write
from etcompile.exitcodes import CLUSTER, INTERRUPTED
from etcompile.model.protocol import WATCH, WATCHER, WATCHES

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster
    from etcompile.kubeapi.controller.lease import Lease
    from etcompile.watch.core.controller import Watcher

_LISTEN = "127.0.0.1:8080"
_COMPONENTS = {
    "read-logs": "logs",
    "remove-finished": "removal",
    "remove-pod-groups": "gangs",
    "pod-monitor": "pod_monitor",
    "dashboard": "dashboard",
}
"""The fields of an `Installation`, by the components of the kustomization that they add."""
_TEXT = "%(asctime)s %(levelname)s %(message)s"


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `message`, and what `say` knows."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line."""
        from etcompile.k8s.objects import timestamp

        line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Options(Struct, frozen=True):
    namespaces: tuple[str, ...]
    all_namespaces: bool
    once: bool
    home: str | None
    name: str
    lease: float
    listen: str
    log_format: str
    verbose: bool
    quiet: bool


class _Installation(Struct, frozen=True):
    """What `--manifests` writes."""

    image: str | None
    without_policy: bool
    components: tuple[str, ...]


@click.command("watch", cls=Command, context_settings=HELP)
@packed(
    "options",
    _Options,
    click.option(
        *("-n", "--namespace"),
        "namespaces",
        multiple=True,
        metavar="NS",
        help="Watch the jobs of this namespace. May be repeated.  [default: that of the context]",
    ),
    click.option("-A", "--all-namespaces", is_flag=True, help="Watch the jobs of all namespaces."),
    click.option("--once", is_flag=True, help="Do what is due now, and exit."),
    click.option(
        "--home",
        metavar="NS",
        help="Namespace of the Lease for leader election; with --manifests also that of the"
        " watcher.  [default: the first --namespace, else that of the context]",
    ),
    click.option(
        "--name",
        default=WATCH,
        show_default=True,
        metavar="NAME",
        help="Name of the Lease for leader election: watchers of one --home with different names"
        " are different watchers. With --manifests also that of all objects.",
    ),
    click.option(
        "--lease",
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        type=click.FloatRange(2.0, 600.0),
        help="Duration of the leader's lease: how long until another watcher takes over.",
    ),
    click.option(
        "--listen",
        default=_LISTEN,
        show_default=True,
        metavar="[ADDRESS]:PORT",
        help="Address of /metrics, /healthz and /readyz; '' serves none of them.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of the log: text, or one JSON object per line.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Also log each action."),
    click.option("-q", "--quiet", is_flag=True, help="Log warnings only."),
)
@connects
@click.option(
    "--manifests",
    is_flag=True,
    help="Print the manifests that run the watcher in the cluster, and exit.",
)
@packed(
    "installed",
    _Installation,
    click.option(
        "--image",
        metavar="IMAGE",
        help="With --manifests: image of the watcher.  [default: that of this release]",
    ),
    click.option(
        "--without-policy",
        is_flag=True,
        help="With --manifests: leave out the ValidatingAdmissionPolicy, which only administrators"
        " of the cluster may create. The watcher then trusts everyone who can write ConfigMaps.",
    ),
    click.option(
        "--with",
        "components",
        multiple=True,
        type=click.Choice([*_COMPONENTS]),
        help="With --manifests: the right to read logs, for jobs that limit how long a Pod may log"
        " nothing; the right to delete what is left of jobs with a ttlSecondsAfterFinished, and"
        " their PodGroups, which only administrators of the cluster can usually grant; a"
        " PodMonitor, by which the Prometheus operator finds the metrics; or the Grafana dashboard,"
        " as a ConfigMap that Grafana's sidecar looks for. May be repeated.",
    ),
)
@click.pass_context
def command(
    ctx: click.Context,
    options: _Options,
    connection: Connection,
    manifests: bool,
    installed: _Installation,
) -> None:
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
    if manifests:
        from etcompile import emit
        from etcompile.integrations import watcher_manifests

        namespaces = None if options.all_namespaces else options.namespaces
        if namespaces == ():
            raise click.UsageError("--manifests needs --namespace NS or --all-namespaces")
        home = options.home or (namespaces[0] if namespaces else options.name)
        chosen = installed.components
        parts: dict[str, Any] = {field: word in chosen for word, field in _COMPONENTS.items()}
        parts["policy"] = not installed.without_policy
        parts["image"] = installed.image or released_image("etcompile")
        installation = watcher_manifests.Installation(home, namespaces, name=options.name, **parts)
        objects = watcher_manifests.manifests(installation)
        write(*(f"---\n{emit.to_yaml(value)}" for value in objects))
        return
    refuse_without("--manifests", *_Installation.__struct_fields__)
    from etcompile.kubeapi import ClusterError

    # The watcher runs for months; `main` disables this for commands that end soon.
    gc.enable()
    _log_to_standard_error(options)
    try:
        ctx.exit(_watch(options, connection))
    except ClusterError as error:
        click.echo(f"etcompile: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        ctx.exit(CLUSTER)


def _watch(options: _Options, connection: Connection) -> int:
    from etcompile.kubeapi import Retries
    from etcompile.kubeapi.controller.lease import Lease
    from etcompile.watch.core.controller import Choices
    from etcompile.watch.watcher import watcher

    connect = connection.connect
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


def _log_to_standard_error(options: _Options) -> None:
    from etcompile.diagnostics.redaction import shown, shown_value

    def mask(record: logging.LogRecord) -> bool:
        record.msg, record.args = shown(record.getMessage()), ()
        record.fields = shown_value(getattr(record, "fields", {}))
        return True

    handler = logging.StreamHandler()
    is_json = options.log_format == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(_TEXT))
    handler.addFilter(mask)
    logger = logging.getLogger("etcompile")
    logger.addHandler(handler)
    level = logging.DEBUG if options.verbose else logging.INFO
    logger.setLevel(logging.WARNING if options.quiet else level)
