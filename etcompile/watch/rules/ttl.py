"""What is left of a run some time after its end: ttlSecondsAfterFinished.

First its Pods go, then all that was made for the job, as the garbage collection of an operator's
custom resource does (reference/training-operator.md 5.6); the job's own ConfigMap is the last. Only
where no tool syncs Git: it would create again what has expired, and the job would run again
(reference/gitops.md 1.5). That is told.
"""

from msgspec import structs

from etcompile.watch.actions import DeletePod, EmitEvent, RemoveJob, Requeue
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import RunRecord

_NO_EFFECT = (
    "ttlSecondsAfterFinished has no effect: the tool that syncs Git would create again what is "
    "removed; remove the job from Git"
)


def expired(run_state: RunState, record: RunRecord, now: float) -> Decision:
    """The removal of a job whose time is over.

    Args:
        run_state: Who is there.
        record: The record of a run that has ended.
        now: The time.
    """
    ttl = run_state.job.run.ttl
    if ttl is None or record.finished is None:
        return Decision(record)
    # Who was applied after the end has the same time: nothing expires that has just been created.
    newest = max((pod.created for pod in run_state.of_this_run), default=0.0)
    due = max(record.finished, newest, run_state.view.declared_at or 0.0) + ttl
    if now < due:
        return Decision(record, (Requeue(due),))
    if run_state.view.git_managed:
        told = () if record.expired else (EmitEvent("NotRemoved", _NO_EFFECT),)
        return Decision(structs.replace(record, expired=True), told)
    pods = [*run_state.of_this_run]
    if not pods:
        return Decision(record, (RemoveJob(),))
    going = [DeletePod(pod.name, pod.uid, "Expired") for pod in pods if not pod.deleting]
    return Decision(record, tuple(going))
