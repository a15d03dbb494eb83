"""The phase of a job from the states of its replicas, by the job's own success rule.

What nobody has written down must be derived: a job that runs without the watcher has a phase, too.
It says what the Pods add up to, not what somebody might still do about it: a replica that failed
stays failed until somebody replaces its Pod.
"""

from collections.abc import Sequence

from etcompile.cluster.trouble import ALIVE
from etcompile.model import Job, Role
from etcompile.status.values import Phase, Replica


def derived(job: Job, replicas: Sequence[Replica]) -> tuple[Phase, str]:
    """The phase, and what it follows from.

    Args:
        job: The job.
        replicas: All its replicas, those that are missing included.
    """
    deciding = [one for one in replicas if one.role in job.run.success.roles]
    if why := _success(job, deciding):
        return "Succeeded", why
    if job.run.suspended:
        return "Suspended", "its spec suspends it"
    if why := _failure(job, deciding) or _too_few(job, replicas):
        return "Failed", why
    if at_work := [one for one in deciding if one.state in ALIVE]:
        return "Running", f"{_names(at_work)} {'runs' if len(at_work) == 1 else 'run'}"
    if any(one.state in ALIVE for one in replicas):
        waits = "does" if len(deciding) == 1 else "do"
        return "Starting", f"{_names(deciding)} {waits} not run yet"
    if all(one.state == "Missing" for one in replicas):
        return "Pending", "none of its Pods exists"
    return "Pending", "no Pod runs yet"


def _success(job: Job, deciding: Sequence[Replica]) -> str:
    """Why the job has succeeded; empty if it has not."""
    done = [one for one in deciding if one.state == "Succeeded"]
    if not done:
        return ""
    if len(done) == len(deciding) or (job.run.success.needs == "any"):
        return f"{_names(done)} succeeded"
    if job.run.success.needs == "first" and (first := [one for one in done if _is_first(one)]):
        return f"{_names(first)} succeeded"
    return ""


def _failure(job: Job, deciding: Sequence[Replica]) -> str:
    """Why the job cannot succeed any more by its own rule; empty if it can."""
    failed = [one for one in deciding if one.state == "Failed"]
    if not failed or (job.run.success.needs == "any" and len(failed) < len(deciding)):
        return ""
    if job.run.success.needs == "first":
        failed = [one for one in failed if _is_first(one)]
    return f"{_names(failed)} failed" if failed else ""


def _too_few(job: Job, replicas: Sequence[Replica]) -> str:
    """Why too few replicas are left to go on; empty if enough are.

    An elastic role goes on with its minimum. In any other, replicas wait for each other in every
    step of the training, so that one that failed holds up all.
    """
    for role in job.roles:
        own = [one for one in replicas if one.role == role.name]
        failed = [one for one in own if one.state == "Failed"]
        if failed and len(own) - len(failed) < _needed(role, len(own)):
            return f"{_names(failed)} failed"
    return ""


def _needed(role: Role, desired: int) -> int:
    return role.bounds.minimum if role.bounds else desired


def _is_first(replica: Replica) -> bool:
    return replica.index in (0, None)


def _names(replicas: Sequence[Replica]) -> str:
    if len(replicas) > 2:
        return f"{replicas[0].name} and {len(replicas) - 1} more"
    return " and ".join(one.name for one in replicas)
