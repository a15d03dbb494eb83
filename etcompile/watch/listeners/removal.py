"""Remove jobs `ttlSecondsAfterFinished` after their end.

First the Pods go, then all objects of the job, as the garbage collection of an operator's custom
resource does (reference/training-operator.md 5.6). Only where no tool syncs Git: it would create
again what has expired. An Event says so.
"""

from msgspec import structs

from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, RemoveJob, Requeue
from etcompile.watch.core.run import Listener, Run

_NO_EFFECT = (
    "ttlSecondsAfterFinished has no effect: the tool that syncs Git would recreate what the "
    "watcher deletes; remove the job from Git"
)


def _after(run: Run) -> Run:
    view, record = run.view, run.record
    ttl = view.job.run.ttl
    if ttl is None or record.finished is None or not record.ended:
        return run
    # A job that was applied after the end has the same time: nothing new expires at once.
    pods = [*run.pods]
    due = max(record.finished, run.newest, view.declared_at or 0.0) + ttl
    actions: list[Action] = []
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


LISTENER = Listener(after=_after)
