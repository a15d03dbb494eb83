"""The phase of a job from the states of its replicas, by the job's own success rule.

What nobody has written down must be derived: a job that runs without the watcher has a phase, too.
It says what the Pods add up to, not what somebody might still do about it: a replica that failed
stays failed until somebody replaces its Pod.
"""

from collections.abc import Sequence

from etcompile.model import Job
from etcompile.model.completion import Decider, Outcome, completion, named
from etcompile.status.pod_problems import ALIVE
from etcompile.status.values import Phase, Replica


def derived(job: Job, replicas: Sequence[Replica]) -> tuple[Phase, str]:
    """The phase, and what it follows from.

    Args:
        job: The job as it is declared.
        replicas: All its replicas, those that are missing included.
    """
    deciding = [replica for replica in replicas if replica.role in job.run.success.roles]
    ends = completion(job.run.success, [_decider(replica) for replica in deciding])
    if ends.end == "succeeded":
        return "Succeeded", ends.why
    if job.run.suspended:
        return "Suspended", "suspended by its spec"
    if ends.end == "hopeless":
        return "Failed", f"{named(ends.names)} failed"
    if why := _too_few(job, replicas):
        return "Failed", why
    if at_work := [replica for replica in deciding if replica.state in ALIVE]:
        are = "is" if len(at_work) == 1 else "are"
        return "Running", f"{named([replica.name for replica in at_work])} {are} running"
    if any(replica.state in ALIVE for replica in replicas):
        are = "is" if len(deciding) == 1 else "are"
        return "Starting", f"{named([replica.name for replica in deciding])} {are} not running yet"
    if all(replica.state == "Missing" for replica in replicas):
        return "Pending", "none of its Pods exists"
    return "Pending", "no Pod is running yet"


def _decider(replica: Replica) -> Decider:
    outcomes: dict[str, Outcome] = {"Succeeded": "done", "Failed": "out"}
    return Decider(replica.name, replica.index in (0, None), outcomes.get(replica.state, "open"))


def _too_few(job: Job, replicas: Sequence[Replica]) -> str:
    """Why too few replicas are left to go on; empty if enough are.

    An elastic role goes on with its minimum. In any other, replicas wait for each other in every
    step of the training, so that one that failed holds up all.
    """
    for role in job.roles:
        own = [replica for replica in replicas if replica.role == role.name]
        failed = [replica for replica in own if replica.state == "Failed"]
        needed = role.bounds.minimum if role.bounds else len(own)
        if failed and len(own) - len(failed) < needed:
            return f"{named([replica.name for replica in failed])} failed"
    return ""
