"""Lost replicas come back: one by one, or all together.

Why this is hard: a Pod is lost once and seen to be lost often, by a watcher that may die after any
request, and by the next one, which knows no more than what is in the cluster. So a loss is written
down, by the UID of the Pod, before anything is done about it: it is decided once, counted once,
however often it is seen and whoever watches then. The first time the replica is `lost`, and a rule
here decides; from then on it is `returning` or `left`, and only what is yet to be done is done.

One by one, a replacement has the name of what it replaces and is the same Pod, so that it is the
one that Git declares (reference/gitops.md 1.6): the Pod that failed is deleted, and made again. Two
cases differ. Where others follow by rank (ElasticJob), another Pod of the same rank comes and the
one that failed stays. Where the scheduler is Kueue, the replacement has another name, comes first,
and only then the Pod before it goes.

All together, nobody comes back before all have gone: who still runs would meet who has just started
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once (reference/et-operator.md 4.5: there it may run twice).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.model.completion import attempt_name
from etcompile.model.run_record import (
    NOTHING,
    UNKNOWN,
    ReplicaKey,
    ReplicaRecord,
    RestartHistory,
    RunRecord,
)
from etcompile.watch.actions import (
    REPLACED,
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules.completion import is_spared
from etcompile.watch.rules.placement import Placement, renames, successor
from etcompile.watch.rules.replica_state import Replica, ReplicaStates
from etcompile.watch.rules.restart_policy import counted_restarts, followed, spends_budget, why
from etcompile.watch.state import PodView, Timeouts

# One by one ------------------------------------------------------------------------------------


def replaced(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with what has just been lost, and what is left to do about losses."""
    timeouts = states.placement.view.timeouts
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    counted = dict(record.replaced)
    lost_restarts = record.lost_restarts
    done: list[Action] = []
    told: list[Action] = []
    for loss in states.those("lost"):
        if loss.since and now < loss.since + timeouts.settle:
            done.append(Requeue(loss.since + timeouts.settle))
            continue
        key, role = loss.place.key, loss.place.role
        if not loss.returns and role.recovery.vital and not is_spared(states, loss):
            continue  # the run fails for it, or Git brings it back in time
        written = decided(record.replica(key), loss, now, timeouts)
        if role.recovery.relaunch is not None:
            record, written = _followed(states, loss, record, written)
        changed[key] = written
        told.append(_told(loss, written, timeouts))
        if not loss.returns:
            continue
        again = 0 if loss.place.supervised else counted_restarts(role, loss.last)
        if role.recovery.failures is None:
            lost_restarts += again
            again = 0
        if new := again + loss.is_failure:
            counted[role.name] = counted.get(role.name, 0) + new
        done += brought_back(loss, written, now, timeouts)
    for replica in states.those("returning"):
        done += brought_back(replica, record.replica(replica.place.key), now, timeouts)
    done += let_go(states)
    record = record.with_replicas(changed)
    made = structs.replace(record, replaced=counted, lost_restarts=lost_restarts)
    return Decision(made, (*done, *told))


def decided(before: ReplicaRecord, loss: Replica, now: float, timeouts: Timeouts) -> ReplicaRecord:
    """What the record is to say of a loss: what was decided, and how many in a row that makes."""
    failed, failed_at = before.failed, before.failed_at
    if _is_its_fault(loss) and loss.returns:
        lived = now - loss.last.created if loss.last else 0.0
        failed, failed_at = in_a_row(failed, lived, timeouts), now
    return structs.replace(
        before,
        lost=loss.last.uid if loss.last else UNKNOWN,
        left=not loss.returns,
        failed=failed,
        failed_at=failed_at,
        attempt=before.attempt + (loss.returns and bool(loss.place.declared)),
    )


def _is_its_fault(loss: Replica) -> bool:
    """Whether a replica that is lost again and again comes back later and later."""
    return loss.cause == "failed" or loss.is_failure


def _followed(
    states: ReplicaStates, loss: Replica, record: RunRecord, written: ReplicaRecord
) -> tuple[RunRecord, ReplicaRecord]:
    """The record, and what it says of the replica, with what a loss means to those of its rank."""
    place, cause = loss.place, loss.cause or "failed"
    role = place.role.name
    if spends_budget(cause, loss.last):
        failures = {**record.failures, role: record.failures.get(role, 0) + 1}
        record = structs.replace(record, failures=failures)
    if not loss.returns:
        return record, written
    history = followed(states.placement, place, cause, loss.last, record)
    highest = max(history.index or 0, record.numbers.get(role, 0))
    record = structs.replace(record, numbers={**record.numbers, role: highest})
    return record, structs.replace(written, history=history)


def brought_back(
    replica: Replica, written: ReplicaRecord, now: float, timeouts: Timeouts
) -> Iterator[Action]:
    """What is to be done now so that a lost replica gets another Pod."""
    place, pod = replica.place, replica.place.pod
    if place.declared:
        yield from _renamed(replica, written, now, timeouts)
        return
    if place.role.recovery.relaunch is not None:
        yield from _follower(replica, written, now, timeouts)
        return
    due = due_at(written, timeouts)
    if place.taken or (pod is not None and pod.deleting):
        return
    if now < due:
        yield Requeue(due)
        return
    reason = replica.cause or "returning"
    if pod is None:
        yield CreatePod(place.name, place.role.name, place.index, reason)
    else:
        yield ReplacePod(pod.name, pod.uid, place.role.name, place.index, reason)


def _renamed(
    replica: Replica, written: ReplicaRecord, now: float, timeouts: Timeouts
) -> Iterator[Action]:
    """Another Pod of a replica, under another name, beside the one before."""
    place = replica.place
    name = attempt_name(place.declared, written.attempt)
    if place.taken or (place.pod is not None and place.pod.name == name):
        return
    if now < (due := due_at(written, timeouts)):
        yield Requeue(due)
        return
    reason = replica.cause or "returning"
    lost = place.name if replica.last is not None else ""
    member = place.declared_member if written.attempt else None
    yield CreatePod(name, place.role.name, place.index, reason, member, lost)


def let_go(states: ReplicaStates) -> Iterator[Action]:
    """The removal of Pods that others of other names have replaced, once those are there.

    Where a tool syncs Git it would bring back those that it knows.
    """
    placement = states.placement
    there = {
        (replica.place.role.name, replica.place.index): replica.place.pod
        for replica in states.replicas
        if replica.place.declared and replica.place.pod is not None
    }
    for pod in placement.kept:
        after = there.get((pod.role, pod.index))
        ours = pod.made_here or not placement.view.git_managed
        if after is not None and after.uid != pod.uid and ours and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Replaced")


def _follower(
    replica: Replica, written: ReplicaRecord, now: float, timeouts: Timeouts
) -> Iterator[Action]:
    place, role = replica.place, replica.place.role
    rank = (*place.others, *([place.pod] if place.pod else []))
    if place.taken or any(_is_at_work(pod, now, timeouts) for pod in rank):
        return  # two of one rank would throw each other out
    if now < (due := due_at(written, timeouts)):
        yield Requeue(due)
        return
    member = successor(place, written.history or RestartHistory())
    chosen = member or place.declared_member
    lost = place.name if replica.last is not None else ""
    yield CreatePod(
        role.pod_name(chosen), role.name, chosen.index, replica.cause or "returning", member, lost
    )


def _is_at_work(pod: PodView, now: float, timeouts: Timeouts) -> bool:
    """Whether a Pod may still do something: not one that a dead node will never say goodbye to."""
    if pod.ended:
        return False
    return not (pod.deleting and pod.due and now >= pod.due + timeouts.verdict)


def _told(loss: Replica, written: ReplicaRecord, timeouts: Timeouts) -> Action:
    place = loss.place
    what = why(place.role, loss.cause or "failed", loss.last)
    uid = loss.last.uid if loss.last else None
    if not loss.returns:
        left = "no Pod replaces it" if place.role.recovery.relaunch else "not replaced"
        policy = (
            "" if place.role.recovery.relaunch else f", restartPolicy {place.role.recovery.restart}"
        )
        message = f"{what}: {left}{policy}"
        return EmitEvent("PodLost", message, place.name, uid, warning=True)
    failed = _is_its_fault(loss)
    seconds = wait(written.failed, timeouts) if failed else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    member = successor(place, written.history) if written.history is not None else None
    pod = "recreating it" if member is None else f"{place.role.pod_name(member)} replaces it"
    message = f"{what}: {pod}{later}"
    return EmitEvent(REPLACED, message, place.name, uid, warning=failed)


# All together ------------------------------------------------------------------------------------


def restarted(
    states: ReplicaStates,
    record: RunRecord,
    now: float,
    message: str,
    loss: Replica | None,
    *,
    anew: bool,
    counted: bool = True,
) -> Decision:
    """The record of a run whose Pods are all to go and to come back.

    Args:
        states: What has become of the replicas.
        record: The run record as it is before that.
        now: The time, in seconds since 1970.
        message: Why, in a sentence.
        loss: The replica that is to blame, if it is one.
        anew: The run starts anew, and its clock too; else only its Pods do.
        counted: It counts among the restarts of the run; one after a deletion does not.
    """
    placement = states.placement
    timeouts = placement.view.timeouts
    uids = tuple(
        replica.place.pod.uid for replica in states.replicas if replica.place.pod is not None
    )
    lived = now - record.restarted_at
    replaced = dict(record.replaced)
    if loss is not None and loss.is_failure:
        role = loss.place.role.name
        replaced[role] = replaced.get(role, 0) + 1
    lost_restarts = record.lost_restarts
    for replica in states.replicas:
        role = replica.place.role.name
        if replica.place.role.recovery.failures is None:
            lost_restarts += replica.restarts
        elif anew:
            replaced.pop(role, None)  # its limit is each attempt's
        elif replica.restarts:
            replaced[role] = replaced.get(role, 0) + replica.restarts
    written = {
        key: structs.replace(replica_record, completed=False, host_form=0, restarts=0)
        for key, replica_record in record.every_replica()
    }
    for place in (replica.place for replica in states.replicas if replica.place.declared):
        replica_record = written.get(place.key, NOTHING)
        written[place.key] = structs.replace(replica_record, attempt=replica_record.attempt + 1)
    made = structs.replace(
        record.with_replicas(written),
        phase="Restarting",
        reason="Restarting",
        message=message,
        started=None if anew and not placement.job.run.keeps_clock else record.started,
        restarts=record.restarts + counted,
        restarted_at=now,
        replaced=replaced,
        lost_restarts=lost_restarts,
        restarts_in_a_row=in_a_row(record.restarts_in_a_row, lived, timeouts)
        if counted
        else record.restarts_in_a_row,
        gang=uids,
        launcher="",
        leaving={},
    )
    told = EmitEvent("JobRestarted", f"{message}: all of its Pods are recreated", warning=True)
    return Decision(made, (told,))


def joint_loss(states: ReplicaStates, record: RunRecord, now: float) -> Decision | None:
    """The restart of a gang that has just lost a member; None if it has not.

    Of one whose commands restart in place only the member comes back.
    """
    placement = states.placement
    if not placement.job.run.together or placement.job.run.in_place is not None:
        return None
    losses = states.new_returns(now)
    if losses:
        lost = losses[0]
        what = why(lost.place.role, lost.cause or "failed", lost.last)
        return restarted(states, record, now, f"{lost.place.name}: {what}", lost, anew=False)
    for replica in states.those("there"):
        # Its kubelet has started it again, and its peers have not noticed.
        if (
            replica.place.pod is not None
            and replica.place.pod.restarts
            and not replica.place.pod.deleting
        ):
            message = f"{replica.place.name}: its container was restarted"
            return restarted(states, record, now, message, None, anew=False)
    return None


def carried_out(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Action]:
    """What is left to do of a restart."""
    placement = states.placement
    due = record.restarted_at + wait(record.restarts_in_a_row, placement.view.timeouts)
    if now < due:
        yield Requeue(due)
        return
    going = states.those("restarting")
    for replica in going:
        pod = replica.place.pod
        if pod is not None and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    for pod in placement.kept:
        # Those whose replacements have other names; they stay until these are there.
        if pod.uid in record.gang and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    if going or _is_anyone_left(placement, record):
        return
    for replica in states.those("returning"):
        if replica.place.pod is None:
            place = replica.place
            member = place.declared_member if place.declared not in ("", place.name) else None
            yield CreatePod(place.name, place.role.name, place.index, "Restart", member)


def _is_anyone_left(placement: Placement, record: RunRecord) -> bool:
    gang = frozenset(record.gang)
    # Kueue keeps who has ended until somebody else is there (reference/gang-scheduling.md 4.5).
    kept = renames(placement.view)
    return any(pod.uid in gang and not (kept and pod.ended) for pod in placement.of_this_run)


# Backoff -----------------------------------------------------------------------------------------


def wait(failed: int, timeouts: Timeouts) -> float:
    """Seconds until the replacement of something that failed so many times in a row."""
    doublings = failed - 3
    if doublings < 0:
        return 0.0
    return min(timeouts.backoff * 2.0 ** min(doublings, 60), timeouts.longest)


def due_at(written: ReplicaRecord, timeouts: Timeouts) -> float:
    """When a replica that was lost may come back."""
    return written.failed_at + wait(written.failed, timeouts)


def in_a_row(failed: int, lived: float, timeouts: Timeouts) -> int:
    """One failure more, or after a long life the first of another row.

    Args:
        failed: The failures in a row so far.
        lived: Seconds for which what failed had been there.
        timeouts: How long a row of failures lasts.
    """
    return (failed if lived < timeouts.forget else 0) + 1
