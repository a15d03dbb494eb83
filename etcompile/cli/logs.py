"""`etcompile logs`: what the containers of a job's Pods write, each line after its Pod."""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from etcompile.cli import completing
from etcompile.cli.cluster_options import Connection, connection_options, namespace_option
from etcompile.cli.options import TalkOptions, talk_options, tell, write
from etcompile.cli.structs import takes
from etcompile.cli.usage import Command
from etcompile.diagnostics import Diagnostic
from etcompile.exitcodes import CLUSTER, REFUSED
from etcompile.model.protocol import INDEX_LABEL, RANK_LABEL

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster

_RANKS = ("RANK", "PET_NODE_RANK", "NODE_RANK", "PROCESS_ID", "PADDLE_TRAINER_ID")
"""Variables that give a Pod its rank; where it has none of them, its label says it."""
_MOST = 64
"""Logs that are followed at the same time."""


_LONGEST = 64 * 1024
"""Characters of a line."""


class LogsOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile logs`."""

    job: str
    rank: int | None
    container: str | None
    follow: bool
    tail: int | None
    namespace: str | None
    connection: Connection


@click.command("logs", cls=Command)
@click.argument("job", metavar="JOB", shell_complete=completing.jobs)
@click.option("--rank", metavar="N", type=click.IntRange(min=0), help="Only the Pod of this rank.")
@click.option("-c", "--container", metavar="NAME", help="Container.  [default: the first one]")
@click.option("-f", "--follow", is_flag=True, help="Go on until the containers end.")
@click.option(
    "--tail",
    metavar="N",
    type=click.IntRange(min=0),
    help="Last lines of each Pod.  [default: all of one Pod, 10 of each of several]",
)
@namespace_option
@connection_options
@talk_options
@takes(LogsOptions)
def command(ctx: click.Context, given: LogsOptions) -> None:
    """Show the logs of a job's Pods, each line with its Pod as `kubectl logs --prefix` has it.

    Credentials in a line are hidden, and what a terminal would act on is replaced.

    Exit codes: 0 done, 2 no such job or rank, 6 the cluster cannot be reached or refuses.
    """
    from etcompile.cli.status import unknown_job
    from etcompile.kubeapi import ClusterError, connect
    from etcompile.status import NoSuchJobError, seen

    where = given.connection.context, given.namespace, given.connection.kubeconfig
    try:
        with connect(*where, connections=_MOST) as cluster:
            objects = seen(cluster, given.job, cluster.namespace).objects.values()
            pods = [value for value in objects if value["kind"] == "Pod"]
            if given.rank is not None:
                pods = [pod for pod in pods if _rank(pod) == given.rank]
            if given.follow and len(pods) > _MOST:
                problem = f"{len(pods)} Pods are too many to follow: choose one with --rank N"
                raise click.UsageError(problem)
            if not pods:
                which = "" if given.rank is None else f" of rank {given.rank}"
                click.echo(f"{given.job} has no Pod{which}", err=True)
                ctx.exit(REFUSED)
            problems = _shown(cluster, pods, given)
    except NoSuchJobError as error:
        tell([unknown_job(error)], given)
        ctx.exit(REFUSED)
    except ClusterError as error:
        tell([error.diagnostic], given)
        ctx.exit(CLUSTER)
    tell(problems, given)
    # As with kubectl: what the other Pods wrote is shown all the same.
    ctx.exit(CLUSTER if problems else 0)


def _rank(pod: Mapping[str, Any]) -> int | None:
    env = {item["name"]: item.get("value") for item in _main(pod).get("env") or ()}
    labels = pod["metadata"].get("labels") or {}
    ranks = (*map(env.get, _RANKS), labels.get(RANK_LABEL), labels.get(INDEX_LABEL))
    return next((int(rank) for rank in ranks if rank and rank.isdecimal()), None)


def _main(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    container: Mapping[str, Any] = pod["spec"]["containers"][0]
    return container


def _shown(
    cluster: "Cluster", pods: Sequence[Mapping[str, Any]], given: LogsOptions
) -> list[Diagnostic]:
    """Writes the logs, one after the other or all at the same time; what could not be read."""
    from etcompile.diagnostics.redaction import shown
    from etcompile.kubeapi import ClusterError

    problems: list[Diagnostic] = []
    lock = threading.Lock()
    tail = given.tail if given.tail is not None or len(pods) == 1 else 10

    def show(pod: Mapping[str, Any]) -> None:
        name = pod["metadata"]["name"]
        container = given.container or _main(pod)["name"]
        where = pod["metadata"]["namespace"]
        try:
            for line in cluster.log(name, container, where, tail=tail, follow=given.follow):
                text = shown(line.replace("\t", "    "), _LONGEST)
                with lock:
                    write(f"[pod/{name}/{container}] {text}\n")
        except ClusterError as error:
            problems.append(error.diagnostic)

    threads = [threading.Thread(target=show, args=(pod,), daemon=True) for pod in pods]
    for thread in threads:
        thread.start()
        if not given.follow:
            thread.join()
    for thread in threads:
        thread.join()
    return problems
