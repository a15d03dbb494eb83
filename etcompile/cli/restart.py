"""`etcompile restart`: runs a job of the cluster again, with new Pods."""

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from etcompile import emit
from etcompile.cli.apply import INTERRUPTED, REFUSED, UNREACHED, concluded, show
from etcompile.cli.cluster_options import ClusterOptions, Duration, cluster_options
from etcompile.cli.consent import consent_option
from etcompile.cli.options import TalkOptions, colored, talk_options
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.diagnostics import codes, diagnose

if TYPE_CHECKING:
    from etcompile.cli.rolling import Done
    from etcompile.kubeapi import Cluster
    from etcompile.status import Seen
    from etcompile.watch.run_pods import StoredRun

_NOTICED = 2.0
"""Seconds in which a watcher notices that the Pods of a run are gone, and then that its record is.
Until then it takes new Pods for such as are left of that run, and deletes them."""


class RestartOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile restart`."""

    job: str
    namespace: str | None
    dry_run: Literal["server", "client"] | None
    adopt: bool
    yes: bool
    wait: Literal["ready", "complete", "none"]
    timeout: float | None
    cluster: ClusterOptions


@click.command("restart", cls=SectionedCommand)
@click.argument("job", metavar="JOB")
@click.option("-n", "--namespace", metavar="NS", help="Namespace.  [default: that of the context]")
@click.option(
    "--dry-run",
    type=Choice(["server", "client"]),
    help="Change nothing and show the plan. server also validates it with the API server.",
)
@click.option(
    "--adopt", is_flag=True, help="Also restart Pods that other people or tools look after."
)
@consent_option
@click.option(
    "--wait",
    type=Choice(["ready", "complete", "none"]),
    default="ready",
    show_default=True,
    help="Wait until all Pods are ready, until the job has completed, or not at all.",
)
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    help="Give up after this time, such as 90s, 10m or 1h30m; 0 means never.  [default: 15m;"
    " never with --wait complete]",
)
@cluster_options
@talk_options
@takes(RestartOptions)
def command(ctx: click.Context, given: RestartOptions) -> None:
    """Run a job again, whether it runs, has failed or has succeeded: all its Pods are replaced.

    The Pods are those that the job in the cluster declares, as its last apply left it; no file is
    read. They are deleted, launchers first, with what the watcher wrote down of the run; when all
    are gone they are created anew. What a run has not saved is lost.

    The exit codes are those of apply.
    """
    from etcompile.cli.progress import progress
    from etcompile.cli.status import unknown_job
    from etcompile.kubeapi import ClusterError
    from etcompile.status import NoSuchJobError

    gc.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shown = progress(
        given.cluster.output, quiet=given.quiet, color=colored(given.color, sys.stdout)
    )
    with concluded(ctx, shown, given) as leave:
        try:
            with given.cluster.connect(given.namespace, shown.repeat) as cluster:
                done = _restarted(cluster, given, shown)
        except NoSuchJobError as error:
            leave(REFUSED, [unknown_job(error)])
        except ClusterError as error:
            leave(UNREACHED, [error.diagnostic])
        leave(done.code, done.diagnostics)


def _restarted(cluster: "Cluster", given: RestartOptions, shown: Any) -> "Done":
    from etcompile import backend
    from etcompile.cli.consent import consents
    from etcompile.cli.rolling import Done, Facts, refused_steps, rolled_out
    from etcompile.plan.claims import is_member
    from etcompile.plan.restarting import restart
    from etcompile.plan.rights import Rights
    from etcompile.plan.step import reference
    from etcompile.rollout import Choices
    from etcompile.rollout.belongings import belongings, inventory_of
    from etcompile.rollout.live import Live
    from etcompile.status import seen

    job = given.job
    found = seen(cluster, job, cluster.namespace)
    run, problem = _stored(found)
    if run is None:
        return Done(
            REFUSED,
            (diagnose(codes.CANNOT_BE_RESTARTED, None, job=job, problem=problem, advice=""),),
        )
    if run.job.run.suspended:
        advice = "take the suspension out of the job's file, and apply it"
        told = diagnose(
            codes.CANNOT_BE_RESTARTED, None, job=job, problem="it is suspended", advice=advice
        )
        return Done(REFUSED, (told,))
    title = f"{run.namespace}/{job}"
    pods = [
        {**pod, "metadata": {**pod["metadata"], "namespace": run.namespace}}
        for role in run.job.roles
        for _, pod in run.pods(role.name, [member.index for member in role.members])
    ]
    live = {
        reference(value): value
        for value in (
            *(one for one in found.objects.values() if one["kind"] in ("Pod", "Job")),
            *Live(cluster).get([reference(pod) for pod in pods]),
        )
    }
    records = _records(found, job)
    applied = inventory_of(cluster, job, run.namespace) is not None
    plans = restart(
        pods,
        live.values(),
        records,
        emit.wave,
        job=title,
        waits=backend.waits(run.job),
        config=run.uid,
        applied=applied,
        adopt=given.adopt,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
    )
    whole = plans.whole
    if given.dry_run:
        show(whole, given.cluster.output, given)
    refused = refused_steps(whole)
    if refused is not None or given.dry_run == "client":
        return refused or Done(0)
    if not given.dry_run and not consents(whole, yes=given.yes):
        return Done(INTERRUPTED, (diagnose(codes.NOT_CONFIRMED, None),))
    timeout = given.timeout
    if timeout is None and given.wait != "complete":
        timeout = 900.0
    changing = {step.ref for step in whole.steps if step.action in ("delete", "create")}
    members = [
        reference(value)
        for value in belongings(cluster, job, run.namespace)
        if is_member(value) and reference(value) not in changing
    ]
    return rolled_out(
        cluster,
        plans.creation,
        Rights(adopt=given.adopt, prune=True),
        Choices(given.wait, timeout or None, None, given.cluster.concurrency),
        Facts(deciding={title: backend.deciding(run.job)}, kept={title: members}),
        shown,
        dry_run=given.dry_run == "server",
        before=(plans.removal, *((plans.records,) if records else ())),
        pause=_NOTICED if records else 0.0,
    )


def _stored(found: "Seen") -> tuple["StoredRun | None", str]:
    """The job that its ConfigMap holds, or why there is none that can be run."""
    from etcompile.model.protocol import JOB_LABEL, MANAGER
    from etcompile.plan.claims import stranger
    from etcompile.stages.stored import StoredJobError
    from etcompile.status.deriving import is_config
    from etcompile.watch.run_pods import StoredRun

    problem = ""
    configs = [value for value in found.objects.values() if is_config(value)]
    # A copy of it, which somebody made with its labels, is another one's or nobody's.
    configs.sort(key=lambda value: stranger(value, MANAGER) is not None)
    for value in configs:
        try:
            run = StoredRun(value)
        except StoredJobError as error:
            problem = str(error)
            continue
        if run.job.config_name == value["metadata"]["name"]:
            return run, ""
        problem = problem or f"its ConfigMap is called {value['metadata']['name']}"
        problem += f", and not {run.job.config_name}, for {value['metadata']['labels'][JOB_LABEL]}"
    return None, problem


def _records(found: "Seen", job: str) -> list[Any]:
    """What was written down of the run: its record, and the live host list."""
    from etcompile.status.deriving import HOSTS, RECORD

    names = (job + RECORD, job + HOSTS)
    return [
        value
        for value in found.objects.values()
        if value["kind"] == "ConfigMap" and value["metadata"]["name"] in names
    ]
