"""Decide whether a run is over, and how; and what becomes of its Pods then.

The operators decide in the order of a hash table, so that the same Pods may mean success or failure
(reference/training-operator.md 7, defects 14 and 29). Here there is one order, and the first that
holds ends the run: `_end` has it. So of a success and a failure at once the run has succeeded, also
if the watcher sees the failure first: it waits a moment before it believes one (`_sure_at`).

Wait before judging a loss: the tool that syncs Git may recreate the Pod, or the whole job may be
about to go. `Timeouts.settle` and `Timeouts.verdict` say how long. Counts must never fall, so they
are in the run record, and new losses are added to them (reference/training-operator.md 5.4; 7,
defects 2 and 3).

`etcompile/model/run_completion.py` says when a run succeeds, for `status` as well.
"""

from msgspec import structs

from etcompile.backend import ends_with_run
from etcompile.model.run_completion import Decider, Outcome, completion
from etcompile.model.supervision import first_replica
from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, PatchPod, Requeue
from etcompile.watch.core.replicas import comes_back, described
from etcompile.watch.core.run import End, Replica, Run, State, counts_failures


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
    return structs.replace(end, sure_at=_sure_at(run)), again


def _end(run: Run, again: list[Requeue]) -> End | None:
    job, policy, record, batch = run.job, run.job.run, run.record, run.view.batch
    complete = completion(policy.success, [_decider(run, replica) for replica in _deciding(run)])
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
    if end := _waited_too_long(run, again):
        return end
    for loss in lost:
        due = loss.since + run.timeouts.verdict if loss.since else 0.0
        if not loss.role.recovery.vital or (loss.returns and _may_return(run, loss)):
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


def _deciding(run: Run) -> list[Replica]:
    roles = run.job.run.success.roles
    return [replica for replica in run.replicas if replica.role.name in roles]


def _decider(run: Run, replica: Replica) -> Decider:
    outcomes: dict[State, Outcome] = {"done": "done", "left": "out"}
    outcome, last = outcomes.get(replica.state, "open"), replica.latest
    restarting = replica.state != "there" and run.record.phase == "Restarting"
    if last is not None and restarting and last.uid in run.record.gang:
        # It succeeded before the restart deleted it, which the watcher had not seen yet.
        in_time = last.phase == "Succeeded" and 0.0 < last.ended_at < last.deletion_requested
        outcome = "done" if in_time and not comes_back(replica.role, "succeeded", last) else "open"
    return Decider(replica.name, replica.number == 0, outcome)


def _sure_at(run: Run) -> float:
    """Return when a failure ends the run: a success of the same moment may not be seen yet."""
    remaining = [
        Decider(r.name, r.number == 0, "out" if r.state in ("lost", "left") else "done")
        for r in _deciding(run)
    ]
    if completion(run.job.run.success, remaining).end != "succeeded":
        return 0.0
    failed = [loss.last for loss in run.in_state("lost") if loss.cause == "failed" and loss.last]
    # A node's clock may be wrong.
    ends = (pod.ended_at for pod in failed if pod.ended_at <= run.now)
    return min(ends, default=0.0) + run.timeouts.race


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


def _waited_too_long(run: Run, again: list[Requeue]) -> End | None:
    """Return the end of a run whose Pods wait too long to start (reference/dlrover.md 4.3).

    Not if a gang scheduler makes them wait, however long its queue is.
    """
    ranked = {role.name for role in run.job.roles if role.recovery.relaunch}
    for replica in run.in_state("there") if ranked and run.view.settings.gang == "none" else ():
        role, pod, rules = replica.role, replica.pod, replica.role.recovery.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is None or pod.phase != "Pending" or pod.deleting:
            continue
        due = pod.created + rules.pending
        running = sum(r.pod is not None and r.pod.ready for r in run.replicas if r.role is role)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if run.now < due:
            again.append(Requeue(due))
        elif rules.tolerance == "any" or running < least:
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            return End("PendingTimeout", f"{message}; {running} of them are ready")
    return None


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
            if not (pod.ended or pod.ending or ends_itself):
                actions.append(PatchPod("end", pod.name, pod.uid, "RunIsOver"))
        elif policy.clean_pods == "All" or not pod.ended:
            actions.append(DeletePod(pod.name, pod.uid, "RunIsOver"))
    return run.adding(actions)
