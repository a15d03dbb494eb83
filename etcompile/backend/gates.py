"""Which Pods wait for which: what the gates of a job amount to.

The gate itself is an init container (`pods`) that reads a host list; who asks for the order
without running it, such as a tool or a picture, asks here.
"""

from etcompile.launch.commands import discovers_hosts, launch_program
from etcompile.model import Job, Role, Settings


def waits(job: Job) -> dict[str, tuple[str, ...]]:
    """The Pods of a job that wait before they start, each with the Pods that it waits for."""
    if job.run.suspended:
        return {}
    return {
        role.pod_name(member): tuple(
            other.pod_name(host)
            for other in job.roles
            if other.name in role.additions.gate.awaited
            for host in other.members
        )
        for role in job.roles
        if role.additions.gate
        for member in role.members
    }


def deciding(job: Job) -> tuple[tuple[str, ...], ...]:
    """Whose success is the run's: sets of Pod names, of which all in any one must succeed."""
    if job.run.suspended:
        return ()
    success = job.run.success
    roles = [role for role in job.roles if role.name in success.roles]
    names = tuple(role.pod_name(member) for role in roles for member in role.members)
    if success.needs == "any":
        return tuple((name,) for name in names)
    if success.needs == "first":
        # Names of unnumbered and first replicas; where there are none, all decide.
        first = tuple(
            role.pod_name(member)
            for role in roles
            for member in role.members
            if member.index in (0, None)
        )[:1]
        return tuple(dict.fromkeys(watched for watched in (first, names) if watched))
    return (names,) if names else ()


def enough(job: Job, role: Role, settings: Settings) -> tuple[str, int] | None:
    """With whom a gate lets its container begin, though others are missing.

    Only with a gang scheduler, which starts others when there is room, and only where a live list
    tells the launcher who is there: its seed names all.

    Returns:
        The live list's path and how many hosts in it will do; None if all must be there.
    """
    scaled, main = job.scaled_role, role.template.main_container
    if (
        settings.gang == "none"
        or scaled is None
        or not role.additions.gate
        or not role.additions.reads_hosts
    ):
        return None
    if scaled.name not in role.additions.gate.roles or not (
        discovers_hosts(main) or launch_program(main) is None
    ):
        return None
    live = next((file.values["live"] for file in job.files if "live" in file.values), None)
    return (str(live), max(scaled.quorum, 1)) if live else None
