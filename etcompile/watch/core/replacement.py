"""Bring lost replicas back, one by one or all together.

A Pod is lost once, but its loss is seen often, also by the next watcher. So a loss is written down,
by the UID of the Pod, before anything is done about it. The first time the replica is `lost`, and a
rule here decides; from then on it is `returning` or `left`, and only what is left to do is done.

One by one, the Pod that failed is deleted and created again under the same name, so that it is the
one that Git declares (reference/gitops.md 1.6). If others follow by rank (ElasticJob), another Pod
of the same rank comes and the one that failed stays.

All together, no replica comes back before all have gone: old and new ones would meet
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once (reference/et-operator.md 4.5: there it may run twice).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.model.run_record import UNKNOWN, ReplicaKey, ReplicaRecord, RestartHistory
from etcompile.watch.core.actions import (
    REPLACED,
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    Requeue,
)
from etcompile.watch.core.followers import follower, with_follower
from etcompile.watch.core.replicas import described, why
from etcompile.watch.core.run import Replica, Run, counted_restarts
from etcompile.watch.core.verdict import is_spared
from etcompile.watch.core.view import Timeouts

# One by one ------------------------------------------------------------------------------------


def replaced(run: Run) -> Run:
    """Return a run with its new losses written down, and what is left to do about losses."""
    record, timeouts = run.record, run.timeouts
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    failures, numbers = {**record.failures}, {**record.numbers}
    counted, lost_restarts = {**record.replaced}, record.lost_restarts
    actions: list[Action] = []
    for loss in run.in_state("lost"):
        role, recovery, uid = loss.role, loss.role.recovery, loss.last.uid if loss.last else None
        if loss.since and run.now < (settled := loss.settled(timeouts)):
            actions.append(Requeue(settled))
            continue
        if not loss.returns and recovery.vital and not is_spared(run, loss):
            continue  # the run fails for it, or Git brings it back in time
        written = structs.replace(
            record.replica(loss.key), lost=uid or UNKNOWN, left=not loss.returns
        )
        if recovery.relaunch is not None and loss.spends_budget:
            failures[role.name] = failures.get(role.name, 0) + 1
        if not loss.returns:
            changed[loss.key] = written
            left = f"not replaced, restartPolicy {recovery.restart}"
            message = f"{why(loss)}: {'no Pod replaces it' if recovery.relaunch else left}"
            actions.append(EmitEvent("PodLost", message, loss.name, uid, warning=True))
            continue
        # One that is lost again and again by its own fault comes back later and later.
        fault, later, pod = loss.cause == "failed" or loss.is_failure, 0.0, "recreating it"
        if fault:
            lived = run.now - loss.last.created if loss.last else 0.0
            failed = _in_a_row(written.failed, lived, timeouts)
            written = structs.replace(written, failed=failed, failed_at=run.now)
            later = _backoff(failed, timeouts)
        if recovery.relaunch is not None:
            history = with_follower(run, loss, numbers)
            written = structs.replace(written, history=history)
            numbers[role.name] = max(history.index or 0, numbers.get(role.name, 0))
            if history.index is not None:
                pod = f"{role.pod_name(follower(loss.declared, history))} replaces it"
        changed[loss.key] = written
        message = f"{why(loss)}: {pod}{f' in {later:.0f} s' if later else ''}"
        actions.append(EmitEvent(REPLACED, message, loss.name, uid, warning=fault))
        restarts = 0 if loss.supervised else counted_restarts(role, loss.last)
        if recovery.failures is None:
            lost_restarts, restarts = lost_restarts + restarts, 0
        if new := restarts + loss.is_failure:
            counted[role.name] = counted.get(role.name, 0) + new
        actions += _replacement(loss, written, run.now, timeouts)
    for replica in run.in_state("returning"):
        actions += _replacement(replica, record.replica(replica.key), run.now, timeouts)
    record = structs.replace(
        record.with_replicas(changed),
        replaced=counted,
        lost_restarts=lost_restarts,
        failures=failures,
        numbers=numbers,
    )
    return run.adding(actions, record=record)


def _replacement(
    replica: Replica, written: ReplicaRecord, now: float, timeouts: Timeouts
) -> Iterator[Action]:
    pod, role, reason = replica.pod, replica.role, replica.cause or "returning"
    if replica.blocked:
        return
    if role.recovery.relaunch is not None:
        for other in (*replica.others, *([pod] if pod else [])):
            # A Pod on a dead node never ends.
            is_overdue = other.deleting and other.due and now >= other.due + timeouts.verdict
            if not other.ended and not is_overdue:
                return  # two of one rank would throw each other out
        history = written.history or RestartHistory()
        chosen = follower(replica.declared, history)
        undeclared = None if history.index is None else chosen
        lost = replica.name if replica.last is not None else ""
        name = role.pod_name(chosen)
        create = CreatePod(name, role.name, chosen.index, reason, undeclared, lost)
    elif pod is not None and pod.deleting:
        return
    else:
        uid = pod.uid if pod is not None else ""
        create = CreatePod(replica.name, role.name, replica.index, reason, uid=uid)
    due = written.failed_at + _backoff(written.failed, timeouts)
    yield create if now >= due else Requeue(due)


# All together ------------------------------------------------------------------------------------


def restarted(
    run: Run,
    message: str,
    loss: Replica | None = None,
    *,
    from_start: bool = False,
    counted: bool = True,
) -> Run:
    """Return a run whose Pods are all to go and to come back.

    Args:
        loss: The replica that is to blame, if it is one.
        from_start: The run starts again, and its clock too; else only its Pods do.
        counted: It counts among the restarts of the run; one after a deletion does not.
    """
    record, replaced, lost_restarts = run.record, {**run.record.replaced}, run.record.lost_restarts
    if loss is not None and loss.is_failure:
        replaced[loss.role.name] = replaced.get(loss.role.name, 0) + 1
    for replica in run.replicas:
        role = replica.role.name
        if replica.role.recovery.failures is None:
            lost_restarts += replica.restarts
        elif from_start:
            replaced.pop(role, None)  # its limit is each attempt's
        elif replica.restarts:
            replaced[role] = replaced.get(role, 0) + replica.restarts
    written = {
        key: structs.replace(replica_record, completed=False, host_form=0, restarts=0)
        for key, replica_record in record.every_replica()
    }
    in_a_row = record.restarts_in_a_row
    if counted:
        in_a_row = _in_a_row(in_a_row, run.now - record.restarted_at, run.timeouts)
    record = structs.replace(
        record.with_replicas(written),
        phase="Restarting",
        reason="Restarting",
        message=message,
        started=None if from_start and not run.job.run.keeps_clock else record.started,
        restarts=record.restarts + counted,
        restarted_at=run.now,
        replaced=replaced,
        lost_restarts=lost_restarts,
        restarts_in_a_row=in_a_row,
        gang=tuple(replica.pod.uid for replica in run.replicas if replica.pod),
        launcher="",
        leaving={},
    )
    event = EmitEvent("JobRestarted", f"{message}: all of its Pods are recreated", warning=True)
    return run.adding([event], record=record)


def joint_restart(run: Run) -> Run | None:
    """Return the restart of a gang that has just lost a member; None if it has not."""
    if not run.restarts_together or not run.returning:
        return None
    loss = next((replica for replica in run.replicas if replica.was_deleted), run.returning[0])
    message = described(run, loss) if loss.cause is not None else f"{loss.name}: deleted"
    return restarted(run, message, loss)


def next_steps(run: Run) -> Iterator[Action]:
    record = run.record
    due = record.restarted_at + _backoff(record.restarts_in_a_row, run.timeouts)
    if run.now < due:
        yield Requeue(due)
        return
    going = [replica.pod for replica in run.in_state("restarting")]
    for pod in going:
        if pod is not None and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    gang = frozenset(record.gang)
    if going or any(pod.uid in gang for pod in run.pods):
        return
    if run.now < run.until:
        yield Requeue(run.until)
        return
    for replica in run.in_state("returning"):
        if replica.pod is None:
            yield CreatePod(replica.name, replica.role.name, replica.index, "Restart")


def _backoff(failed: int, timeouts: Timeouts) -> float:
    """Return the seconds until the replacement of what failed so many times in a row."""
    if failed < 3:
        return 0.0
    return min(timeouts.backoff * 2.0 ** min(failed - 3, 60), timeouts.longest)


def _in_a_row(failed: int, lived: float, timeouts: Timeouts) -> int:
    """Return one failure more, or after a long life (in seconds) the first of another row."""
    return (failed if lived < timeouts.forget else 0) + 1
