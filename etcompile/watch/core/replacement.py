"""Lost replicas come back: one by one, or all together.

A Pod is lost once and seen to be lost often, also by the next watcher, which knows no more than
what is in the cluster. So a loss is written down, by the UID of the Pod, before anything is done
about it. The first time the replica is `lost`, and a rule here decides; from then on it is
`returning` or `left`, and only what is yet to be done is done.

One by one, the Pod that failed is deleted and created again under the same name, so that it is the
one that Git declares (reference/gitops.md 1.6). But where others follow by rank (ElasticJob),
another Pod of the same rank comes and the one that failed stays.

All together, nobody comes back before all have gone: who still runs would meet who has just started
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once (reference/et-operator.md 4.5: there it may run twice).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.model.run_record import UNKNOWN, ReplicaKey, ReplicaRecord, RestartHistory, RunRecord
from etcompile.watch.core.actions import (
    REPLACED,
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    Requeue,
)
from etcompile.watch.core.followers import spends_budget, with_follower
from etcompile.watch.core.placement import Replica, counted_restarts, follower
from etcompile.watch.core.replicas import RunState, why
from etcompile.watch.core.verdict import is_spared
from etcompile.watch.core.view import Timeouts

# One by one ------------------------------------------------------------------------------------


def replaced(state: RunState) -> Decision:
    """Return the record, with what has just been lost, and what is left to do about losses."""
    record, timeouts = state.record, state.timeouts
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    counted = dict(record.replaced)
    lost_restarts = record.lost_restarts
    actions: list[Action] = []
    events: list[Action] = []
    for loss in state.those("lost"):
        if loss.since and state.now < (settled := loss.settled(timeouts)):
            actions.append(Requeue(settled))
            continue
        role = loss.role
        if not loss.returns and role.recovery.vital and not is_spared(state, loss):
            continue  # the run fails for it, or Git brings it back in time
        record, written = _with_loss(state, loss, record)
        changed[loss.key] = written
        events.append(_event(loss, written, timeouts))
        if not loss.returns:
            continue
        again = 0 if loss.supervised else counted_restarts(role, loss.last)
        if role.recovery.failures is None:
            lost_restarts += again
            again = 0
        if new := again + loss.is_failure:
            counted[role.name] = counted.get(role.name, 0) + new
        actions += _replacement(loss, written, state.now, timeouts)
    for replica in state.those("returning"):
        written = record.replica(replica.key)
        actions += _replacement(replica, written, state.now, timeouts)
    record = structs.replace(
        record.with_replicas(changed), replaced=counted, lost_restarts=lost_restarts
    )
    return Decision(record, (*actions, *events))


def _is_its_fault(loss: Replica) -> bool:
    """Return whether a replica that is lost again and again comes back later and later."""
    return loss.cause == "failed" or loss.is_failure


def _with_loss(
    state: RunState, loss: Replica, record: RunRecord
) -> tuple[RunRecord, ReplicaRecord]:
    """The record, and what it is to say of the replica: what was decided, and how many in a row."""
    written, cause = record.replica(loss.key), loss.cause or "failed"
    uid = loss.last.uid if loss.last else UNKNOWN
    written = structs.replace(written, lost=uid, left=not loss.returns)
    if _is_its_fault(loss) and loss.returns:
        lived = state.now - loss.last.created if loss.last else 0.0
        failed = _in_a_row(written.failed, lived, state.timeouts)
        written = structs.replace(written, failed=failed, failed_at=state.now)
    if loss.role.recovery.relaunch is None:
        return record, written
    role = loss.role.name
    if spends_budget(cause, loss.last):
        failures = {**record.failures, role: record.failures.get(role, 0) + 1}
        record = structs.replace(record, failures=failures)
    if loss.returns:
        history = with_follower(state.placement, loss, cause, record)
        written = structs.replace(written, history=history)
        highest = max(history.index or 0, record.numbers.get(role, 0))
        record = structs.replace(record, numbers={**record.numbers, role: highest})
    return record, written


def _replacement(
    replica: Replica, written: ReplicaRecord, now: float, timeouts: Timeouts
) -> Iterator[Action]:
    """Yield what is to be done now so that a lost replica gets another Pod."""
    pod, role = replica.pod, replica.role
    reason = replica.cause or "returning"
    lost = replica.name if replica.last is not None else ""
    if replica.blocked:
        return
    if role.recovery.relaunch is not None:
        for other in (*replica.others, *([pod] if pod else [])):
            # One on a dead node will never say goodbye.
            is_overdue = other.deleting and other.due and now >= other.due + timeouts.verdict
            if not other.ended and not is_overdue:
                return  # two of one rank would throw each other out
        history = written.history or RestartHistory()
        chosen = follower(replica.declared_member, history)
        undeclared = None if history.index is None else chosen
        name = role.pod_name(chosen)
        create = CreatePod(name, role.name, chosen.index, reason, undeclared, lost)
    elif pod is None:
        create = CreatePod(replica.name, role.name, replica.index, reason)
    elif pod.deleting:
        return
    else:
        create = CreatePod(pod.name, role.name, replica.index, reason, uid=pod.uid)
    due = written.failed_at + _backoff(written.failed, timeouts)
    yield create if now >= due else Requeue(due)


def _event(loss: Replica, written: ReplicaRecord, timeouts: Timeouts) -> Action:
    recovery = loss.role.recovery
    what = why(loss.role, loss.cause or "failed", loss.last)
    uid = loss.last.uid if loss.last else None
    if not loss.returns:
        left = f"not replaced, restartPolicy {recovery.restart}"
        message = f"{what}: {'no Pod replaces it' if recovery.relaunch else left}"
        return EmitEvent("PodLost", message, loss.name, uid, warning=True)
    failed = _is_its_fault(loss)
    seconds = _backoff(written.failed, timeouts) if failed else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    pod = "recreating it"
    if written.history is not None and written.history.index is not None:
        member = follower(loss.declared_member, written.history)
        pod = f"{loss.role.pod_name(member)} replaces it"
    return EmitEvent(REPLACED, f"{what}: {pod}{later}", loss.name, uid, warning=failed)


# All together ------------------------------------------------------------------------------------


def restarted(
    state: RunState,
    message: str,
    loss: Replica | None = None,
    *,
    from_start: bool = False,
    counted: bool = True,
) -> Decision:
    """Return the record of a run whose Pods are all to go and to come back.

    Args:
        loss: The replica that is to blame, if it is one.
        from_start: The run starts again, and its clock too; else only its Pods do.
        counted: It counts among the restarts of the run; one after a deletion does not.
    """
    record, timeouts = state.record, state.timeouts
    replaced = dict(record.replaced)
    if loss is not None and loss.is_failure:
        role = loss.role.name
        replaced[role] = replaced.get(role, 0) + 1
    lost_restarts = record.lost_restarts
    written = {
        key: structs.replace(replica_record, completed=False, host_form=0, restarts=0)
        for key, replica_record in record.every_replica()
    }
    for replica in state.replicas:
        role = replica.role.name
        if replica.role.recovery.failures is None:
            lost_restarts += replica.restarts
        elif from_start:
            replaced.pop(role, None)  # its limit is each attempt's
        elif replica.restarts:
            replaced[role] = replaced.get(role, 0) + replica.restarts
    in_a_row = record.restarts_in_a_row
    if counted:
        in_a_row = _in_a_row(in_a_row, state.now - record.restarted_at, timeouts)
    record = structs.replace(
        record.with_replicas(written),
        phase="Restarting",
        reason="Restarting",
        message=message,
        started=None if from_start and not state.job.run.keeps_clock else record.started,
        restarts=record.restarts + counted,
        restarted_at=state.now,
        replaced=replaced,
        lost_restarts=lost_restarts,
        restarts_in_a_row=in_a_row,
        gang=tuple(replica.pod.uid for replica in state.replicas if replica.pod),
        launcher="",
        leaving={},
    )
    event = EmitEvent("JobRestarted", f"{message}: all of its Pods are recreated", warning=True)
    return Decision(record, (event,))


def joint_loss(state: RunState) -> Decision | None:
    """The restart of a gang that has just lost a member; None if it has not."""
    if not state.placement.restarts_together or not (losses := state.new_returns()):
        return None
    deleted = next((own for own in state.replicas if own.was_deleted), None)
    loss = deleted or losses[0]
    what = "deleted" if deleted else why(loss.role, loss.cause or "failed", loss.last)
    return restarted(state, f"{loss.name}: {what}", loss)


def next_steps(state: RunState) -> Iterator[Action]:
    """Yield what is left to do of a restart."""
    record, placement = state.record, state.placement
    due = record.restarted_at + _backoff(record.restarts_in_a_row, state.timeouts)
    if state.now < due:
        yield Requeue(due)
        return
    gang = frozenset(record.gang)
    going = [replica.pod for replica in state.those("restarting")]
    for pod in going:
        if pod is not None and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    if going or any(pod.uid in gang for pod in placement.of_this_run):
        return
    if state.now < state.before.until:
        yield Requeue(state.before.until)
        return
    for replica in state.those("returning"):
        if replica.pod is None:
            yield CreatePod(replica.name, replica.role.name, replica.index, "Restart")


def _backoff(failed: int, timeouts: Timeouts) -> float:
    """Return the seconds until the replacement of what failed so many times in a row."""
    doublings = failed - 3
    if doublings < 0:
        return 0.0
    return min(timeouts.backoff * 2.0 ** min(doublings, 60), timeouts.longest)


def _in_a_row(failed: int, lived: float, timeouts: Timeouts) -> int:
    """Return one failure more, or after a long life (in seconds) the first of another row."""
    return (failed if lived < timeouts.forget else 0) + 1
