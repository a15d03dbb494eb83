"""Whether a run is over, and how; and what becomes of its Pods then.

The operators decide in the order of a hash table, so that the same Pods may mean success or failure
(reference/training-operator.md 7, defects 14 and 29). Here there is one order, and the first that
holds ends the run: `_end` has it. So of a success and a failure at once the run has succeeded, also
if the watcher sees the failure first: it waits a moment before it believes one (`sure_at`).

A loss is judged when it is sure. Who vanished may be back in a moment, because Git's tool brings it
back or a whole job is about to go: `Timeouts.settle` and `Timeouts.verdict` say how long that is.
What was counted must never fall, so counters are in the run record, and what is lost just now is
added to them (reference/training-operator.md 5.4; 7, defects 2 and 3).

When a run succeeds, of replica outcomes alone, is said in `etcompile/model/run_completion.py`,
which `status` asks as well.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.backend import ends_with_run
from etcompile.model import Relaunch, Role
from etcompile.model.run_completion import Completion, Decider, Outcome, completion
from etcompile.model.run_record import RunRecord
from etcompile.model.supervision import first_replica
from etcompile.watch.core.actions import Action, Decision, DeletePod, EmitEvent, PatchPod, Requeue
from etcompile.watch.core.followers import spends_budget
from etcompile.watch.core.listener import End
from etcompile.watch.core.placement import Placement, Replica, State, counts_failures
from etcompile.watch.core.replicas import RunState, comes_back, why


def end(state: RunState) -> End | None:
    """Return the end of the run, or of this attempt at it; None while it is not over."""
    end, run = _end(state), state.job.run
    if end is None or end.succeeded or end.final or run.restart != "OnFailure":
        return end
    restarts = state.record.restarts
    if run.backoff_limit is None or restarts < run.backoff_limit:
        return structs.replace(end, again=True)
    message = f"{end.message}, after {restarts} restarts of the job"
    return structs.replace(end, reason="BackoffLimitExceeded", message=message)


def ended(state: RunState, end: End) -> Decision:
    """Return the record of a run that is over, and its Event."""
    record = structs.replace(
        state.record,
        phase="Succeeded" if end.succeeded else "Failed",
        reason=end.reason,
        message=end.message,
        finished=state.now,
        gang=(),
        leaving={},
    )
    name = "JobSucceeded" if end.succeeded else "JobFailed"
    return Decision(record, (EmitEvent(name, end.message, warning=not end.succeeded),))


def next_look(state: RunState) -> Iterator[Requeue]:
    """Yield when a run that is not over may be, by the clock alone."""
    deadline = _deadline(state)
    if deadline is not None:
        yield Requeue(deadline)
    for _, _, due in _waiting(state):
        if state.now < due:
            yield Requeue(due)
    for loss in state.those("lost"):
        if loss.since and not loss.returns and loss.role.recovery.vital:
            yield Requeue(loss.since + state.timeouts.verdict)


def _end(state: RunState) -> End | None:
    job, batch = state.job, state.view.batch
    complete = completion(job.run.success, [_decider(state, own) for own in _deciding(state)])
    if message := _success(state, complete):
        return End("Completed", message, succeeded=True)
    # A Pod's own clock may be faster: it has the deadline of the job.
    is_late = any(
        loss.last is not None and loss.last.reason == "DeadlineExceeded"
        for loss in state.those("lost")
        if loss.role.recovery.deadline is not None
        and "activeDeadlineSeconds" not in loss.role.template.spec
    )
    deadline = _deadline(state)
    if deadline is not None and (state.now >= deadline or is_late):
        return End("DeadlineExceeded", "the job ran longer than its deadline", final=True)
    if batch and batch.failed:
        return End(batch.failed, f"the Job {batch.name} failed: {batch.failed}", final=True)
    if state.before.end is not None:
        return state.before.end
    if (end := _budget_spent(state) or _waited_too_long(state)) is not None:
        return end
    for loss in state.new_losses(state.timeouts.verdict):
        role = loss.role
        if not role.recovery.vital or (loss.returns and _may_return(state, loss)):
            continue
        if not is_spared(state, loss):
            what = why(role, loss.cause or "failed", loss.last)
            return End("PodFailed", f"{loss.name}: {what}", loss=loss)
    returns = state.new_returns()
    if message := _limit_exceeded(state, returns):
        return End("BackoffLimitExceeded", message)
    if complete.end == "hopeless":
        return End("NoneLeft", "no replica is left that could make it succeed")
    return None


def _decider(state: RunState, replica: Replica) -> Decider:
    """Return what a replica that decides has come to."""
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    outcome = outcomes.get(replica.state, "open")
    last = replica.pod or (replica.gone.pod if replica.gone else None)
    if last is not None and last.uid in state.record.gang and state.record.phase == "Restarting":
        # It succeeded before the restart deleted it, which the watcher had not seen yet.
        in_time = last.phase == "Succeeded" and 0.0 < last.ended_at < last.deletion_requested
        outcome = "done" if in_time and not comes_back(replica.role, "succeeded", last) else "open"
    return Decider(replica.name, replica.number == 0, outcome)


def sure_at(state: RunState) -> float:
    """Return from when on a failure ends the run: a success of that moment may not be seen yet."""
    losses = state.those("lost")
    ends = [own.last.ended_at for own in losses if own.cause == "failed" and own.last]
    remaining = [
        Decider(own.name, own.number == 0, "out" if own.state in ("lost", "left") else "done")
        for own in _deciding(state)
    ]
    may_succeed = completion(state.job.run.success, remaining).end == "succeeded"
    # A node's clock may be wrong.
    first = min((at for at in ends if at <= state.now), default=0.0)
    return first + state.timeouts.race if may_succeed else 0.0


def _success(state: RunState, complete: Completion) -> str:
    deciding, batch = state.job.run.success.roles, state.view.batch
    if not any(role.batch for role in state.job.roles if role.name in deciding):
        return complete.why
    if batch is not None and batch.succeeded:
        return f"{batch.name} succeeded"
    for pod in state.placement.batch:
        if pod.role in deciding and pod.phase == "Succeeded" and not pod.deleting:
            return f"{pod.name} succeeded"
    return ""


def _deciding(state: RunState) -> list[Replica]:
    deciding = state.job.run.success.roles
    return [replica for replica in state.replicas if replica.role.name in deciding]


def _deadline(state: RunState) -> float | None:
    deadline, started = state.job.run.deadline, state.record.started
    if deadline is None or started is None or any(role.batch for role in state.job.roles):
        return None  # a Job of Kubernetes has its own
    return started + deadline


def is_spared(state: RunState, loss: Replica) -> bool:
    """Whether a run goes on without a replica: enough are left (reference/dlrover.md 4.3)."""
    success = state.job.run.success
    if success.least is None or loss.role.name not in success.roles:
        return False
    remaining = [
        other
        for other in _deciding(state)
        if other.state != "left" and (other.state != "lost" or other.returns)
    ]
    return len(remaining) >= success.least


def _budget_spent(state: RunState) -> End | None:
    losses = [
        loss for loss in state.new_losses() if spends_budget(loss.cause or "failed", loss.last)
    ]
    for role in state.job.roles:
        budget = role.recovery.relaunch.budget if role.recovery.relaunch is not None else None
        new = [loss for loss in losses if loss.role.name == role.name]
        failures = state.record.failures.get(role.name, 0) + len(new)
        if new and budget is not None and failures > budget:
            message = f"{failures} Pods of {role.name} have failed; at most {budget} may fail"
            return End("TooManyFailures", message, loss=new[0])
    return None


def _waited_too_long(state: RunState) -> End | None:
    """Return the end of a run whose Pods wait too long to start (reference/dlrover.md 4.3)."""
    for role, rules, due in _waiting(state):
        pods = [other.pod for other in state.replicas if other.role is role]
        running = sum(pod is not None and pod.ready for pod in pods)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if state.now >= due and (rules.tolerance == "any" or running < least):
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            return End("PendingTimeout", f"{message}; {running} of them are ready")
    return None


def _waiting(state: RunState) -> Iterator[tuple[Role, Relaunch, float]]:
    """Roles with a Pod that is Pending, their limits, and until when it may be.

    Not where a gang scheduler makes them wait: its queue may be as long as it is.
    """
    if state.view.settings.gang != "none":
        return
    for replica in state.those("there"):
        pod, rules = replica.pod, replica.role.recovery.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting:
            yield replica.role, rules, pod.created + rules.pending


def _may_return(state: RunState, loss: Replica) -> bool:
    """Return whether a launcher that failed is started again alone: only within the job's limit.

    Else the whole job is, if it restarts at all (reference/gitops.md 9, reference/et-operator.md
    4.5).
    """
    run, role = state.job.run, loss.role
    counts = loss.is_failure and role.name in run.success.roles
    # A limit of its own is its limit.
    if role.recovery.failures is not None or run.limits != "restarts" or not counts:
        return True
    limit = 0 if run.restart == "OnFailure" else run.backoff_limit
    return limit is None or state.record.replaced.get(role.name, 0) < limit


def _limit_exceeded(state: RunState, losses: Sequence[Replica]) -> str:
    """Return which limit of failures the replicas have exceeded, those of their roles first."""
    job, record = state.job, state.record

    def is_exceeded(limit: int, roles: Sequence[str], failures: int, in_place: int) -> bool:
        """Whether Pods failed, and containers were started again, more often than a limit allows.

        Restarts in place: as many as the limit, except for a limit of 0. Pods that failed: more
        than the limit (reference/training-operator.md 5.4, a and b).
        """
        new = sum(loss.is_failure and loss.role.name in roles for loss in losses)
        failures += sum(record.replaced.get(role, 0) for role in roles)
        failures += min(new, 1) if job.run.together else new
        return in_place >= max(limit, 1) or (failures > 0 and in_place + failures > limit)

    def times(limit: int) -> str:
        return "once" if limit == 1 else f"{limit} times"

    for role in job.roles:
        if (limit := role.recovery.failures) is None:
            continue
        restarts = sum(r.restarts for r in state.replicas if r.role.name == role.name)
        if is_exceeded(limit, [role.name], 0, restarts):
            many = f"replicas of {role.name} failed more than {times(limit)}"
            return many if limit else f"a replica of {role.name} failed"
    limit = job.run.backoff_limit
    if limit is None or job.run.limits != "failures" or any(role.batch for role in job.roles):
        return ""  # a Job of Kubernetes has its own
    counted = [role.name for role in job.roles if counts_failures(role)]
    together = record.restarts if first_replica(job) is not None else 0
    restarts = record.lost_restarts + sum(replica.restarts for replica in state.replicas)
    exceeded = is_exceeded(limit, counted, together, restarts)
    return f"replicas failed more than {times(limit)}" if exceeded else ""


# After the end ---------------------------------------------------------------------------------
#
# Pods that Git declares are not deleted, they would come back (reference/gitops.md 1.5); who does
# not end by itself is given a deadline. Elsewhere cleanPodPolicy means what it says
# (reference/training-operator.md 5.6, reference/et-operator.md 4.6).
_ELASTIC_GRACE = 10.0
"""Seconds that elastic nodes have to end after the first: torchrun's agents wait for each other."""


def after_the_end(placement: Placement, record: RunRecord, now: float) -> Decision:
    """Return what becomes of the Pods of a run that is over."""
    actions: list[Action] = []
    run = placement.job.run
    by_first = record.phase == "Succeeded" and run.success.needs == "any"
    grace_ends = (record.finished or 0.0) + _ELASTIC_GRACE
    for pod in placement.of_this_run if run.clean_pods in ("Running", "All") else ():
        role = placement.job.role(pod.role)
        if role is None or role.name in run.keeps or pod.deleting:
            continue
        if by_first and role.bounds is not None and not pod.ended and now < grace_ends:
            actions.append(Requeue(grace_ends))
        elif placement.view.git_managed:
            # A deadline that Git declares would be set back, and Kubernetes refuses to prolong one.
            has_deadline = role.recovery.deadline is not None
            has_deadline = has_deadline or "activeDeadlineSeconds" in role.template.spec
            ends_itself = has_deadline or bool(role.batch) or ends_with_run(role)
            if not pod.ended and not pod.ending and not ends_itself:
                actions.append(PatchPod("end", pod.name, pod.uid, "RunIsOver"))
        elif run.clean_pods == "All" or not pod.ended:
            actions.append(DeletePod(pod.name, pod.uid, "RunIsOver"))
    return Decision(record, actions)
