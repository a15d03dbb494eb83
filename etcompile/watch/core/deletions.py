"""Pods that are to go, and those that should have gone and do not.

A worker that the job does not have any more, the second Pod of a rank, a Pod whose deletion was
left half done, one on a node that does not answer; and one that holds up others, which is only
reported, because nothing can be done about it.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import Leaving, RunRecord
from etcompile.watch.core.actions import (
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    PatchPod,
    Requeue,
)
from etcompile.watch.core.hostfile import listed_hosts
from etcompile.watch.core.placement import Placement
from etcompile.watch.core.replicas import comes_back
from etcompile.watch.core.view import JobView

# Workers that a job does not have any more -----------------------------------------------------
#
# Out of the host list first, then gone. Where a tool syncs Git, it removes their Pods, as far as it
# knew them; elsewhere the watcher does, after a while. The removal is written down by UID before it
# happens, so that nobody is chosen twice (reference/et-operator.md 6, defect 50).


def scaled_in(placement: Placement, record: RunRecord, now: float) -> Decision:
    """Return the record, with those who leave, and the removal of those who had their time."""
    view = placement.view
    leaving: dict[str, Leaving] = {}
    removed: list[Action] = []
    events: list[Action] = []
    for pod in placement.surplus:
        before = record.leaving.get(pod.name)
        leaves = before is not None and before.uid == pod.uid
        # Who followed another, or was made here, is perhaps in no tool's inventory.
        if view.git_managed and pod.rank is None and not pod.created_here:
            continue
        # A scale-out creates the Pod before it changes the job: who was scaled in is older than the
        # change. Only a replacement may be younger.
        is_young = view.declared_at is not None and pod.created > view.declared_at
        if is_young and not pod.created_here and not leaves:
            continue
        leaving[pod.name] = before if before is not None and leaves else Leaving(pod.uid, now)
        if before is None:
            events.append(EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid))
        if pod.deleting:
            continue
        due = leaving[pod.name].since + view.timeouts.drain
        if now < due:
            removed.append(Requeue(due))
            continue
        role = placement.job.role(pod.role)
        host = f"{role.naming.stem}-{pod.index}" if role is not None else pod.name
        if pod.ended or host not in listed_hosts(view.hosts):
            removed.append(DeletePod(pod.name, pod.uid, "ScaledIn"))
    return Decision(structs.replace(record, leaving=leaving), (*removed, *events))


# Two Pods of one rank, or in one another's name --------------------------------------------------
#
# The one that is declared stays: a tool that syncs Git would bring it back for ever. Both would
# join the rendezvous under the same rank (reference/dlrover.md 4.5), so the other one goes, after a
# moment for the job's ConfigMap to arrive. One that hangs is ended, so that its log stays.


def duplicates(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """Yield the removal of Pods whose rank or name another one has."""
    extra: list[tuple[PodState, float, str]] = []
    for replica in placement.replicas:
        for pod in replica.others:
            if pod.uid != record.replica(replica.key).lost:
                newer = max(pod.created, replica.pod.created if replica.pod else 0.0)
                extra.append((pod, newer, f"its rank belongs to {replica.name}"))
            elif not pod.ending and not pod.deleting:
                yield PatchPod("end", pod.name, pod.uid, "Lost")
    # Whoever applies the job could not make the declared one.
    other = "its name now belongs to another replica"
    extra += ((pod, pod.created, other) for pod in placement.astray)
    for pod, since, why in extra:
        due = since + placement.view.timeouts.settle
        if pod.deleting:
            continue
        if now < due:
            yield Requeue(due)
        else:
            yield DeletePod(pod.name, pod.uid, "RankTaken")
            yield EmitEvent("PodMakesRoom", why, pod.name, pod.uid)


# Deletions that were begun and never finished ----------------------------------------------------
#
# The API server deletes a Pod that has ended in two steps, and leaves out the second when whoever
# asked is killed in between. The Pod then keeps its name for as long as its node does not answer.
# Another request finishes it (k8s.io/apiserver, registry/rest/delete.go, BeforeDelete).


def half_deleted(view: JobView, now: float) -> Iterator[Action]:
    """Yield the deletions to be asked for again, after the moment that one takes."""
    for pod in view.pods.values():
        if pod.half_deleted:
            due = pod.due + view.timeouts.settle
            yield Requeue(due) if now < due else DeletePod(pod.name, pod.uid, "HalfDeleted")


# Nodes that do not answer ------------------------------------------------------------------------
#
# Such a node keeps its Pods, and with them their names, until somebody says that it is gone for
# good. `etcompile.dev/lost-node-after` says so after a time: the Pod is asked to go, so that its
# kubelet, should it come back, ends it; then it is deleted by force. Its processes may still run.
# Where commands restart in place none of them takes part in the next restart.


def released(placement: Placement, now: float) -> Iterator[Action]:
    """Yield the removal of Pods whose nodes have not answered for too long."""
    run, record = placement.job.run, placement.view.own_record
    if run.lost_node_after is None:
        return
    over = run.suspended or (record is not None and record.ended)
    for pod in placement.of_this_run:
        since = silent_since(pod)
        if not since or (over and not pod.deleting):
            continue
        message = (
            f"node {pod.node} has not answered for {run.lost_node_after} s: the Pod is "
            "force-deleted; if the node is still running, so may be its processes"
        )
        event = EmitEvent("PodReleased", message, pod.name, pod.uid, warning=True)
        due = since + run.lost_node_after
        if now < due:
            yield Requeue(due)
        elif not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "NodeLost")
            yield event
        elif pod.due:  # else the answer to that is still on its way here
            yield DeletePod(pod.name, pod.uid, "NodeLost", force=True)
            if pod.deletion_requested + 1 < due:  # somebody else has asked
                yield event


def silent_since(pod: PodState) -> float:
    """Return since when a Pod's node has not answered, in seconds since 1970; 0 if nothing says so.

    That a Pod should have gone and is still there says so as well: its kubelet ends it in time,
    whatever it does.
    """
    if pod.ended or not pod.node:
        return 0.0
    if pod.unreachable_since:
        return pod.unreachable_since
    return pod.due if pod.deleting else 0.0


# Pods that hold up others and stay where they are ------------------------------------------------
#
# While a node does not answer nobody knows whether its Pods still train, and no other Pod can have
# their names; so the watcher waits (reference/training-operator.md 5.4). Nor can a Pod of this run
# have a name that one of another run has: whoever began to exchange them has stopped half way.


def unreachable(placement: Placement, record: RunRecord, now: float) -> Decision:
    """The record, with the Pods that hold up their replacements, and the Events about new ones."""
    known = frozenset(record.unreachable)
    overdue = placement.view.timeouts.start
    blocking: list[PodState] = []
    later: list[float] = []
    for pod in (replica.pod for replica in placement.replicas if replica.pod is not None):
        if pod.phase == "Unknown" or (pod.deleting and pod.due and now >= pod.due + overdue):
            blocking.append(pod)
        elif pod.deleting and pod.due:
            later.append(pod.due + overdue)
    actions: list[Action] = []
    for pod in (pod for pod in blocking if pod.uid not in known):
        force = f"kubectl delete pod {pod.name} --force --grace-period=0"
        message = (
            "its node does not answer, so it may still be running; it is replaced when it is gone "
            f"(if the node is gone for good: {force})"
        )
        if pod.ended:
            until = "it is not replaced until the finalizer is gone"
            message = f"has ended, but a finalizer keeps it: {until}"
        actions.append(EmitEvent("PodUnreachable", message, pod.name, pod.uid, warning=True))
    pods = (placement.view.pods[replica.name] for replica in placement.replicas if replica.blocked)
    others = [pod for pod in pods if pod.spec_hash not in ("", placement.view.spec_hash)]
    if others:
        newest = max(pod.created for pod in (*others, *placement.of_this_run))
        due = max(newest, placement.view.declared_at or 0.0) + overdue
        if now < due:
            # Somebody may be about to exchange them.
            later.append(due)
            others = []
    if any(pod.uid not in known for pod in others):
        first = others[0]
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        message = (
            f"{first.name}{more}: part of run {first.spec_hash}, not of the run in the "
            "ConfigMap; its host is not listed, and the declared Pod is created only when it "
            "fails; apply the job with --replace to replace it"
        )
        actions.append(EmitEvent("NameTaken", message, warning=True))
    # What has failed of another run gets the Pod that is declared now, as its policy says.
    failed = {pod.name: pod for pod in others if pod.phase == "Failed"}
    for replica in placement.replicas:
        other, role = failed.get(replica.name), replica.role
        if other is None or other.role != role.name or other.deleting or other.controller:
            continue
        if role.recovery.relaunch is None and comes_back(role, "failed", other):
            again = CreatePod(other.name, role.name, replica.index, "AnotherRun", uid=other.uid)
            actions.append(again)
    uids = tuple(sorted(pod.uid for pod in (*blocking, *others)))
    if later:
        actions.append(Requeue(min(later)))
    return Decision(structs.replace(record, unreachable=uids), actions)
