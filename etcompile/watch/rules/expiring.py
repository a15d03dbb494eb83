"""What is left of a run some time after its end: ttlSecondsAfterFinished.

First its Pods go, then all that was made for the job, as the garbage collection of an operator's
custom resource does (reference/training-operator.md 5.6); the job's own ConfigMap is the last. Only
where no tool syncs Git: it would create again what has expired, and the job would run again
(reference/gitops.md 1.5). That is told.
"""

from msgspec import structs

from etcompile.watch.actions import DeletePod, EmitEvent, RemoveJob, Requeue
from etcompile.watch.rules.places import Standing
from etcompile.watch.rules.ruling import Ruling
from etcompile.watch.state import RunRecord

_NO_EFFECT = (
    "ttlSecondsAfterFinished has no effect: the tool that syncs Git would create again what is "
    "removed; remove the job from Git"
)


def expired(standing: Standing, record: RunRecord, now: float) -> Ruling:
    """The removal of a job whose time is over.

    Args:
        standing: Who is there.
        record: The record of a run that has ended.
        now: The time.
    """
    ttl = standing.job.run.ttl
    if ttl is None or record.finished is None:
        return Ruling(record)
    # Who was applied after the end has the same time: nothing expires that has just been created.
    newest = max((pod.created for pod in standing.of_this_run), default=0.0)
    due = max(record.finished, newest, standing.view.declared_at or 0.0) + ttl
    if now < due:
        return Ruling(record, (Requeue(due),))
    if standing.view.git_managed:
        told = () if record.expired else (EmitEvent("NotRemoved", _NO_EFFECT),)
        return Ruling(structs.replace(record, expired=True), told)
    pods = [*standing.of_this_run]
    if not pods:
        return Ruling(record, (RemoveJob(),))
    going = [DeletePod(pod.name, pod.uid, "Expired") for pod in pods if not pod.deleting]
    return Ruling(record, tuple(going))
