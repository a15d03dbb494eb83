"""Workers that a job does not have any more: out of the host list first, then gone.

Where a tool syncs Git, it removes their Pods, as far as it knew them; elsewhere the watcher does,
after they had time to end what they do. The removal is written down by UID before it happens, so
that nobody is chosen twice (reference/et-operator.md 6, defect 50: there one ScaleIn may remove two
workers).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import Action, DeletePod, EmitEvent, Requeue
from etcompile.watch.rules.hosts import listed_hosts
from etcompile.watch.rules.places import Standing
from etcompile.watch.rules.ruling import Ruling
from etcompile.watch.state import Leaving, PodView, RunRecord


def scaled_in(standing: Standing, record: RunRecord, now: float) -> Ruling:
    """The record, with those who leave, and the removal of those who had their time.

    Args:
        standing: Who is there.
        record: The run record.
        now: The time.
    """
    view = standing.view
    surplus = [
        pod
        for pod in standing.surplus
        # Who followed another, or was made here, is perhaps in no tool's inventory.
        if (not view.git_managed or pod.rank is not None or pod.made_here)
        and not _comes(standing, record, pod)
    ]
    leaving = {pod.name: _leaving(record.leaving.get(pod.name), pod, now) for pod in surplus}
    told = [
        EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid)
        for pod in surplus
        if pod.name not in record.leaving
    ]
    removed = [action for pod in surplus for action in _removed(standing, leaving, pod, now)]
    return Ruling(structs.replace(record, leaving=leaving), (*removed, *told))


def _comes(standing: Standing, record: RunRecord, pod: PodView) -> bool:
    """Whether a worker is yet to be declared.

    A scale-out makes the Pod first, and changes the job once that is Ready; who was scaled in is
    older than the change of the job. A replacement may be younger, and nobody is to declare that.
    """
    if pod.made_here:
        return False
    if pod.name in record.leaving and record.leaving[pod.name].uid == pod.uid:
        return False
    declared_at = standing.view.declared_at
    return declared_at is not None and pod.created > declared_at


def _leaving(before: Leaving | None, pod: PodView, now: float) -> Leaving:
    same = before is not None and before.uid == pod.uid
    return before if before is not None and same else Leaving(pod.uid, now)


def _removed(
    standing: Standing, leaving: dict[str, Leaving], pod: PodView, now: float
) -> Iterator[Action]:
    if pod.deleting:
        return
    due = leaving[pod.name].since + standing.view.patience.drain
    if now < due:
        yield Requeue(due)
    elif pod.ended or _host(standing, pod) not in listed_hosts(standing.view.hosts):
        yield DeletePod(pod.name, pod.uid, "ScaledIn")


def _host(standing: Standing, pod: PodView) -> str:
    role = standing.job.role(pod.role)
    return f"{role.stem}-{pod.index}" if role is not None else pod.name
