"""Decide what losses lead to: the end of the run, a restart of all, or replacements one by one.

**The end.** The operators decide in the order of a hash table, so that the same Pods may mean
success or failure (reference/training-operator.md 7, defects 14 and 29). Here there is one order,
and the first that holds ends the run: `_end` has it. So of a success and a failure at once the run
has succeeded, also if the watcher sees the failure first: it waits a moment before it believes one.
`etcompile/model/run_completion.py` says when a run succeeds, for `status` as well.

Wait before judging a loss: the tool that syncs Git may recreate the Pod, or the whole job may be
about to go. `Timeouts.settle` and `Timeouts.verdict` say how long. Counts must never fall, so they
are in the run record, and new losses are added to them (reference/training-operator.md 5.4; 7,
defects 2 and 3).

**Replacements.** A Pod is lost once, but its loss is seen often, also by the next watcher. So a
loss is written down, by the UID of the Pod, before anything is done about it. The first time the
replica is `lost`, and a rule here decides; from then on it is `returning` or `left`, and only what
is left to do is done.

One by one, the Pod that failed is deleted and created again under the same name, so that it is the
one that Git declares (reference/gitops.md 1.6). If others follow by rank (ElasticJob), another Pod
of the same rank comes and the one that failed stays.

All together, no replica comes back before all have gone: old and new ones would meet
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once (reference/et-operator.md 4.5: there it may run twice).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.model.run_completion import Decider, Outcome, completion
from etcompile.model.run_record import UNKNOWN, ReplicaKey, ReplicaRecord, RestartHistory
from etcompile.model.supervision import first_replica
from etcompile.watch.core.followers import follower, with_follower
from etcompile.watch.core.replicas import comes_back, described, why
from etcompile.watch.core.run import (
    REPLACED,
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    End,
    Replica,
    Requeue,
    Run,
    State,
    counted_restarts,
    counts_failures,
)

# Whether the run is over -----------------------------------------------------------------------


def end(run: Run) -> tuple[End | None, list[Requeue]]:
    """Return the end of the run, or of this attempt at it; and when it may end by the clock."""
    again: list[Requeue] = []
    end, policy, restarts = _end(run, again), run.job.run, run.record.restarts
    if end is None or end.succeeded:
        return end, again
    if policy.restart == "OnFailure" and not end.final:
        if policy.backoff_limit is None or restarts < policy.backoff_limit:
            return structs.replace(end, again=True), again
        message = f"{end.message}, after {restarts} restarts of the job"
        end = structs.replace(end, reason="BackoffLimitExceeded", message=message)
    # A success of the same moment may not be seen yet: could what is left still succeed?
    remaining = [
        Decider(r.name, r.number == 0, "out" if r.state in ("lost", "left") else "done")
        for r in run.deciding
    ]
    if completion(policy.success, remaining).end == "succeeded":
        failed = [r.last for r in run.in_state("lost") if r.cause == "failed" and r.last]
        # A node's clock may be wrong.
        ends = (pod.ended_at for pod in failed if pod.ended_at <= run.now)
        end = structs.replace(end, sure_at=min(ends, default=0.0) + run.timeouts.race)
    return end, again


def _end(run: Run, again: list[Requeue]) -> End | None:
    job, policy, record, batch = run.job, run.job.run, run.record, run.view.batch
    complete = completion(policy.success, [_decider(run, replica) for replica in run.deciding])
    succeeded = complete.why
    if any(role.batch for role in job.roles if role.name in policy.success.roles):
        names = [batch.name] if batch is not None and batch.succeeded else []
        names += [
            pod.name
            for pod in run.batch
            if pod.role in policy.success.roles and pod.phase == "Succeeded" and not pod.deleting
        ]
        succeeded = f"{names[0]} succeeded" if names else ""
    if succeeded:
        return End("Completed", succeeded, succeeded=True)
    lost = run.in_state("lost")
    has_batch = any(role.batch for role in job.roles)  # a Job of Kubernetes has its own limits
    if policy.deadline is not None and record.started is not None and not has_batch:
        deadline = record.started + policy.deadline
        # A Pod's own clock may be faster: it has the deadline of the job.
        is_late = any(
            loss.last is not None and loss.last.reason == "DeadlineExceeded"
            for loss in lost
            if loss.role.recovery.deadline is not None
            and "activeDeadlineSeconds" not in loss.role.template.spec
        )
        if run.now >= deadline or is_late:
            return End("DeadlineExceeded", "the job ran longer than its deadline", final=True)
        again.append(Requeue(deadline))
    if batch and batch.failed:
        return End(batch.failed, f"the Job {batch.name} failed: {batch.failed}", final=True)
    if run.end is not None:
        return run.end
    for role in job.roles:
        budget = role.recovery.relaunch.budget if role.recovery.relaunch is not None else None
        new = [loss for loss in run.losses if loss.role is role and loss.spends_budget]
        failures = record.failures.get(role.name, 0) + len(new)
        if new and budget is not None and failures > budget:
            message = f"{failures} Pods of {role.name} have failed; at most {budget} may fail"
            return End("TooManyFailures", message, loss=new[0])
    # A launcher that failed is started again alone only within the job's limit. Otherwise the whole
    # job is, if it restarts at all (reference/gitops.md 9, reference/et-operator.md 4.5).
    limit = 0 if policy.restart == "OnFailure" else policy.backoff_limit
    for loss in lost:
        role, due = loss.role, loss.since + run.timeouts.verdict if loss.since else 0.0
        # A role's own limit takes precedence.
        counts = role.recovery.failures is None and policy.limits == "restarts"
        counts = counts and loss.is_failure and role.name in policy.success.roles
        is_within = limit is None or record.replaced.get(role.name, 0) < limit
        if not role.recovery.vital or (loss.returns and (is_within or not counts)):
            continue
        if run.now >= due and not is_spared(run, loss):
            return End("PodFailed", described(run, loss), loss=loss)
        if run.now < due and not loss.returns:
            again.append(Requeue(due))
    if message := _limit_exceeded(run):
        return End("BackoffLimitExceeded", message)
    if complete.end == "hopeless":
        return End("NoneLeft", "no replica is left that could make it succeed")
    return None


def _decider(run: Run, replica: Replica) -> Decider:
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    outcome, last = outcomes.get(replica.state, "open"), replica.latest
    restarting = replica.state != "there" and run.record.phase == "Restarting"
    if last is not None and restarting and last.uid in run.record.gang:
        # It succeeded before the restart deleted it, which the watcher had not seen yet.
        deleted = last.deletion_requested if last.deleting else run.now
        in_time = last.phase == "Succeeded" and 0.0 < last.ended_at < deleted
        outcome = "done" if in_time and not comes_back(replica.role, "succeeded", last) else "open"
    return Decider(replica.name, replica.number == 0, outcome)


def is_spared(run: Run, loss: Replica) -> bool:
    """Return whether enough replicas are left without this one (reference/dlrover.md 4.3)."""
    success = run.job.run.success
    if success.least is None or loss.role.name not in success.roles:
        return False
    remaining = [
        other
        for other in run.deciding
        if other.state != "left" and (other.state != "lost" or other.returns)
    ]
    return len(remaining) >= success.least


def _limit_exceeded(run: Run) -> str:
    """Return which limit of failures the replicas have exceeded, those of their roles first."""
    job, record = run.job, run.record

    def times(limit: int) -> str:
        return "once" if limit == 1 else f"{limit} times"

    # What is said, of which roles, their limit, and how often Pods and containers failed besides.
    limits = [
        (
            f"replicas of {role.name} failed more than {times(limit)}"
            if limit
            else f"a replica of {role.name} failed",
            *([role.name], limit, 0, 0),
        )
        for role in job.roles
        if (limit := role.recovery.failures) is not None
    ]
    limit = job.run.backoff_limit
    # A Job of Kubernetes has its own.
    if limit is not None and job.run.limits == "failures" and not any(r.batch for r in job.roles):
        counted = [role.name for role in job.roles if counts_failures(role)]
        together = record.restarts if first_replica(job) is not None else 0
        message = f"replicas failed more than {times(limit)}"
        limits.append((message, counted, limit, together, record.lost_restarts))
    for message, roles, limit, restarts, in_place in limits:
        new = sum(loss.is_failure and loss.role.name in roles for loss in run.returning)
        failures = restarts + sum(record.replaced.get(role, 0) for role in roles)
        failures += min(new, 1) if job.run.together else new
        of_pods = sum(replica.restarts for replica in run.replicas if replica.role.name in roles)
        # Restarts in place: as many as the limit, except for a limit of 0. Pods that failed: more
        # than the limit (reference/training-operator.md 5.4, a and b).
        many = in_place + of_pods
        if many >= max(limit, 1) or (failures > 0 and many + failures > limit):
            return message
    return ""


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
            failed = timeouts.in_a_row(written.failed, lived)
            written = structs.replace(written, failed=failed, failed_at=run.now)
            later = timeouts.delay(failed)
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
        actions += _replacement(run, loss, written)
    for replica in run.in_state("returning"):
        actions += _replacement(run, replica, record.replica(replica.key))
    run = run.adding(actions, record=record.with_replicas(changed))
    counts = {"replaced": counted, "failures": failures, "numbers": numbers}
    return run.writing(**counts, lost_restarts=lost_restarts)


def _replacement(run: Run, replica: Replica, written: ReplicaRecord) -> Iterator[Action]:
    timeouts, now = run.timeouts, run.now
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
    due = written.failed_at + timeouts.delay(written.failed)
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
        in_a_row = run.timeouts.in_a_row(in_a_row, run.now - record.restarted_at)
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
    message = f"{loss.name}: deleted" if loss.was_deleted else described(run, loss)
    return restarted(run, message, loss)


def next_steps(run: Run) -> Iterator[Action]:
    record = run.record
    due = record.restarted_at + run.timeouts.delay(record.restarts_in_a_row)
    if run.now < due:
        yield Requeue(due)
        return
    going = [replica.pod for replica in run.in_state("restarting")]
    peers_due = due + run.timeouts.peers
    for pod in going:
        if pod is None:
            continue
        # A kubelet takes up to two seconds to remove a Pod whose containers have all ended.
        over = pod.stopped or pod.ended
        if over and not (pod.deleting and run.now >= pod.due):
            yield DeletePod(pod.name, pod.uid, "Restart", force=True)
        elif not (over or pod.deleting):
            stop = DeletePod(pod.name, pod.uid, "Restart")
            yield stop if run.now >= peers_due else Requeue(peers_due)
    gang = frozenset(record.gang)
    if going or any(pod.uid in gang for pod in run.pods):
        return
    if run.now < run.until:
        yield Requeue(run.until)
        return
    for replica in run.in_state("returning"):
        if replica.pod is None:
            yield CreatePod(replica.name, replica.role.name, replica.index, "Restart")


def ended(run: Run, end: End) -> Run:
    phase = "Succeeded" if end.succeeded else "Failed"
    event = EmitEvent(f"Job{phase}", end.message, warning=not end.succeeded)
    said = {"reason": end.reason, "message": end.message}
    return run.writing(event, phase=phase, finished=run.now, gang=(), leaving={}, **said)
