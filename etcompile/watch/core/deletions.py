"""Pods that are to go, and those that should have gone and do not.

A worker that the job does not have any more, the second Pod of a rank, one on a node that does not
answer; and one that holds up others, which is only reported, because nothing can be done about it.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import Leaving, RunRecord
from etcompile.watch.core.actions import (
    Action,
    Decision,
    DeletePod,
    EmitEvent,
    PatchPod,
    Requeue,
)
from etcompile.watch.core.hostfile import listed_hosts
from etcompile.watch.core.placement import Placement

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
# have a name that another Pod has.


def unreachable(placement: Placement, record: RunRecord, now: float) -> Decision:
    """Return the record, with the Pods that hold up others, and the Events about new ones."""
    view, known = placement.view, frozenset(record.unreachable)
    overdue = view.timeouts.start
    newest = max((pod.created for pod in placement.of_this_run), default=0.0)
    uids: list[str] = []
    times: list[float] = []
    actions: list[Action] = []
    for replica in placement.replicas:
        pod, reason = replica.pod, "PodUnreachable"
        if replica.blocked:
            # Somebody may be about to exchange it.
            pod, reason = view.pods[replica.name], "NameTaken"
            due = max(pod.created, newest, view.declared_at or 0.0) + overdue
        elif pod is None or not (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            continue
        else:
            due = 0.0 if pod.phase == "Unknown" else pod.due + overdue
        if now < due:
            times.append(due)
            continue
        uids.append(pod.uid)
        if pod.uid in known:
            continue
        if replica.blocked:
            message = (
                "it is not of the run in the ConfigMap and has the name of one of its Pods, which "
                "cannot be created; apply the job with --replace, or delete this Pod"
            )
        elif pod.ended:
            message = "it has ended, but a finalizer keeps it: it is replaced when that is gone"
        else:
            force = f"kubectl delete pod {pod.name} --force --grace-period=0"
            message = (
                "its node does not answer, so it may still be running; it is replaced when it is "
                f"gone (if the node is gone for good: {force})"
            )
        actions.append(EmitEvent(reason, message, pod.name, pod.uid, warning=True))
    if times:
        actions.append(Requeue(min(times)))
    return Decision(structs.replace(record, unreachable=tuple(sorted(uids))), actions)
