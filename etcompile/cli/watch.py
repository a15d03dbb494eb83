"""`etcompile watch`: replaces what fails and keeps host lists true, for as long as it runs."""

import gc
import logging
import os
import signal
import socket
import threading
import uuid
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

from etcompile.cli import completing
from etcompile.cli.cluster_options import Connection, connection_options
from etcompile.cli.options import write
from etcompile.cli.structs import takes
from etcompile.cli.usage import Command, refuse_without
from etcompile.exitcodes import CLUSTER, INTERRUPTED, REFUSED
from etcompile.model.protocol import WATCH

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster, ClusterError
    from etcompile.watch.controller import Watcher
    from etcompile.watch.job_selector import Selector
    from etcompile.watch.leader_election import LeaderElection
    from etcompile.watch.manifests import Installation

_LISTEN = "127.0.0.1:8080"
_MANIFESTS_ONLY = (
    *("image", "read_logs", "read_quotas", "remove_finished", "remove_pod_groups"),
    *("without_policy", "pod_monitor", "dashboard"),
)


class WatchOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile watch`."""

    namespaces: tuple[str, ...]
    all_namespaces: bool
    selector: str
    once: bool
    home: str | None
    name: str
    lease: float
    listen: str
    connection: Connection
    manifests: bool
    image: str | None
    read_logs: bool
    read_quotas: bool
    remove_finished: bool
    remove_pod_groups: bool
    without_policy: bool
    pod_monitor: bool
    dashboard: bool
    log_format: str
    verbose: bool
    quiet: bool


@click.command("watch", cls=Command)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    metavar="NS",
    multiple=True,
    shell_complete=completing.namespaces,
    help="Watch the jobs of this namespace. May be repeated.  [default: that of the context]",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Watch the jobs of all namespaces.")
@click.option(
    "-l",
    "--selector",
    metavar="LABELS",
    default="",
    help="Watch only jobs whose ConfigMap matches this label selector, as with kubectl -l.",
)
@click.option("--once", is_flag=True, help="Do what is due now, and exit.")
@click.option(
    "--home",
    metavar="NS",
    help="Namespace of the Lease for leader election; with --manifests also that of the watcher."
    "  [default: the first --namespace, else that of the context]",
)
@click.option(
    "--name",
    metavar="NAME",
    default=WATCH,
    show_default=True,
    help="Name of the Lease for leader election: watchers of one --home with different names are"
    " different watchers. With --manifests also that of all objects.",
)
@click.option(
    "--lease",
    metavar="SECONDS",
    type=click.FloatRange(2.0, 600.0),
    default=15.0,
    show_default=True,
    help="Duration of the leader's lease: how long until another watcher takes over.",
)
@click.option(
    "--listen",
    metavar="[ADDRESS]:PORT",
    default=_LISTEN,
    show_default=True,
    help="Address of /metrics, /healthz and /readyz; '' serves none of them.",
)
@connection_options
@click.option(
    "--manifests",
    is_flag=True,
    help="Print the manifests that run the watcher in the cluster, and exit.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="With --manifests: image of the watcher.  [default: ghcr.io/etcompile/etcompile:VERSION]",
)
@click.option(
    "--read-logs",
    is_flag=True,
    help="With --manifests: allow the watcher to read logs, for jobs that limit how long a Pod may"
    " log nothing.",
)
@click.option(
    "--read-quotas",
    is_flag=True,
    help="With --manifests: allow the watcher to watch ResourceQuotas, so that it creates a refused"
    " Pod as soon as there is room.",
)
@click.option(
    "--remove-finished",
    is_flag=True,
    help="With --manifests: allow the watcher to delete what is left of jobs with a"
    " ttlSecondsAfterFinished.",
)
@click.option(
    "--remove-pod-groups",
    is_flag=True,
    help="With --manifests: also allow it to delete their PodGroups. Only administrators of the"
    " cluster can usually grant that.",
)
@click.option(
    "--without-policy",
    is_flag=True,
    help="With --manifests: leave out the ValidatingAdmissionPolicy, which only administrators of"
    " the cluster may create. The watcher then trusts everyone who can write ConfigMaps.",
)
@click.option(
    "--pod-monitor",
    is_flag=True,
    help="With --manifests: add a PodMonitor, by which the Prometheus operator finds the metrics.",
)
@click.option(
    "--dashboard",
    is_flag=True,
    help="With --manifests: add the Grafana dashboard, as a ConfigMap with the label"
    " grafana_dashboard, which Grafana's sidecar looks for.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the log: text, or a JSON object a line.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also log each action.")
@click.option("-q", "--quiet", is_flag=True, help="Log warnings only.")
@takes(WatchOptions)
def command(ctx: click.Context, given: WatchOptions) -> None:
    """Run the watcher, which replaces failed Pods and updates host lists.

    The watcher finds jobs by the ConfigMaps that render created for them. All of its state is in
    the cluster, so that it can be killed and restarted at any time. If several watchers run, one
    of them is the leader and acts.

    Exit codes: 0 finished or stopped, 2 usage error, 6 the API server cannot be reached or refuses,
    130 interrupted.
    """
    from etcompile.k8s.names import is_subdomain
    from etcompile.watch.job_selector import SelectorError, selector

    # It becomes the value of a label, too.
    if not is_subdomain(given.name) or len(given.name) > 63:
        problem = f"{given.name!r} is not a name that objects of Kubernetes can have"
        raise click.BadParameter(problem, param_hint="--name")
    if given.namespaces and given.all_namespaces:
        raise click.UsageError("--namespace and --all-namespaces cannot be combined")
    try:
        chosen = selector(given.selector)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from error
    if given.manifests:
        _write_manifests(_installation(given))
        return
    refuse_without("--manifests", **{name: getattr(given, name) for name in _MANIFESTS_ONLY})
    # It runs for months: the command line turns this off for commands that end soon.
    gc.enable()
    _log_to_standard_error(given)
    ctx.exit(_watch(given, chosen))


def _watch(given: WatchOptions, chosen: "Selector") -> int:
    from etcompile.kubeapi import ClusterError, Retries, connect
    from etcompile.watch.controller import Choices, Watcher
    from etcompile.watch.leader_election import LeaderElection, LeaseDurations

    where = given.connection.context, None, given.connection.kubeconfig
    # Sent once: after a failure the watcher decides anew.
    once = Retries(attempts=1)
    try:
        cluster = connect(*where, connections=64, timeout=15.0, retries=once)
        electing = connect(*where, connections=1, timeout=given.lease / 4, retries=once)
    except ClusterError as error:
        return _refused(error)
    namespaces = None if given.all_namespaces else given.namespaces or (cluster.namespace,)
    home = given.home or (namespaces or (cluster.namespace,))[0]
    identity = os.environ.get("ETCOMPILE_WATCH_IDENTITY") or socket.gethostname()
    # The same Pod may have been started anew.
    identity = f"{identity}_{uuid.uuid4().hex[:8]}"
    terms = LeaseDurations.of(given.lease)
    leading = LeaderElection(electing, home, given.name, identity, terms=terms)
    watcher = Watcher(cluster, Choices(namespaces, chosen), identity=identity, leading=leading)
    if given.once:
        try:
            return _once(watcher, leading)
        except ClusterError as error:
            return _refused(error)
    return _until_told(watcher, leading, cluster, given)


def _once(watcher: "Watcher", leading: "LeaderElection") -> int:
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
        watcher.once()
    finally:
        stop.set()
        renewing.join()
    return 0


def _until_told(
    watcher: "Watcher", leading: "LeaderElection", cluster: "Cluster", given: WatchOptions
) -> int:
    from etcompile.watch.endpoints import Endpoints

    stop, signals = threading.Event(), []

    def told(number: int, _frame: object) -> None:
        signals.append(number)
        stop.set()

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, told)
    serving = None
    if given.listen:
        address, _, port = given.listen.rpartition(":")
        checks = {"/healthz": watcher.healthy, "/readyz": watcher.ready}
        try:
            serving = Endpoints(address.strip("[]"), int(port), watcher.metrics.text, checks)
        except (OSError, ValueError) as error:
            problem = f"cannot listen on {given.listen}: {error}"
            if given.listen != _LISTEN:
                raise click.BadParameter(problem, param_hint="--listen") from error
            click.echo(f"warning: {problem}", err=True)  # nobody asked for it
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


def _installation(given: WatchOptions) -> "Installation":
    from etcompile.watch.manifests import Installation

    namespaces = None if given.all_namespaces else given.namespaces
    if namespaces == ():
        raise click.UsageError("--manifests needs --namespace NS or --all-namespaces")
    home = given.home or (namespaces[0] if namespaces else WATCH)
    made = Installation(
        home,
        namespaces,
        selector=given.selector,
        logs=given.read_logs,
        policy=not given.without_policy,
        name=given.name,
        pod_monitor=given.pod_monitor,
        dashboard=given.dashboard,
        quotas=given.read_quotas,
        removal=given.remove_finished,
        gangs=given.remove_pod_groups,
    )
    return structs.replace(made, image=given.image) if given.image else made


def _write_manifests(installation: "Installation") -> None:
    from etcompile import emit
    from etcompile.watch.manifests import manifests

    write(*(f"---\n{emit.to_yaml(value)}" for value in manifests(installation)))


def _log_to_standard_error(given: WatchOptions) -> None:
    from etcompile.watch.logs import TEXT, JsonFormatter

    level = logging.DEBUG if given.verbose else logging.INFO
    handler = logging.StreamHandler()
    json = given.log_format == "json"
    handler.setFormatter(JsonFormatter() if json else logging.Formatter(TEXT))
    handler.addFilter(_for_people)
    logger = logging.getLogger("etcompile")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if given.quiet else level)


def _for_people(record: logging.LogRecord) -> bool:
    """Masks credentials in a log line, and whatever would end it or reach a terminal."""
    from etcompile.diagnostics.redaction import shown, shown_value

    record.msg, record.args = shown(record.getMessage()), ()
    record.fields = shown_value(getattr(record, "fields", {}))
    return True


def _refused(error: "ClusterError") -> int:
    click.echo(f"etcompile: {error}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    return REFUSED if error.reason == "Usage" else CLUSTER
