"""Whether a run is over, and how: by the success rule, the limits and the losses of its job.

Success comes first. The operators decide in the order of a hash table, so that the same Pods may
mean success or failure (reference/training-operator.md 7, defects 14 and 29).
"""

from collections.abc import Iterator

from msgspec import Struct, structs

from etcompile.model import Relaunch, Role
from etcompile.model.completion import Completion, Decider, Outcome, completion
from etcompile.watch.actions import Action, EmitEvent, Requeue
from etcompile.watch.rules import gang, limits, relaunch
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.replica_states import Replica, ReplicaStates, State
from etcompile.watch.rules.restart_policy import why
from etcompile.watch.state import RunRecord


class End(Struct, frozen=True):
    """How a run ends.

    Args:
        reason: In one word.
        message: In a sentence.
        succeeded: Well.
        final: No restart helps.
        loss: The replica that it failed for, if it was one.
    """

    reason: str
    message: str
    succeeded: bool = False
    final: bool = False
    loss: Replica | None = None


def judged(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with the end if the run is over; a restart of the job instead, if it has one.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    job = states.run_state.job
    end = _end(states, record, now)
    if end is None:
        return Decision(record, tuple(_next_look(states, record, now)))
    again = not end.succeeded and not end.final and job.run.restart == "OnFailure"
    if again and not limits.is_used_up(job, record):
        return gang.restarted(states, record, now, end.message, end.loss, anew=True)
    if again:
        told = f"{end.message}, after {record.restarts} restarts of the job"
        end = structs.replace(end, reason="BackoffLimitExceeded", message=told)
    ended = structs.replace(
        record,
        phase="Succeeded" if end.succeeded else "Failed",
        reason=end.reason,
        message=end.message,
        finished=now,
        gang=(),
        leaving={},
    )
    name = "JobSucceeded" if end.succeeded else "JobFailed"
    return Decision(ended, (EmitEvent(name, end.message, warning=not end.succeeded),))


def _end(states: ReplicaStates, record: RunRecord, now: float) -> End | None:
    if done := _success(states):
        return End("Completed", done, succeeded=True)
    deadline = _deadline(states, record)
    if deadline is not None and (now >= deadline or _is_late(states)):
        return End("DeadlineExceeded", "the job ran longer than its deadline", final=True)
    if states.run_state.view.batch and (reason := states.run_state.view.batch.failed):
        name = states.run_state.view.batch.name
        return End(reason, f"the Job {name} failed: {reason}", final=True)
    losses = states.new_losses(now, states.run_state.view.timeouts.settle)
    if (end := _worn_out(states, record, losses) or _waited(states, now)) is not None:
        return end
    failed = _fatal(states, record, now)
    if failed is not None:
        what = why(failed.place.role, failed.cause or "failed", failed.last)
        return End("PodFailed", f"{failed.place.name}: {what}", loss=failed)
    if limits.is_exceeded(states, record, [one for one in losses if one.returns]):
        limit = states.run_state.job.run.backoff_limit
        return End("BackoffLimitExceeded", f"replicas failed more than {limit} times")
    if _completion(states).end == "hopeless":
        return End("NoneLeft", "no replica is left that could make it succeed")
    return None


# Success ---------------------------------------------------------------------------------------


def _success(states: ReplicaStates) -> str:
    """What the run has succeeded by; empty if it has not."""
    run_state = states.run_state
    deciding = run_state.job.run.success.roles
    batch = [pod for pod in run_state.batch if pod.role in deciding]
    view = run_state.view.batch
    if any(role.batch for role in run_state.job.roles if role.name in deciding):
        done = next((pod for pod in batch if pod.phase == "Succeeded" and not pod.deleting), None)
        if view is not None and view.succeeded:
            return f"{view.name} succeeded"
        return f"{done.name} succeeded" if done else ""
    return _completion(states).why


def _deciding(states: ReplicaStates) -> list[Replica]:
    deciding = states.run_state.job.run.success.roles
    return [one for one in states.replicas if one.place.role.name in deciding]


def _completion(states: ReplicaStates) -> Completion:
    """What the replicas that decide come to, by what was decided about each."""
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    deciders = [
        Decider(one.place.name, one.place.number == 0, outcomes.get(one.state, "open"))
        for one in _deciding(states)
    ]
    return completion(states.run_state.job.run.success, deciders)


# Failure ---------------------------------------------------------------------------------------


def _deadline(states: ReplicaStates, record: RunRecord) -> float | None:
    job = states.run_state.job
    if job.run.deadline is None or any(role.batch for role in job.roles):
        return None  # a Job of Kubernetes has its own
    return None if record.started is None else record.started + job.run.deadline


def _is_late(states: ReplicaStates) -> bool:
    """Whether a Pod's own clock was faster: it has the deadline of the job."""
    return any(
        one.last is not None and one.last.reason == "DeadlineExceeded"
        for one in states.those("lost")
        if one.place.role.deadline is not None
        and "activeDeadlineSeconds" not in one.place.role.template.spec
    )


def _fatal(states: ReplicaStates, record: RunRecord, now: float) -> Replica | None:
    """The loss that the run cannot get over."""
    timeouts = states.run_state.view.timeouts.verdict
    for one in states.new_losses(now, timeouts):
        role = one.place.role
        if role.vital and not (one.returns and _may_return(states, record, one)):
            if is_spared(states, one):
                continue
            return one
    return None


def is_spared(states: ReplicaStates, loss: Replica) -> bool:
    """Whether a run goes on without a replica that does not come back.

    It does while as many are left as are enough (reference/dlrover.md 4.3).

    Args:
        states: What has become of the replicas.
        loss: The replica.
    """
    success = states.run_state.job.run.success
    if success.least is None or loss.place.role.name not in success.roles:
        return False
    remaining = [
        one
        for one in _deciding(states)
        if one.state != "left" and (one.state != "lost" or one.returns)
    ]
    return len(remaining) >= success.least


def _worn_out(states: ReplicaStates, record: RunRecord, losses: list[Replica]) -> End | None:
    """The end of a run in which too many Pods of a role have failed."""
    for role in states.run_state.job.roles:
        if role.relaunch is None or role.relaunch.budget is None:
            continue
        new = [
            one
            for one in losses
            if one.place.role.name == role.name
            and relaunch.is_failure(one.cause or "failed", one.last)
        ]
        failures = record.failures.get(role.name, 0) + len(new)
        if new and failures > role.relaunch.budget:
            limit = role.relaunch.budget
            message = f"{failures} Pods of {role.name} have failed; at most {limit} may fail"
            return End("TooManyFailures", message, loss=new[0])
    return None


def _waited(states: ReplicaStates, now: float) -> End | None:
    """The end of a run whose Pods wait too long to start (reference/dlrover.md 4.3)."""
    for role, rules, due in _waiting(states):
        if now < due:
            continue
        others = [one for one in states.replicas if one.place.role is role]
        running = sum(one.place.pod is not None and one.place.pod.ready for one in others)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if rules.tolerance == "any" or running < least:
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            return End("PendingTimeout", f"{message}; {running} of them are ready")
    return None


def _waiting(states: ReplicaStates) -> Iterator[tuple[Role, Relaunch, float]]:
    """Roles with a Pod that is Pending, their limits, and until when it may be.

    Not where a gang scheduler makes them wait: its queue may be as long as it is.
    """
    if states.run_state.view.settings.gang != "none":
        return
    for one in states.those("there"):
        pod, rules = one.place.pod, one.place.role.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting:
            yield one.place.role, rules, pod.created + rules.pending


def _may_return(states: ReplicaStates, record: RunRecord, loss: Replica) -> bool:
    """Whether a launcher that failed is started again alone: only within the job's limit.

    Else the whole job is, if it restarts at all (reference/gitops.md 9, reference/et-operator.md
    4.5).
    """
    run = states.run_state.job.run
    role = loss.place.role
    counts = limits.is_failure(loss) and role.name in run.success.roles
    if run.limits != "restarts" or not counts:
        return True
    if run.restart == "OnFailure":
        return False
    return run.backoff_limit is None or record.replaced.get(role.name, 0) < run.backoff_limit


def _next_look(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Action]:
    deadline = _deadline(states, record)
    if deadline is not None:
        yield Requeue(deadline)
    for _, _, due in _waiting(states):
        if now < due:
            yield Requeue(due)
    timeouts = states.run_state.view.timeouts
    for one in states.those("lost"):
        if one.since and not one.returns and one.place.role.vital:
            yield Requeue(one.since + timeouts.verdict)
