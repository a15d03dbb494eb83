"""A job of a cluster to what runs it again, with new Pods."""

from collections.abc import Sequence

from etcompile import backend, emit
from etcompile.compiler.stored import StoredJobError
from etcompile.diagnostics import codes, diagnose
from etcompile.exitcodes import INPUT
from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster
from etcompile.model.protocol import hosts_name, status_name
from etcompile.operations.proposal import ImpossibleError, Proposal, Result
from etcompile.operations.stored_runs import stored_run
from etcompile.plan.owners import is_member
from etcompile.plan.removal import restart
from etcompile.plan.scope import Rights
from etcompile.plan.step import reference
from etcompile.rollout.lease import seen_version
from etcompile.rollout.live import Live, belongings, inventory_of
from etcompile.status import Seen, seen

_NOTICED = 2.0
"""Seconds in which a watcher notices that the Pods of a run are gone, and then that its record is.
Until then it takes new Pods for such as are left of that run, and deletes them."""


def restart_proposal(cluster: Cluster, job: str, *, adopt: bool = False) -> Proposal:
    """What replaces all Pods of a job, as its last apply declared them. Nothing is written.

    Args:
        cluster: Where the job is; it is only read.
        job: The name of the job, in the default namespace.
        adopt: Also replace Pods that other people or tools look after.

    Raises:
        ClusterError: the cluster cannot be read.
        NoSuchJobError: there is no such job.
        ImpossibleError: it cannot be run.
    """
    parent = inventory_of(cluster, job, cluster.namespace)
    version = seen_version(parent, cluster.now())
    found = seen(cluster, job, cluster.namespace)
    try:
        run = stored_run(found)
    except StoredJobError as error:
        raise _impossible(job, str(error)) from error
    if run.job.run.suspended:
        advice = "take the suspension out of the job's file, and apply it"
        raise _impossible(job, "it is suspended", advice)
    title = f"{run.namespace}/{job}"
    pods = [
        {**pod, "metadata": {**pod["metadata"], "namespace": run.namespace}}
        for role in run.job.roles
        for _, pod in run.pods(role.name, [member.index for member in role.members])
    ]
    live = {
        reference(value): value
        for value in (
            *(value for value in found.objects.values() if value["kind"] in ("Pod", "Job")),
            *Live(cluster).get([reference(pod) for pod in pods]),
        )
    }
    records = _records(found, job)
    plans = restart(
        pods,
        live.values(),
        records,
        emit.wave,
        job=title,
        waits=backend.waits(run.job),
        config=run.uid,
        applied=parent is not None,
        adopt=adopt,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
    )
    changing = {step.ref for step in plans.whole.steps if step.action in ("delete", "create")}
    members = [
        reference(value)
        for value in belongings(cluster, job, run.namespace)
        if is_member(value) and reference(value) not in changing
    ]
    return Proposal(
        plan=plans.creation,
        rights=Rights(adopt=adopt, prune=True),
        before=(plans.removal, *((plans.records,) if records else ())),
        pause=_NOTICED if records else 0.0,
        deciding={title: backend.deciding(run.job)},
        kept={title: members},
        versions={title: version},
    )


def _impossible(job: str, problem: str, advice: str = "") -> ImpossibleError:
    told = diagnose(codes.CANNOT_BE_RESTARTED, None, job=job, problem=problem, advice=advice)
    return ImpossibleError(Result(INPUT, (told,)))


def _records(found: Seen, job: str) -> Sequence[LiveObject]:
    """What was written down of the run: its record, and the live host list."""
    names = (status_name(job), hosts_name(job))
    return [
        value
        for value in found.objects.values()
        if value["kind"] == "ConfigMap" and value["metadata"]["name"] in names
    ]
