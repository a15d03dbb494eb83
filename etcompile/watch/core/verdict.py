"""Decide whether a run is over, and how; and what becomes of its Pods then.

The operators decide in the order of a hash table, so that the same Pods may mean success or failure
(reference/training-operator.md 7, defects 14 and 29). Here there is one order, and the first that
holds ends the run: `_end` has it. So of a success and a failure at once the run has succeeded, also
if the watcher sees the failure first: it waits a moment before it believes one (`sure_at`).

Wait before judging a loss: the tool that syncs Git may recreate the Pod, or the whole job may be
about to go. `Timeouts.settle` and `Timeouts.verdict` say how long. Counts must never fall, so they
are in the run record, and new losses are added to them (reference/training-operator.md 5.4; 7,
defects 2 and 3).

`etcompile/model/run_completion.py` says when a run succeeds, for `status` as well.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.backend import ends_with_run
from etcompile.model import Relaunch, Role
from etcompile.model.run_completion import Completion, Decider, Outcome, completion
from etcompile.model.supervision import first_replica
from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, PatchPod, Requeue
from etcompile.watch.core.followers import spends_budget
from etcompile.watch.core.replicas import comes_back, described
from etcompile.watch.core.run import End, Replica, Run, State, counts_failures


def end(run: Run) -> End | None:
    """Return the end of the run, or of this attempt at it; None while it is not over."""
    end, policy = _end(run), run.job.run
    if end is None or end.succeeded or end.final or policy.restart != "OnFailure":
        return end
    restarts = run.record.restarts
    if policy.backoff_limit is None or restarts < policy.backoff_limit:
        return structs.replace(end, again=True)
    message = f"{end.message}, after {restarts} restarts of the job"
    return structs.replace(end, reason="BackoffLimitExceeded", message=message)


def ended(run: Run, end: End) -> Run:
    record = structs.replace(
        run.record,
        phase="Succeeded" if end.succeeded else "Failed",
        reason=end.reason,
        message=end.message,
        finished=run.now,
        gang=(),
        leaving={},
    )
    name = "JobSucceeded" if end.succeeded else "JobFailed"
    event = EmitEvent(name, end.message, warning=not end.succeeded)
    return after_the_end(run.adding([event], record=record))


def next_requeue(run: Run) -> Iterator[Requeue]:
    """Yield when a run that is not over may be, by the clock alone."""
    deadline = _deadline(run)
    if deadline is not None:
        yield Requeue(deadline)
    for _, _, due in _waiting(run):
        if run.now < due:
            yield Requeue(due)
    for loss in run.in_state("lost"):
        if loss.since and not loss.returns and loss.role.recovery.vital:
            yield Requeue(loss.since + run.timeouts.verdict)


def _end(run: Run) -> End | None:
    job, batch = run.job, run.view.batch
    complete = completion(job.run.success, [_decider(run, replica) for replica in _deciding(run)])
    if message := _success(run, complete):
        return End("Completed", message, succeeded=True)
    # A Pod's own clock may be faster: it has the deadline of the job.
    is_late = any(
        loss.last is not None and loss.last.reason == "DeadlineExceeded"
        for loss in run.in_state("lost")
        if loss.role.recovery.deadline is not None
        and "activeDeadlineSeconds" not in loss.role.template.spec
    )
    deadline = _deadline(run)
    if deadline is not None and (run.now >= deadline or is_late):
        return End("DeadlineExceeded", "the job ran longer than its deadline", final=True)
    if batch and batch.failed:
        return End(batch.failed, f"the Job {batch.name} failed: {batch.failed}", final=True)
    if end := run.end or _budget_spent(run) or _waited_too_long(run):
        return end
    for loss in run.new_losses(run.timeouts.verdict):
        if not loss.role.recovery.vital or (loss.returns and _may_return(run, loss)):
            continue
        if not is_spared(run, loss):
            return End("PodFailed", described(run, loss), loss=loss)
    if message := _limit_exceeded(run, run.new_returns()):
        return End("BackoffLimitExceeded", message)
    if complete.end == "hopeless":
        return End("NoneLeft", "no replica is left that could make it succeed")
    return None


def _decider(run: Run, replica: Replica) -> Decider:
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    outcome, last = outcomes.get(replica.state, "open"), replica.latest
    if (
        replica.state != "there"
        and last is not None
        and (run.record.phase == "Restarting" and last.uid in run.record.gang)
    ):
        # It succeeded before the restart deleted it, which the watcher had not seen yet.
        in_time = last.phase == "Succeeded" and 0.0 < last.ended_at < last.deletion_requested
        outcome = "done" if in_time and not comes_back(replica.role, "succeeded", last) else "open"
    return Decider(replica.name, replica.number == 0, outcome)


def sure_at(run: Run) -> float:
    """Return when a failure ends the run: a success of the same moment may not be seen yet."""
    ends = [
        replica.last.ended_at
        for replica in run.in_state("lost")
        if replica.cause == "failed" and replica.last
    ]
    remaining = [
        Decider(
            replica.name,
            replica.number == 0,
            "out" if replica.state in ("lost", "left") else "done",
        )
        for replica in _deciding(run)
    ]
    may_succeed = completion(run.job.run.success, remaining).end == "succeeded"
    # A node's clock may be wrong.
    first = min((at for at in ends if at <= run.now), default=0.0)
    return first + run.timeouts.race if may_succeed else 0.0


def _success(run: Run, complete: Completion) -> str:
    deciding, batch = run.job.run.success.roles, run.view.batch
    if not any(role.batch for role in run.job.roles if role.name in deciding):
        return complete.why
    if batch is not None and batch.succeeded:
        return f"{batch.name} succeeded"
    for pod in run.batch:
        if pod.role in deciding and pod.phase == "Succeeded" and not pod.deleting:
            return f"{pod.name} succeeded"
    return ""


def _deciding(run: Run) -> list[Replica]:
    deciding = run.job.run.success.roles
    return [replica for replica in run.replicas if replica.role.name in deciding]


def _deadline(run: Run) -> float | None:
    deadline, started = run.job.run.deadline, run.record.started
    if deadline is None or started is None or any(role.batch for role in run.job.roles):
        return None  # a Job of Kubernetes has its own
    return started + deadline


def is_spared(run: Run, loss: Replica) -> bool:
    """Return whether enough replicas are left without this one (reference/dlrover.md 4.3)."""
    success = run.job.run.success
    if success.least is None or loss.role.name not in success.roles:
        return False
    remaining = [
        other
        for other in _deciding(run)
        if other.state != "left" and (other.state != "lost" or other.returns)
    ]
    return len(remaining) >= success.least


def _budget_spent(run: Run) -> End | None:
    losses = [loss for loss in run.new_losses() if spends_budget(loss.cause, loss.last)]
    for role in run.job.roles:
        budget = role.recovery.relaunch.budget if role.recovery.relaunch is not None else None
        new = [loss for loss in losses if loss.role.name == role.name]
        failures = run.record.failures.get(role.name, 0) + len(new)
        if new and budget is not None and failures > budget:
            message = f"{failures} Pods of {role.name} have failed; at most {budget} may fail"
            return End("TooManyFailures", message, loss=new[0])
    return None


def _waited_too_long(run: Run) -> End | None:
    """Return the end of a run whose Pods wait too long to start (reference/dlrover.md 4.3)."""
    for role, rules, due in _waiting(run):
        pods = [other.pod for other in run.replicas if other.role is role]
        running = sum(pod is not None and pod.ready for pod in pods)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if run.now >= due and (rules.tolerance == "any" or running < least):
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            return End("PendingTimeout", f"{message}; {running} of them are ready")
    return None


def _waiting(run: Run) -> Iterator[tuple[Role, Relaunch, float]]:
    """Yield roles with a Pod that is Pending, their limits, and until when it may be.

    Not if a gang scheduler makes them wait, however long its queue is.
    """
    ranked = any(role.recovery.relaunch for role in run.job.roles)
    for replica in run.in_state("there") if ranked and run.view.settings.gang == "none" else ():
        pod, rules = replica.pod, replica.role.recovery.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting:
            yield replica.role, rules, pod.created + rules.pending


def _may_return(run: Run, loss: Replica) -> bool:
    """Return whether a launcher that failed is started again alone: only within the job's limit.

    Otherwise the whole job is, if it restarts at all (reference/gitops.md 9,
    reference/et-operator.md 4.5).
    """
    policy, role = run.job.run, loss.role
    counts = loss.is_failure and role.name in policy.success.roles
    # A role's own limit takes precedence.
    if role.recovery.failures is not None or policy.limits != "restarts" or not counts:
        return True
    limit = 0 if policy.restart == "OnFailure" else policy.backoff_limit
    return limit is None or run.record.replaced.get(role.name, 0) < limit


def _limit_exceeded(run: Run, losses: Sequence[Replica]) -> str:
    """Return which limit of failures the replicas have exceeded, those of their roles first."""
    job, record = run.job, run.record

    def is_exceeded(limit: int, roles: Sequence[str], failures: int, in_place: int) -> bool:
        """Return whether Pods and containers failed more often than a limit allows.

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
        restarts = sum(r.restarts for r in run.replicas if r.role.name == role.name)
        if is_exceeded(limit, [role.name], 0, restarts):
            many = f"replicas of {role.name} failed more than {times(limit)}"
            return many if limit else f"a replica of {role.name} failed"
    limit = job.run.backoff_limit
    if limit is None or job.run.limits != "failures" or any(role.batch for role in job.roles):
        return ""  # a Job of Kubernetes has its own
    counted = [role.name for role in job.roles if counts_failures(role)]
    together = record.restarts if first_replica(job) is not None else 0
    restarts = record.lost_restarts + sum(
        replica.restarts for replica in run.replicas if replica.pod
    )
    exceeded = is_exceeded(limit, counted, together, restarts)
    return f"replicas failed more than {times(limit)}" if exceeded else ""


# After the end ---------------------------------------------------------------------------------
#
# Pods that Git declares are not deleted, they would come back (reference/gitops.md 1.5); one that
# does not end by itself gets a deadline. Elsewhere cleanPodPolicy means what it says
# (reference/training-operator.md 5.6, reference/et-operator.md 4.6).
_ELASTIC_GRACE = 10.0
"""Seconds that elastic nodes have to end after the first: torchrun's agents wait for each other."""


def after_the_end(run: Run) -> Run:
    """Return a run that is over, with what becomes of its Pods."""
    actions: list[Action] = []
    record, policy = run.record, run.job.run
    by_first = record.phase == "Succeeded" and policy.success.needs == "any"
    grace_ends = (record.finished or 0.0) + _ELASTIC_GRACE
    for pod in run.pods if policy.clean_pods in ("Running", "All") else ():
        role = run.job.role(pod.role)
        if role is None or role.name in policy.keeps or pod.deleting:
            continue
        if by_first and role.bounds is not None and not pod.ended and run.now < grace_ends:
            actions.append(Requeue(grace_ends))
        elif run.view.git_managed:
            # A deadline that Git declares would be set back, and Kubernetes refuses to prolong one.
            has_deadline = role.recovery.deadline is not None
            has_deadline = has_deadline or "activeDeadlineSeconds" in role.template.spec
            ends_itself = has_deadline or bool(role.batch) or ends_with_run(role)
            if not pod.ended and not pod.ending and not ends_itself:
                actions.append(PatchPod("end", pod.name, pod.uid, "RunIsOver"))
        elif policy.clean_pods == "All" or not pod.ended:
            actions.append(DeletePod(pod.name, pod.uid, "RunIsOver"))
    return run.adding(actions)
