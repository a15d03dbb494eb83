"""How often replicas may fail before the run does: backoffLimit, counted durably.

The Training Operator counts what happens to be running, so that its sum can fall, and never a Pod
that failed as a whole (reference/training-operator.md 5.4; 7, defects 2 and 3).
"""

from collections.abc import Sequence

from etcompile.model import Job, Role
from etcompile.watch.rules.replica_states import Replica, ReplicaStates
from etcompile.watch.state import RunRecord


def counts(role: Role) -> bool:
    """Whether failures of a role's replicas count: not where the first is the last."""
    return role.restart != "Never"


def is_failure(loss: Replica) -> bool:
    """Whether a loss counts: not if its kubelet did not admit the Pod, which never ran."""
    return loss.cause == "failed" and not (loss.last is not None and loss.last.refused)


def is_exceeded(states: ReplicaStates, record: RunRecord, losses: Sequence[Replica]) -> bool:
    """Whether replicas have failed too often.

    Args:
        states: What has become of the replicas.
        record: The run record.
        losses: What they lost just now.
    """
    limit = _limit(states.run_state.job)
    if limit is None:
        return False
    roles = [role.name for role in states.run_state.job.roles if counts(role)]
    new = [one for one in losses if is_failure(one) and counts(one.place.role)]
    failures = sum(record.replaced.get(role, 0) for role in roles)
    failures += min(len(new), 1) if states.run_state.job.run.together else len(new)
    in_place = record.lost_restarts + sum(restarts(one) for one in states.replicas)
    # Restarts in place: as many as the limit, but for a limit of 0 (reference 5.4, a). Pods that
    # failed: more than the limit (b).
    return in_place >= max(limit, 1) or (failures > 0 and in_place + failures > limit)


def is_used_up(job: Job, record: RunRecord) -> bool:
    """Whether the job was restarted as often as it may be.

    Args:
        job: The job.
        record: The run record.
    """
    limit = job.run.backoff_limit
    return limit is not None and record.restarts >= limit


def restarts(replica: Replica) -> int:
    """How often containers of a replica's Pod were started again, as far as that counts now."""
    pod = replica.place.pod
    if pod is None or replica.state in ("restarting", "returning"):
        return 0  # counted when that was decided
    return pod.restarts + pod.init_restarts if counts(replica.place.role) else 0


def _limit(job: Job) -> int | None:
    if job.run.limits != "failures" or any(role.batch for role in job.roles):
        return None  # a Job of Kubernetes has its own
    return job.run.backoff_limit
