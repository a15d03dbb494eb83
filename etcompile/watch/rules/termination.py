"""Pods that are to go, and those that should have gone and do not.

A worker that the job does not have any more, the second Pod of a rank, a Pod whose deletion was
left half done; and one that holds up others, which is told, because nothing can be done about it.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.model.run_record import Leaving, RunRecord
from etcompile.watch.actions import (
    Action,
    Decision,
    DeletePod,
    EmitEvent,
    EndPod,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules.hostfile import listed_hosts
from etcompile.watch.rules.placement import Placement
from etcompile.watch.rules.restart_policy import comes_back
from etcompile.watch.state import JobView, PodView

# Workers that a job does not have any more -----------------------------------------------------
#
# Out of the host list first, then gone. Where a tool syncs Git, it removes their Pods, as far as it
# knew them; elsewhere the watcher does, after they had time to end what they do. The removal is
# written down by UID before it happens, so that nobody is chosen twice (reference/et-operator.md 6,
# defect 50: there one ScaleIn may remove two workers).


def scaled_in(placement: Placement, record: RunRecord, now: float) -> Decision:
    """The record, with those who leave, and the removal of those who had their time."""
    view = placement.view
    surplus = [
        pod
        for pod in placement.surplus
        # Who followed another, or was made here, is perhaps in no tool's inventory.
        if (not view.git_managed or pod.rank is not None or pod.made_here)
        and not _comes(placement, record, pod)
    ]
    leaving = {pod.name: Leaving(pod.uid, now) for pod in surplus}
    known = [pod.name for pod in surplus if _leaves(record, pod)]
    leaving |= {name: record.leaving[name] for name in known}
    told = [
        EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid)
        for pod in surplus
        if pod.name not in record.leaving
    ]
    removed = [action for pod in surplus for action in _removed(placement, leaving, pod, now)]
    return Decision(structs.replace(record, leaving=leaving), (*removed, *told))


def _comes(placement: Placement, record: RunRecord, pod: PodView) -> bool:
    """Whether a worker is yet to be declared.

    A scale-out makes the Pod first, and changes the job once that is Ready; who was scaled in is
    older than the change of the job. A replacement may be younger, and nobody is to declare that.
    """
    if pod.made_here or _leaves(record, pod):
        return False
    declared_at = placement.view.declared_at
    return declared_at is not None and pod.created > declared_at


def _leaves(record: RunRecord, pod: PodView) -> bool:
    """Whether it is written down already that a worker leaves."""
    return pod.name in record.leaving and record.leaving[pod.name].uid == pod.uid


def _removed(
    placement: Placement, leaving: dict[str, Leaving], pod: PodView, now: float
) -> Iterator[Action]:
    if pod.deleting:
        return
    due = leaving[pod.name].since + placement.view.timeouts.drain
    if now < due:
        yield Requeue(due)
        return
    role = placement.job.role(pod.role)
    host = f"{role.naming.stem}-{pod.index}" if role is not None else pod.name
    if pod.ended or host not in listed_hosts(placement.view.hosts):
        yield DeletePod(pod.name, pod.uid, "ScaledIn")


# Two Pods of one rank, or in one another's name --------------------------------------------------
#
# The one that is declared stays, and whoever followed it goes: the other way round a tool that
# syncs Git would bring the declared one back for ever. One that goes had better go at once, because
# both would join the rendezvous under the same rank (reference/dlrover.md 4.5). A moment is left
# for what is known of the job to arrive: its ConfigMap and its Pods are watched apart. One that
# hangs and is to be followed is ended, so that its log stays.


def duplicates(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """The removal of Pods whose rank or name another one has."""
    for place in placement.places:
        for pod in place.others:
            if pod.uid == record.replica(place.key).lost:
                if not pod.ending and not pod.deleting:
                    yield EndPod(pod.name, pod.uid, "Stuck")
                continue
            newer = max(pod.created, place.pod.created if place.pod else 0.0)
            yield from _gone(placement, pod, newer, now, f"its rank belongs to {place.name}")
    for pod in placement.astray:
        # Whoever applies the job could not make the declared one.
        yield from _gone(
            placement, pod, pod.created, now, "its name now belongs to another replica"
        )


def _gone(
    placement: Placement, pod: PodView, since: float, now: float, why: str
) -> Iterator[Action]:
    due = since + placement.view.timeouts.settle
    if pod.deleting:
        return
    if now < due:
        yield Requeue(due)
        return
    yield DeletePod(pod.name, pod.uid, "RankTaken")
    yield EmitEvent("PodMakesRoom", why, pod.name, pod.uid)


# Deletions that were begun and never finished ----------------------------------------------------
#
# The API server deletes a Pod that has ended in two steps, and leaves out the second when whoever
# asked is killed in between. The Pod then keeps its name for as long as its node does not answer,
# and nobody can be created in its place. Another request finishes it (k8s.io/apiserver,
# registry/rest/delete.go, BeforeDelete). It does not matter who asked first, nor of which run the
# Pod is.


def half_deleted(view: JobView, now: float) -> Iterator[Action]:
    """The deletions to be asked for again, after the moment that one takes."""
    for pod in view.pods.values():
        if not pod.half_deleted:
            continue
        due = pod.due + view.timeouts.settle
        if now < due:
            yield Requeue(due)
        else:
            yield DeletePod(pod.name, pod.uid, "HalfDeleted")


# Pods that hold up others and stay where they are ------------------------------------------------
#
# A Pod that is asked to go stays until its kubelet says that it has ended. While a node does not
# answer nobody knows whether its Pods still train, and no other Pod can have their names; so the
# watcher waits, for as long as it takes (reference/training-operator.md 5.4). Where others follow
# (ElasticJob) it need not. Nor can a Pod of this run have a name that one of another run has:
# whoever began to exchange them has stopped half way.


def unreachable(placement: Placement, record: RunRecord, now: float) -> Decision:
    """The record, with the Pods that hold up their replacements, and word of those that are new."""
    known = frozenset(record.unreachable)
    overdue = placement.view.timeouts.start
    found: list[PodView] = []
    later: list[float] = []
    for pod in _in_the_way(placement):
        if pod.phase == "Unknown" or now >= pod.due + overdue:
            found.append(pod)
        else:
            later.append(pod.due + overdue)
    actions: list[Action] = [
        EmitEvent("PodUnreachable", _words(pod), pod.name, pod.uid, warning=True)
        for pod in found
        if pod.uid not in known
    ]
    others = _of_other_runs(placement)
    if others:
        newest = max(pod.created for pod in (*others, *placement.of_this_run))
        due = max(newest, placement.view.declared_at or 0.0) + overdue
        if now < due:
            # Somebody may be about to exchange them.
            later.append(due)
            others = []
        else:
            if any(pod.uid not in known for pod in others):
                actions.append(EmitEvent("NameTaken", _words_of(others), warning=True))
            actions += _exchanged(placement)
    uids = tuple(sorted(pod.uid for pod in (*found, *others)))
    again = [Requeue(min(later))] if later else []
    return Decision(structs.replace(record, unreachable=uids), (*actions, *again))


def _in_the_way(placement: Placement) -> Iterator[PodView]:
    """Pods on their way out, and those of which nothing is known."""
    for place in placement.places:
        pod = place.pod
        if pod is not None and (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            yield pod


def _of_other_runs(placement: Placement) -> list[PodView]:
    """Pods of other runs of the job that have the names of this one's."""
    pods = placement.view.pods
    found = (pods[place.name] for place in placement.places if place.taken)
    return [pod for pod in found if pod.spec_hash not in ("", placement.view.spec_hash)]


def _exchanged(placement: Placement) -> Iterator[ReplacePod]:
    """What has failed of another run gets the Pod that is declared now, as its policy says."""
    others = {pod.name: pod for pod in _of_other_runs(placement) if pod.phase == "Failed"}
    for place in placement.places:
        pod, role = others.get(place.name), place.role
        if pod is None or pod.role != role.name or pod.deleting or pod.controller:
            continue
        if role.recovery.relaunch is None and comes_back(role, "failed", pod):
            yield ReplacePod(pod.name, pod.uid, place.role.name, place.index, "AnotherRun")


def _words_of(others: Sequence[PodView]) -> str:
    first = others[0]
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return (
        f"{first.name}{more}: not of the run that the ConfigMap describes, but of run "
        f"{first.spec_hash}, so their hosts are not listed and the one that is declared comes "
        "only when they fail; apply the job with --replace to exchange them"
    )


def _words(pod: PodView) -> str:
    if pod.ended:
        return "has ended and is kept by a finalizer: nothing can replace it until that is removed"
    what = "its node does not answer, so it is not known whether it still runs; it is replaced when"
    force = f"if the node is gone for good: kubectl delete pod {pod.name} --force --grace-period=0"
    return f"{what} it is gone ({force})"
