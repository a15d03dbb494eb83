"""Clean up after the end of a run: its Pods, and the whole job `ttlSecondsAfterFinished` later.

Pods that Git declares are not deleted, they would come back (reference/gitops.md 1.5); one that
does not end by itself gets a deadline. Elsewhere cleanPodPolicy means what it says
(reference/training-operator.md 5.6, reference/et-operator.md 4.6). An expired job goes with all its
objects, as the garbage collection of an operator's custom resource does, unless a tool syncs Git:
it would create them again. An Event says so.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.backend import ends_with_run
from etcompile.watch.core.run import (
    Action,
    DeletePod,
    EmitEvent,
    Listener,
    PatchPod,
    RemoveJob,
    Requeue,
    Run,
)

_ELASTIC_GRACE = 10.0
"""Seconds that elastic nodes have to end after the first: torchrun's agents wait for each other."""
_NO_EFFECT = (
    "ttlSecondsAfterFinished has no effect: the tool that syncs Git would recreate what the "
    "watcher deletes; remove the job from Git"
)


def _after(run: Run) -> Run:
    view, record = run.view, run.record
    if not record.ended:
        return run
    actions, ttl = [*_cleaned(run)], view.job.run.ttl
    if ttl is None or record.finished is None:
        return run.adding(actions)
    # A job that was applied after the end has the same time: nothing new expires at once.
    pods = [*run.pods]
    due = max(record.finished, run.newest, view.declared_at or 0.0) + ttl
    if run.now < due:
        actions.append(Requeue(due))
    elif view.git_managed:
        if not record.expired:
            actions.append(EmitEvent("NotRemoved", _NO_EFFECT))
        record = structs.replace(record, expired=True)
    elif pods:
        actions += (DeletePod(pod.name, pod.uid, "Expired") for pod in pods if not pod.deleting)
    else:
        actions.append(RemoveJob())
    return run.adding(actions, record=record)


def _cleaned(run: Run) -> Iterator[Action]:
    record, policy = run.record, run.job.run
    by_first = record.phase == "Succeeded" and policy.success.needs == "any"
    grace_ends = (record.finished or 0.0) + _ELASTIC_GRACE
    for pod in run.pods if policy.clean_pods in ("Running", "All") else ():
        role = run.job.role(pod.role)
        if role is None or role.name in policy.keeps or pod.deleting:
            continue
        if by_first and role.bounds is not None and not pod.ended and run.now < grace_ends:
            yield Requeue(grace_ends)
        elif run.view.git_managed:
            # A deadline that Git declares would be set back, and Kubernetes refuses to prolong one.
            has_deadline = role.recovery.deadline is not None
            has_deadline = has_deadline or "activeDeadlineSeconds" in role.template.spec
            ends_itself = has_deadline or bool(role.batch) or ends_with_run(role)
            if not (pod.ended or pod.ending or ends_itself):
                yield PatchPod("end", pod.name, pod.uid, "RunIsOver")
        elif policy.clean_pods == "All" or not pod.ended:
            yield DeletePod(pod.name, pod.uid, "RunIsOver")


LISTENER = Listener(after=_after)
