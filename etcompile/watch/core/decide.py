"""Decide what is to be done about a job: from what is known of it to actions.

Everything here is a function from values to values. One value, `Run`, goes through these steps:

- `placement`: which Pod has the place, and the rank, of which declared replica;
- `phase`: what there is to see of the run, written down;
- the listeners' `before`: what optional features know;
- `judged`: each replica in one word;
- `verdict`: whether the run is over, and how;
- `replacement`: lost replicas come back, one by one or all together;
- below: Pods that must go, and nodes that do not answer;
- `hostfile`: the live host lists;
- the listeners' `after`.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import Leaving
from etcompile.watch.core import hostfile, phase, replacement, verdict
from etcompile.watch.core.actions import (
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    PatchPod,
    Requeue,
    WriteStatus,
)
from etcompile.watch.core.replicas import judged, placement
from etcompile.watch.core.run import Listener, Run
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
    run = placement(view, now)
    # A run ends once, and a job that is suspended has nothing to lose.
    if run.record.ended:
        run = verdict.after_the_end(run)
    elif view.job.run.suspended:
        run = phase.suspended(run)
    else:
        run = phase.observed(run)
        for listener in listeners:
            run = listener.before(run)
        run = judged(run)
        settled = (
            loss
            for loss in run.in_state("lost")
            if not loss.since or now >= loss.settled(run.timeouts)
        )
        run = _decided(structs.replace(run, losses=tuple(settled), attempt=run.record.attempt))
    run = phase.superseded(run)
    run = run.adding((*half_deleted(view, now), *released(run)))
    for listener in listeners:
        run = listener.after(run)
    return _recorded(run)


def _decided(run: Run) -> Run:
    """Ask all rules, each with the record that the ones before it have written."""
    # Whether it is over is asked first: a run that is over needs no replacements.
    end, again = verdict.end(run)
    if end is not None and run.now < end.sure_at:
        return run.adding([Requeue(end.sure_at)])
    if end is not None and not end.again:
        learned = tuple(action for action in run.actions if isinstance(action, Count | EmitEvent))
        return verdict.ended(structs.replace(run, actions=learned), end)
    known = run.record
    if end is not None:
        run = replacement.restarted(run, end.message, end.loss, from_start=True)
    else:
        run = run.adding(again)
        if known.phase != "Restarting" and (restart := run.restart) is not None:
            run = replacement.restarted(run, restart.message, counted=restart.counted)
        elif known.phase != "Restarting":
            joint = replacement.joint_restart(run)
            run = joint or hostfile.renamed(replacement.replaced(run))
    # From here on rules see replicas with what has just been decided.
    if run.record != known:
        run = judged(run)
    if run.record.phase == "Restarting":
        run = run.adding(replacement.next_steps(run))
    for replica in run.in_state("left"):
        pod = replica.pod if replica.role.recovery.relaunch else None
        if pod is not None and not pod.ended and not pod.ending:
            run = run.adding([PatchPod("end", pod.name, pod.uid, "Lost")])
    if not run.view.superseded:
        run = scaled_in(run.adding(duplicates(run)))
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    run = run.adding((*hostfile.gates_opened(run), *hostfile.listed(run)))
    # Last what is only reported: it needs to know what became of all others.
    return unreachable(phase.held_up(run))


def _recorded(run: Run) -> tuple[Action, ...]:
    """Return the actions of a run, the record first if it is worth writing, each Pod going once."""
    # From `quiet` on no Pod has appeared for a while.
    quiet = run.newest + run.timeouts.settle
    due = min((note.due for note in run.notes.values()), default=float("inf"))
    writes = run.now >= due or phase.worth_writing(run, quiet=run.now >= quiet)
    times = [action.at for action in run.actions if isinstance(action, Requeue)]
    actions: list[Action] = []
    going: set[str] = set()
    for action in run.actions:
        uid = action.uid if isinstance(action, DeletePod | CreatePod) else ""
        if not (isinstance(action, Requeue) or (uid and uid in going)):
            actions.append(action)
        going.add(uid)
    if writes:
        # What is written down is not decided again, so its Events come at once: the requests
        # after it may fail, and then the rest is left.
        actions.sort(key=lambda action: not isinstance(action, EmitEvent))
        notes = {key: text for key, note in run.notes.items() if (text := note.text())}
        actions = [WriteStatus(run.record, notes), *actions]
    else:
        actions = [action for action in actions if not isinstance(action, Count)]
        times.append(due)
        if run.record != run.view.record and run.now < quiet:
            # A time in the past would have the job reconciled again and again, for nothing.
            times.append(quiet)
    again = min(times, default=float("inf"))
    return (*actions, Requeue(again)) if again != float("inf") else tuple(actions)


# Workers that a job does not have any more -----------------------------------------------------
#
# Out of the host list first, then gone. If a tool syncs Git, it removes their Pods, as far as it
# knew them; elsewhere the watcher does, after a while. The removal is written down by UID before it
# happens, so that none is chosen twice (reference/et-operator.md 6, defect 50).


def scaled_in(run: Run) -> Run:
    view, record = run.view, run.record
    leaving: dict[str, Leaving] = {}
    actions: list[Action] = []
    events: list[Action] = []
    for pod in run.surplus:
        before = record.leaving.get(pod.name)
        leaves = before is not None and before.uid == pod.uid
        # A follower, or a Pod created here, is perhaps in no tool's inventory.
        if view.git_managed and pod.rank is None and not pod.created_here:
            continue
        # A scale-out creates the Pod before it changes the job: a Pod that was scaled in is older
        # than the change. Only a replacement may be younger.
        is_young = view.declared_at is not None and pod.created > view.declared_at
        if is_young and not pod.created_here and not leaves:
            continue
        leaving[pod.name] = before if before is not None and leaves else Leaving(pod.uid, run.now)
        if before is None:
            events.append(EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid))
        if pod.deleting:
            continue
        due = leaving[pod.name].since + run.timeouts.drain
        if run.now < due:
            actions.append(Requeue(due))
            continue
        role = run.job.role(pod.role)
        host = f"{role.naming.stem}-{pod.index}" if role is not None else pod.name
        if pod.ended or host not in hostfile.listed_hosts(view.hosts):
            actions.append(DeletePod(pod.name, pod.uid, "ScaledIn"))
    return run.adding((*actions, *events), record=structs.replace(record, leaving=leaving))


# Two Pods of one rank, or with one another's name ------------------------------------------------
#
# The one that is declared stays: a tool that syncs Git would bring it back for ever. Both would
# join the rendezvous under the same rank (reference/dlrover.md 4.5), so the other one goes, after a
# moment for the job's ConfigMap to arrive. One that hangs is ended, so that its log stays.


def duplicates(run: Run) -> Iterator[Action]:
    extra: list[tuple[PodState, float, str]] = []
    for replica in run.replicas:
        for pod in replica.others:
            if pod.uid != run.record.replica(replica.key).lost:
                newer = max(pod.created, replica.pod.created if replica.pod else 0.0)
                extra.append((pod, newer, f"its rank belongs to {replica.name}"))
            elif not pod.ending and not pod.deleting:
                yield PatchPod("end", pod.name, pod.uid, "Lost")
    # The declared one cannot be created while it is there.
    other = "its name now belongs to another replica"
    extra += ((pod, pod.created, other) for pod in run.astray)
    for pod, since, why in extra:
        due = since + run.timeouts.settle
        if pod.deleting:
            continue
        if run.now < due:
            yield Requeue(due)
        else:
            yield DeletePod(pod.name, pod.uid, "RankTaken")
            yield EmitEvent("PodMakesRoom", why, pod.name, pod.uid)


# The API server deletes a Pod that has ended in two steps, and leaves out the second when it is
# killed in between. The Pod then keeps its name for as long as its node does not answer, or for
# ever if it has none. Another request finishes it (k8s.io/apiserver, registry/rest/delete.go).


def half_deleted(view: JobView, now: float) -> Iterator[Action]:
    for pod in view.pods.values():
        if pod.half_deleted:
            due = pod.due + view.timeouts.settle
            yield Requeue(due) if now < due else DeletePod(pod.name, pod.uid, "HalfDeleted")


# Nodes that do not answer ------------------------------------------------------------------------
#
# Such a node keeps its Pods, and with them their names, until somebody says that it is gone for
# good. `etcompile.dev/lost-node-after` says so after a time: the Pod is deleted, so that its
# kubelet, should it come back, ends it; then it is deleted by force. Its processes may still run.
# If commands restart in place, none of them takes part in the next restart.


def released(run: Run) -> Iterator[Action]:
    policy, record = run.job.run, run.view.run_record
    if policy.lost_node_after is None:
        return
    over = policy.suspended or (record is not None and record.ended)
    for pod in run.pods:
        since = silent_since(pod)
        if not since or (over and not pod.deleting):
            continue
        message = (
            f"node {pod.node} has not answered for {policy.lost_node_after} s: the Pod is "
            "force-deleted; if the node is still running, so may be its processes"
        )
        event = EmitEvent("PodReleased", message, pod.name, pod.uid, warning=True)
        due = since + policy.lost_node_after
        if run.now < due:
            yield Requeue(due)
        elif not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "NodeLost")
            yield event
        elif pod.due:  # else the answer to that is still on its way here
            yield DeletePod(pod.name, pod.uid, "NodeLost", force=True)
            if pod.deletion_requested + 1 < due:  # somebody else has requested it
                yield event


def silent_since(pod: PodState) -> float:
    """Return since when a Pod's node has not answered, in seconds since 1970; 0 if nothing says so.

    A Pod that should be gone and is still there says so as well: its kubelet ends it in time.
    """
    if pod.ended or not pod.node:
        return 0.0
    if pod.unreachable_since:
        return pod.unreachable_since
    return pod.due if pod.deleting else 0.0


# Pods that hold up others and stay where they are ------------------------------------------------
#
# While a node does not answer nobody knows whether its Pods still train, and no other Pod can have
# their names; so the watcher waits (reference/training-operator.md 5.4). No Pod of this run can
# have a name that another Pod has.


def unreachable(run: Run) -> Run:
    """Return a run with the Pods that hold up others, and the Events about new ones."""
    view, known, newest = run.view, frozenset(run.record.unreachable), -1.0
    uids: list[str] = []
    actions: list[Action] = []
    for replica in run.replicas:
        pod, reason, due = replica.pod, "PodUnreachable", 0.0
        if replica.blocked:
            # Somebody may be about to exchange it.
            pod, reason = view.pods[replica.name], "NameTaken"
            newest = run.newest if newest < 0.0 else newest
            due = max(pod.created, newest, view.declared_at or 0.0) + run.timeouts.start
        elif pod is None or not (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            continue
        elif pod.phase != "Unknown":
            due = pod.due + run.timeouts.start
        if run.now < due:
            actions.append(Requeue(due))
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
    return run.adding(actions, record=structs.replace(run.record, unreachable=tuple(sorted(uids))))
