"""What is left of a run some time after its end: ttlSecondsAfterFinished.

Only where no tool syncs Git: it would create again what has expired, and the job would run again
(reference/gitops.md 1.5).
"""

from collections.abc import Iterator

from etcompile.watch.actions import Action, DeletePod, Requeue
from etcompile.watch.rules.places import Standing
from etcompile.watch.state import RunRecord


def expired(standing: Standing, record: RunRecord, now: float) -> Iterator[Action]:
    """The removal of all Pods of a run whose time is over.

    Args:
        standing: Who is there.
        record: The record of a run that has ended.
        now: The time.
    """
    ttl = standing.job.run.ttl
    if ttl is None or standing.view.git_managed or record.finished is None:
        return
    if now < record.finished + ttl:
        yield Requeue(record.finished + ttl)
        return
    for pod in standing.of_this_run:
        if not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Expired")
