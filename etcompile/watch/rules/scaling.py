"""Workers that a job does not have any more: out of the host list first, then gone.

Where a tool syncs Git, it removes their Pods, as far as it knew them; elsewhere the watcher does,
after they had time to end what they do. The removal is written down by UID before it happens, so
that nobody is chosen twice (reference/et-operator.md 6, defect 50: there one ScaleIn may remove two
workers).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import Action, DeletePod, EmitEvent, Requeue
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.hosts import listed_hosts
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import Leaving, PodView, RunRecord


def scaled_in(run_state: RunState, record: RunRecord, now: float) -> Decision:
    """The record, with those who leave, and the removal of those who had their time.

    Args:
        run_state: Who is there.
        record: The run record.
        now: The time.
    """
    view = run_state.view
    surplus = [
        pod
        for pod in run_state.surplus
        # Who followed another, or was made here, is perhaps in no tool's inventory.
        if (not view.git_managed or pod.rank is not None or pod.made_here)
        and not _comes(run_state, record, pod)
    ]
    leaving = {pod.name: _leaving(record.leaving.get(pod.name), pod, now) for pod in surplus}
    told = [
        EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid)
        for pod in surplus
        if pod.name not in record.leaving
    ]
    removed = [action for pod in surplus for action in _removed(run_state, leaving, pod, now)]
    return Decision(structs.replace(record, leaving=leaving), (*removed, *told))


def _comes(run_state: RunState, record: RunRecord, pod: PodView) -> bool:
    """Whether a worker is yet to be declared.

    A scale-out makes the Pod first, and changes the job once that is Ready; who was scaled in is
    older than the change of the job. A replacement may be younger, and nobody is to declare that.
    """
    if pod.made_here:
        return False
    if pod.name in record.leaving and record.leaving[pod.name].uid == pod.uid:
        return False
    declared_at = run_state.view.declared_at
    return declared_at is not None and pod.created > declared_at


def _leaving(before: Leaving | None, pod: PodView, now: float) -> Leaving:
    same = before is not None and before.uid == pod.uid
    return before if before is not None and same else Leaving(pod.uid, now)


def _removed(
    run_state: RunState, leaving: dict[str, Leaving], pod: PodView, now: float
) -> Iterator[Action]:
    if pod.deleting:
        return
    due = leaving[pod.name].since + run_state.view.timeouts.drain
    if now < due:
        yield Requeue(due)
    elif pod.ended or _host(run_state, pod) not in listed_hosts(run_state.view.hosts):
        yield DeletePod(pod.name, pod.uid, "ScaledIn")


def _host(run_state: RunState, pod: PodView) -> str:
    role = run_state.job.role(pod.role)
    return f"{role.stem}-{pod.index}" if role is not None else pod.name
