"""Print the logs of a job's Pods, each line after its Pod (`etcompile logs`)."""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from etcompile.cli.command_line import HELP, Command
from etcompile.cli.options import JOB, LIVE_NAMESPACE, Connection, connects, reports
from etcompile.cli.reporting import Reporting, write
from etcompile.diagnostics import Diagnostic, RefusedError
from etcompile.exitcodes import CLUSTER, REFUSED
from etcompile.k8s import pods as pod_status
from etcompile.model.protocol import INDEX_LABEL, RANK_LABEL

if TYPE_CHECKING:
    from etcompile.k8s.objects import LiveObject
    from etcompile.kubeapi import Cluster

_RANKS = ("RANK", "PET_NODE_RANK", "NODE_RANK", "PROCESS_ID", "PADDLE_TRAINER_ID")
"""Variables with the rank of a Pod; without one, its label counts."""
_MOST = 64  # logs that are followed at the same time
_LONGEST = 64 * 1024  # characters of a line


@click.command("logs", cls=Command, context_settings=HELP)
@JOB
@click.option("--rank", metavar="N", type=click.IntRange(min=0), help="Only the Pod of this rank.")
@click.option(
    "-c",
    "--container",
    metavar="NAME",
    help="Name of the container.  [default: the init container that runs or has failed, else the"
    " first one]",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Keep printing new lines until the containers end."
)
@click.option(
    "--tail",
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of last lines of each Pod.  [default: all of one Pod, 10 of each of several]",
)
@LIVE_NAMESPACE
@connects
@reports()
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    namespace: str | None,
    reporting: Reporting,  # noqa: ARG001 - it reports refusals
    rank: int | None,
    container: str | None,
    follow: bool,
    tail: int | None,
    connection: Connection,
) -> None:
    """Show the logs of a job's Pods, each line prefixed as by `kubectl logs --prefix`.

    Credentials are hidden, and control characters are replaced.

    Exit codes: 0 done, 2 no such job or rank, or none of its Pods has started, 6 the cluster cannot
    be reached or refuses.
    """
    from etcompile.status import seen
    from etcompile.status.replica_states import labelled_replica
    from etcompile.status.text import reason_lines

    with connection.connect(namespace, connections=_MOST) as cluster:
        view = seen(cluster, job, cluster.namespace)
        pods = [value for value in view.objects.values() if value["kind"] == "Pod"]
        if view.pod:
            pods = [pod for pod in pods if pod["metadata"]["name"] == view.pod]
        if rank is not None:
            pods = [pod for pod in pods if rank_of(pod) == rank]
        if follow and len(pods) > _MOST:
            problem = f"{len(pods)} Pods are too many to follow: choose one with --rank N"
            raise click.UsageError(problem)
        if not pods:
            which = "" if rank is None else f" of rank {rank}"
            click.echo(f"{job} has no Pod{which}", err=True)
            ctx.exit(REFUSED)
        idle: list[LiveObject] = []
        started: list[tuple[LiveObject, str]] = []
        for pod in pods:
            first: str = pod["spec"]["containers"][0]["name"]
            name = container or pod_status.current_init(pod) or first
            if _has_started(pod, name):
                started.append((pod, name))
            else:
                idle.append(pod)
        for line in reason_lines([labelled_replica(pod) for pod in idle]):
            click.echo(f"not started yet: {line}", err=True)
        if not started:
            ctx.exit(REFUSED)
        problems = _shown(cluster, started, tail, follow=follow)
    if problems:  # as with kubectl, the logs of other Pods are shown all the same
        raise RefusedError(problems, CLUSTER)


def _has_started(pod: Mapping[str, Any], container: str) -> bool:
    statuses = (*pod_status.init_containers(pod), *pod_status.containers(pod))
    status = next((each for each in statuses if each.get("name") == container), None)
    if status is None:
        return pod_status.phase(pod) != "Pending"
    ended = pod_status.terminated(status) or pod_status.terminated_before(status)
    return bool(ended) or pod_status.is_running(status)


def rank_of(pod: Mapping[str, Any]) -> int | None:
    """Return the rank of a Pod by its variables, or else by its labels."""
    main = pod["spec"]["containers"][0]
    env = {item["name"]: item.get("value") for item in main.get("env") or ()}
    labels = pod["metadata"].get("labels") or {}
    ranks = (*map(env.get, _RANKS), labels.get(RANK_LABEL), labels.get(INDEX_LABEL))
    return next((int(rank) for rank in ranks if rank and rank.isdecimal()), None)


def _shown(
    cluster: "Cluster",
    pods: Sequence[tuple[Mapping[str, Any], str]],
    tail: int | None,
    *,
    follow: bool,
) -> list[Diagnostic]:
    """Write the logs of containers of Pods; return the problems of those that cannot be read."""
    from etcompile.diagnostics.redaction import shown
    from etcompile.kubeapi import ClusterError

    problems: list[Diagnostic] = []
    lock = threading.Lock()
    tail = tail if tail is not None or len(pods) == 1 else 10

    def show(pod: Mapping[str, Any], container: str) -> None:
        name = pod["metadata"]["name"]
        where = pod["metadata"]["namespace"]
        try:
            for line in cluster.log(name, container, where, tail=tail, follow=follow):
                text = shown(line.replace("\t", "    "), _LONGEST)
                with lock:
                    write(f"[pod/{name}/{container}] {text}\n")
        except ClusterError as error:
            problems.extend(error.diagnostics)

    threads = [threading.Thread(target=show, args=pair, daemon=True) for pair in pods]
    for thread in threads:
        thread.start()
        if not follow:
            thread.join()
    for thread in threads:
        thread.join()
    return problems
