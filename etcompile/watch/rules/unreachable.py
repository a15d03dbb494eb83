"""Pods that should have gone and are still there: nothing can be done, so it is told.

A Pod that is asked to go stays until its kubelet says that it has ended. While a node does not
answer nobody knows whether its Pods still train, and no other Pod can have their names; so the
watcher waits, for as long as it takes (reference/training-operator.md 5.4). Where others follow
(ElasticJob) it need not.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import EmitEvent, Requeue
from etcompile.watch.rules.places import Standing
from etcompile.watch.rules.ruling import Ruling
from etcompile.watch.state import PodView, RunRecord


def told(standing: Standing, record: RunRecord, now: float) -> Ruling:
    """The record, with the Pods that hold up their replacements, and word of those that are new.

    Args:
        standing: Who is there.
        record: The run record.
        now: The time.
    """
    known = frozenset(record.unreachable)
    overdue = standing.view.patience.start
    found: list[PodView] = []
    later: list[float] = []
    for pod in _in_the_way(standing):
        if pod.phase == "Unknown" or now >= pod.due + overdue:
            found.append(pod)
        else:
            later.append(pod.due + overdue)
    actions = [
        EmitEvent("PodUnreachable", _words(pod), pod.name, pod.uid, warning=True)
        for pod in found
        if pod.uid not in known
    ]
    uids = tuple(sorted(pod.uid for pod in found))
    again = [Requeue(min(later))] if later else []
    return Ruling(structs.replace(record, unreachable=uids), (*actions, *again))


def _in_the_way(standing: Standing) -> Iterator[PodView]:
    """Pods on their way out, and those of which nothing is known."""
    for place in standing.places:
        pod = place.pod
        if pod is not None and (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            yield pod


def _words(pod: PodView) -> str:
    if pod.ended:
        return "has ended and is kept by a finalizer: nothing can replace it until that is removed"
    what = "its node does not answer, so it is not known whether it still runs; it is replaced when"
    force = f"if the node is gone for good: kubectl delete pod {pod.name} --force --grace-period=0"
    return f"{what} it is gone ({force})"
