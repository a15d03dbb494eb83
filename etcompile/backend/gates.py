"""Which Pods wait for which: what the gates of a job amount to.

The gate itself is an init container (`pods`) that reads a host list; who asks for the order
without running it, such as a tool or a picture, asks here.
"""

from etcompile.model import Job


def waits(job: Job) -> dict[str, tuple[str, ...]]:
    """The Pods of a job that wait before they start, each with the Pods that it waits for."""
    if job.run.suspended:
        return {}
    return {
        role.pod_name(member): tuple(
            other.pod_name(host)
            for other in job.roles
            if other.name in role.gate.roles
            for host in other.members
        )
        for role in job.roles
        if role.gate
        for member in role.members
    }
