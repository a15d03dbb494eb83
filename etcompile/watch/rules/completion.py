"""Whether a run is over, and how; and what becomes of its Pods then.

Why this is hard: the operators decide in the order of a hash table, so that the same Pods may mean
success or failure (reference/training-operator.md 7, defects 14 and 29). Here there is one order,
and the first that holds ends the run: it has succeeded; it is too late; its Job of Kubernetes has
failed; too many Pods of a role have failed, or one waits for too long; a replica was lost that it
cannot do without; replicas failed more often than `backoffLimit`; nobody is left that could make it
succeed. So of a success and a failure at once the run has succeeded.

A loss is judged when it is sure. Who vanished may be back in a moment, because Git's tool brings it
back or a whole job is about to go: `Timeouts.settle` and `Timeouts.verdict` say how long that is.
What was counted must never fall: the Training Operator counts what happens to be running, so that
its sum can, and never a Pod that failed as a whole (5.4; 7, defects 2 and 3). Here counters are in
the run record, and what is lost just now is added to them.

When a run succeeds, of replica outcomes alone, is said in `etcompile/model/completion.py`, which
`status` asks as well. A job that restarts as a whole is not ended but restarted (`End.again`).
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from etcompile.backend import ends_with_run
from etcompile.model import Job, Relaunch, Role
from etcompile.model.completion import Completion, Decider, Outcome, completion
from etcompile.model.run_record import RunRecord
from etcompile.model.supervision import first_replica
from etcompile.watch.actions import (
    Action,
    Decision,
    DeletePod,
    EmitEvent,
    EndPod,
    RemoveJob,
    Requeue,
)
from etcompile.watch.rules import epochs
from etcompile.watch.rules.placement import Placement
from etcompile.watch.rules.replica_state import Replica, ReplicaStates, State
from etcompile.watch.rules.restart_policy import counts_failures, spends_budget, why

_MOST_IN_A_ROW = 10
"""Epochs in a row that may fail soon. After half of them supervisors ask for new Pods."""


class End(Struct, frozen=True):
    """How a run ends.

    Args:
        reason: In one word.
        message: In a sentence.
        succeeded: Well.
        final: No restart helps.
        again: The job is restarted instead.
        loss: The replica that it failed for, if it was one.
    """

    reason: str
    message: str
    succeeded: bool = False
    final: bool = False
    again: bool = False
    loss: Replica | None = None


def end(states: ReplicaStates, record: RunRecord, now: float) -> End | None:
    """The end of the run, or of this attempt at it; None while it is not over."""
    found = _end(states, record, now)
    run = states.placement.job.run
    if found is None or found.succeeded or found.final or run.restart != "OnFailure":
        return found
    if run.backoff_limit is None or record.restarts < run.backoff_limit:
        return structs.replace(found, again=True)
    told = f"{found.message}, after {record.restarts} restarts of the job"
    return structs.replace(found, reason="BackoffLimitExceeded", message=told)


def ended(record: RunRecord, end: End, now: float) -> Decision:
    """The record of a run that is over, which people are told."""
    made = structs.replace(
        record,
        phase="Succeeded" if end.succeeded else "Failed",
        reason=end.reason,
        message=end.message,
        finished=now,
        gang=(),
        leaving={},
    )
    name = "JobSucceeded" if end.succeeded else "JobFailed"
    return Decision(made, (EmitEvent(name, end.message, warning=not end.succeeded),))


def next_look(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Requeue]:
    """When a run that is not over may be, by the clock alone."""
    deadline = _deadline(states, record)
    if deadline is not None:
        yield Requeue(deadline)
    for _, _, due in _waiting(states):
        if now < due:
            yield Requeue(due)
    timeouts = states.placement.view.timeouts
    for loss in states.those("lost"):
        if loss.since and not loss.returns and loss.place.role.recovery.vital:
            yield Requeue(loss.since + timeouts.verdict)


def _end(states: ReplicaStates, record: RunRecord, now: float) -> End | None:
    complete = _completion(states)
    if done := _success(states, complete):
        return End("Completed", done, succeeded=True)
    deadline = _deadline(states, record)
    if deadline is not None and (now >= deadline or _is_late(states)):
        return End("DeadlineExceeded", "the job ran longer than its deadline", final=True)
    if states.placement.view.batch and (reason := states.placement.view.batch.failed):
        name = states.placement.view.batch.name
        return End(reason, f"the Job {name} failed: {reason}", final=True)
    if (given_up := _given_up(states, record)) is not None:
        return given_up
    losses = states.new_losses(now)
    if (end := _worn_out(states, record, losses) or _waited(states, now)) is not None:
        return end
    failed = _fatal(states, record, now)
    if failed is not None:
        what = why(failed.place.role, failed.cause or "failed", failed.last)
        return End("PodFailed", f"{failed.place.name}: {what}", loss=failed)
    if (worn := _exhausted(states, record, states.new_returns(now))) is not None:
        limit, many = worn.recovery.failures, f"replicas of {worn.name} failed more than"
        message = f"{many} {limit} times" if limit else f"a replica of {worn.name} failed"
        return End("BackoffLimitExceeded", message)
    if _is_exceeded(states, record, states.new_returns(now)):
        limit = states.placement.job.run.backoff_limit
        return End("BackoffLimitExceeded", f"replicas failed more than {limit} times")
    if states.placement.job.run.in_place and record.restarts_in_a_row > _MOST_IN_A_ROW:
        message = (
            f"it was restarted {record.restarts_in_a_row} times in a row, and failed each time"
        )
        return End("RestartsInARow", message, final=True)
    if complete.end == "hopeless":
        return End("NoneLeft", "no replica is left that could make it succeed")
    return None


# Success ---------------------------------------------------------------------------------------


def _success(states: ReplicaStates, complete: Completion) -> str:
    """What the run has succeeded by; empty if it has not."""
    placement = states.placement
    deciding = placement.job.run.success.roles
    batch = [pod for pod in placement.batch if pod.role in deciding]
    view = placement.view.batch
    if any(role.batch for role in placement.job.roles if role.name in deciding):
        done = next((pod for pod in batch if pod.phase == "Succeeded" and not pod.deleting), None)
        if view is not None and view.succeeded:
            return f"{view.name} succeeded"
        return f"{done.name} succeeded" if done else ""
    return complete.why


def _deciding(states: ReplicaStates) -> list[Replica]:
    deciding = states.placement.job.run.success.roles
    return [replica for replica in states.replicas if replica.place.role.name in deciding]


def _completion(states: ReplicaStates) -> Completion:
    """What the replicas that decide come to, by what was decided about each."""
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    deciders = [
        Decider(replica.place.name, replica.place.number == 0, outcomes.get(replica.state, "open"))
        for replica in _deciding(states)
    ]
    return completion(states.placement.job.run.success, deciders)


# Failure ---------------------------------------------------------------------------------------


def _deadline(states: ReplicaStates, record: RunRecord) -> float | None:
    job = states.placement.job
    if job.run.deadline is None or any(role.batch for role in job.roles):
        return None  # a Job of Kubernetes has its own
    return None if record.started is None else record.started + job.run.deadline


def _given_up(states: ReplicaStates, record: RunRecord) -> End | None:
    """The end of a run, or of an attempt, whose supervisors do not run a command again."""
    in_place = states.placement.job.run.in_place
    for found, line in epochs.verdicts(states.placement, record):
        if line.verb == "is the last":
            reason = "BackoffLimitExceeded" if line.at_limit else "PodFailed"
            together = in_place is not None and in_place.mode == "together"
            message = line.why if together else f"{found.pod.name}: {line.why}"
            return End(reason, message, final=together)
    return None


def _is_late(states: ReplicaStates) -> bool:
    """Whether a Pod's own clock was faster: it has the deadline of the job."""
    return any(
        loss.last is not None and loss.last.reason == "DeadlineExceeded"
        for loss in states.those("lost")
        if loss.place.role.recovery.deadline is not None
        and "activeDeadlineSeconds" not in loss.place.role.template.spec
    )


def _fatal(states: ReplicaStates, record: RunRecord, now: float) -> Replica | None:
    """The loss that the run cannot get over."""
    timeouts = states.placement.view.timeouts.verdict
    for loss in states.new_losses(now, timeouts):
        role = loss.place.role
        if role.recovery.vital and not (loss.returns and _may_return(states, record, loss)):
            if is_spared(states, loss):
                continue
            return loss
    return None


def is_spared(states: ReplicaStates, loss: Replica) -> bool:
    """Whether a run goes on without a replica that does not come back.

    It does while as many are left as are enough (reference/dlrover.md 4.3).
    """
    success = states.placement.job.run.success
    if success.least is None or loss.place.role.name not in success.roles:
        return False
    remaining = [
        other
        for other in _deciding(states)
        if other.state != "left" and (other.state != "lost" or other.returns)
    ]
    return len(remaining) >= success.least


def _worn_out(states: ReplicaStates, record: RunRecord, losses: list[Replica]) -> End | None:
    """The end of a run in which too many Pods of a role have failed."""
    for role in states.placement.job.roles:
        if role.recovery.relaunch is None or role.recovery.relaunch.budget is None:
            continue
        new = [
            lost
            for lost in losses
            if lost.place.role.name == role.name
            and spends_budget(lost.cause or "failed", lost.last)
        ]
        failures = record.failures.get(role.name, 0) + len(new)
        if new and failures > role.recovery.relaunch.budget:
            limit = role.recovery.relaunch.budget
            message = f"{failures} Pods of {role.name} have failed; at most {limit} may fail"
            return End("TooManyFailures", message, loss=new[0])
    return None


def _waited(states: ReplicaStates, now: float) -> End | None:
    """The end of a run whose Pods wait too long to start (reference/dlrover.md 4.3)."""
    for role, rules, due in _waiting(states):
        if now < due:
            continue
        others = [other for other in states.replicas if other.place.role is role]
        running = sum(other.place.pod is not None and other.place.pod.ready for other in others)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if rules.tolerance == "any" or running < least:
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            return End("PendingTimeout", f"{message}; {running} of them are ready")
    return None


def _waiting(states: ReplicaStates) -> Iterator[tuple[Role, Relaunch, float]]:
    """Roles with a Pod that is Pending, their limits, and until when it may be.

    Not where a gang scheduler makes them wait: its queue may be as long as it is.
    """
    if states.placement.view.settings.gang != "none":
        return
    for replica in states.those("there"):
        pod, rules = replica.place.pod, replica.place.role.recovery.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting:
            yield replica.place.role, rules, pod.created + rules.pending


def _may_return(states: ReplicaStates, record: RunRecord, loss: Replica) -> bool:
    """Whether a launcher that failed is started again alone: only within the job's limit.

    Else the whole job is, if it restarts at all (reference/gitops.md 9, reference/et-operator.md
    4.5).
    """
    run = states.placement.job.run
    role = loss.place.role
    if role.recovery.failures is not None:
        return True  # that is its limit
    counts = loss.is_failure and role.name in run.success.roles
    if run.limits != "restarts" or not counts:
        return True
    if run.restart == "OnFailure":
        return False
    return run.backoff_limit is None or record.replaced.get(role.name, 0) < run.backoff_limit


def _is_exceeded(states: ReplicaStates, record: RunRecord, losses: Sequence[Replica]) -> bool:
    """Whether replicas have failed more often than `backoffLimit`, with what they lost just now."""
    limit = _backoff_limit(states.placement.job)
    if limit is None:
        return False
    roles = [role.name for role in states.placement.job.roles if counts_failures(role)]
    new = [loss for loss in losses if loss.is_failure and counts_failures(loss.place.role)]
    failures = sum(record.replaced.get(role, 0) for role in roles)
    failures += min(len(new), 1) if states.placement.job.run.together else len(new)
    if first_replica(states.placement.job) is not None:
        failures += record.restarts
    in_place = record.lost_restarts + sum(replica.restarts for replica in states.replicas)
    return _is_more(failures, in_place, limit)


def _exhausted(states: ReplicaStates, record: RunRecord, losses: Sequence[Replica]) -> Role | None:
    """A role whose replicas have failed more often than it may in an attempt, if there is one."""
    for role in states.placement.job.roles:
        if role.recovery.failures is None:
            continue
        new = [loss for loss in losses if loss.is_failure and loss.place.role.name == role.name]
        failures = record.replaced.get(role.name, 0)
        failures += min(len(new), 1) if states.placement.job.run.together else len(new)
        own = (other for other in states.replicas if other.place.role.name == role.name)
        if _is_more(failures, sum(other.restarts for other in own), role.recovery.failures):
            return role
    return None


def _is_more(failures: int, in_place: int, limit: int) -> bool:
    """Whether Pods failed, and containers were started again, more often than a limit allows."""
    # Restarts in place: as many as the limit, but for a limit of 0 (reference 5.4, a). Pods that
    # failed: more than the limit (b).
    return in_place >= max(limit, 1) or (failures > 0 and in_place + failures > limit)


def _backoff_limit(job: Job) -> int | None:
    if job.run.limits != "failures" or any(role.batch for role in job.roles):
        return None  # a Job of Kubernetes has its own
    return job.run.backoff_limit


# After the end ---------------------------------------------------------------------------------
#
# The done marker is in the run record; it ends resident workers and keeps a finished run from
# training again (docs/protocol.md). Pods that Git declares are not deleted, they would come back
# (reference/gitops.md 1.5); who does not end by itself is given a deadline. Elsewhere
# cleanPodPolicy means what it says (reference/training-operator.md 5.6, reference/et-operator.md
# 4.6).
#
# After ttlSecondsAfterFinished first the Pods go, then all that was made for the job, as the
# garbage collection of an operator's custom resource does (reference/training-operator.md 5.6); the
# job's own ConfigMap is the last. Only where no tool syncs Git: it would create again what has
# expired, and the job would run again (reference/gitops.md 1.5). That is told.


def after_the_end(placement: Placement, record: RunRecord, now: float) -> Decision:
    """What becomes of the Pods of a run that is over, and of the job once its time is."""
    expired = _expired(placement, record, now)
    return Decision(expired.record, (*_cleaned(placement), *expired.actions))


def _cleaned(placement: Placement) -> Iterator[Action]:
    run = placement.job.run
    if run.clean_pods not in ("Running", "All"):
        return
    for pod in placement.of_this_run:
        role = placement.job.role(pod.role)
        if role is None or role.name in run.keeps or pod.deleting:
            continue
        if placement.view.git_managed:
            if not pod.ended and not pod.ending and not _ends_itself(role):
                yield EndPod(pod.name, pod.uid, "RunIsOver")
        elif run.clean_pods == "All" or not pod.ended:
            yield DeletePod(pod.name, pod.uid, "RunIsOver")


def _ends_itself(role: Role) -> bool:
    """Whether its Pods look for the marker, or have a deadline that must not be changed.

    A deadline that Git declares would be set back, and Kubernetes refuses to prolong one.
    """
    declared = role.recovery.deadline is not None or "activeDeadlineSeconds" in role.template.spec
    return declared or bool(role.batch) or ends_with_run(role)


_NO_EFFECT = (
    "ttlSecondsAfterFinished has no effect: the tool that syncs Git would create again what is "
    "removed; remove the job from Git"
)


def _expired(placement: Placement, record: RunRecord, now: float) -> Decision:
    ttl = placement.job.run.ttl
    if ttl is None or record.finished is None:
        return Decision(record)
    # Who was applied after the end has the same time: nothing expires that has just been created.
    newest = max((pod.created for pod in placement.of_this_run), default=0.0)
    due = max(record.finished, newest, placement.view.declared_at or 0.0) + ttl
    if now < due:
        return Decision(record, (Requeue(due),))
    if placement.view.git_managed:
        told = () if record.expired else (EmitEvent("NotRemoved", _NO_EFFECT),)
        return Decision(structs.replace(record, expired=True), told)
    pods = [*placement.of_this_run]
    if not pods:
        return Decision(record, (RemoveJob(),))
    going = [DeletePod(pod.name, pod.uid, "Expired") for pod in pods if not pod.deleting]
    return Decision(record, tuple(going))
