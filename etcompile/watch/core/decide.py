"""Decide what is to be done about a job: from what is known of it to actions.

Everything here is a function from values to values. In this order:

- `placement`: which Pod has the place, and the rank, of which declared replica;
- `phase`: what there is to see of the run, written down;
- the listeners' `before`: what optional features know;
- `replicas`: each replica in one word;
- `verdict`: whether the run is over, and how;
- `replacement`: lost replicas come back, one by one or all together;
- below: Pods that must go, and nodes that do not answer;
- `hostfile`: the live host lists;
- the listeners' `after`.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import Leaving, RunRecord
from etcompile.watch.core import hostfile, phase, replacement, verdict
from etcompile.watch.core.actions import (
    Action,
    Count,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    PatchPod,
    Requeue,
    WriteStatus,
)
from etcompile.watch.core.hostfile import listed_hosts
from etcompile.watch.core.listener import Before, Listener, Outcome
from etcompile.watch.core.placement import Placement, Replica, placement
from etcompile.watch.core.replicas import RunState, run_state
from etcompile.watch.core.view import JobView


def decide(view: JobView, now: float, listeners: Sequence[Listener] = ()) -> tuple[Action, ...]:
    """Decide what is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: In seconds since 1970.
        listeners: The optional features, in the order in which they are asked.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    pods, begun = placement(view), phase.begun(view)
    before, losses = None, tuple[Replica, ...]()
    # A run ends once, and a job that is suspended has nothing to lose.
    if begun.ended:
        decision = verdict.after_the_end(pods, begun, now)
    elif view.job.run.suspended:
        decision = phase.suspended(pods, begun)
    else:
        back = phase.resumed(begun)
        before = Before(phase.observed(pods, back.record), tuple(back.actions))
        for listener in listeners:
            before = listener.before(pods, before, now)
        state = run_state(pods, before, now)
        losses = tuple(state.new_losses())
        decision = _decision(state)
    decision = phase.superseded(view, decision, now)
    actions = (
        *decision.actions,
        *phase.orphaned(view),
        *half_deleted(view, now),
        *released(pods, now),
    )
    facts = before.facts if before is not None else {}
    outcome = Outcome(pods, now, begun, decision.record, actions, losses, before, facts=facts)
    for listener in listeners:
        outcome = listener.after(outcome)
    return _recorded(outcome)


def _recorded(outcome: Outcome) -> tuple[Action, ...]:
    """Return the actions of an outcome, with the record first if it is worth writing."""
    view, record, now = outcome.view, outcome.record, outcome.now
    # From `quiet` on no Pod has appeared for a while.
    newest = max((pod.created for pod in outcome.placement.of_this_run), default=0.0)
    quiet = newest + view.timeouts.settle
    due = min((note.due for note in outcome.notes.values()), default=float("inf"))
    stale = view.record is not None and not view.copied and not record.ended
    if stale or now >= due or phase.worth_writing(view.record, record, quiet=now >= quiet):
        # What is written down is not decided again, so its Events come at once: the requests
        # after it may fail, and then what comes after them is left.
        events_first = sorted(
            _in_order(outcome.actions), key=lambda action: not isinstance(action, EmitEvent)
        )
        notes = {key: text for key, note in outcome.notes.items() if (text := note.text())}
        return (WriteStatus(record, notes), *events_first)
    again = [Requeue(due)] if due != float("inf") else []
    if record != view.record and now < quiet:
        # A time that has been would have the job reconciled again and again, for nothing.
        again.append(Requeue(quiet))
    actions = (own for own in outcome.actions if not isinstance(own, Count))
    return tuple(_in_order((*actions, *again)))


def _decision(state: RunState) -> Decision:
    """Ask all rules, each with the record that the ones before it have written."""
    pods, now, before = state.placement, state.now, state.before
    # Whether it is over is asked first: nobody is to be replaced for a run that is.
    end = verdict.end(state)
    if end is not None and not (end.succeeded or end.again) and now < verdict.sure_at(state):
        return Decision(before.record, (*before.actions, Requeue(verdict.sure_at(state))))
    if end is not None and not end.again:
        ended = verdict.ended(state, end)
        after = verdict.after_the_end(pods, ended.record, now)
        learned = [own for own in before.actions if isinstance(own, Count | EmitEvent)]
        return Decision(after.record, (*learned, *ended.actions, *after.actions))
    actions = [*before.actions]
    if end is not None:
        losses = replacement.restarted(state, end.message, end.loss, from_start=True)
    else:
        actions += verdict.next_look(state)
        losses = _losses(state)
    actions += losses.actions
    # From here on replicas are asked about as they are with what has just been decided.
    if losses.record != state.record:
        state = run_state(pods, structs.replace(before, record=losses.record), now)
    if state.record.phase == "Restarting":
        actions += replacement.next_steps(state)
    for replica in state.those("left"):
        pod = replica.pod if replica.role.recovery.relaunch else None
        if pod is not None and not pod.ended and not pod.ending:
            actions.append(PatchPod("end", pod.name, pod.uid, "Lost"))
    leaving = Decision(state.record)
    if not state.view.superseded:
        actions += duplicates(pods, state.record, now)
        leaving = scaled_in(pods, state.record, now)
    actions += leaving.actions
    actions += hostfile.gates_opened(pods, leaving.record)
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    actions += hostfile.listed(state)
    # Last what is only reported: it needs to know what became of everybody.
    waits = phase.held_up(structs.replace(state, record=leaving.record))
    lost = unreachable(pods, waits.record, now)
    return Decision(lost.record, (*actions, *waits.actions, *lost.actions))


def _losses(state: RunState) -> Decision:
    """Say what becomes of lost replicas: all together come back, or each by itself."""
    if state.record.phase == "Restarting":
        return Decision(state.record)
    if (asked := state.before.restart) is not None:
        return replacement.restarted(state, asked.message, counted=asked.counted)
    if (together := replacement.joint_loss(state)) is not None:
        return together
    decision = replacement.replaced(state)
    return Decision(hostfile.renamed(state, decision.record), decision.actions)


def _in_order(actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions, each Pod going once, and only the first of the times to look again."""
    times = []
    going: set[str] = set()
    for action in actions:
        if isinstance(action, Requeue):
            times.append(action.at)
            continue
        uid = action.uid if isinstance(action, DeletePod | CreatePod) else ""
        if not uid or uid not in going:
            yield action
        going.add(uid)
    if times:
        yield Requeue(min(times))


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


# The API server deletes a Pod that has ended in two steps, and leaves out the second when it is
# killed in between. The Pod then keeps its name for as long as its node does not answer, or for
# ever if it has none. Another request finishes it (k8s.io/apiserver, registry/rest/delete.go).


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
