"""How the supervisors of a job that restarts in place are called (`templates/supervise.py`).

This is in the model because the options are part of the Pods, and so of the run's identity.
"""

from collections.abc import Iterator

from etcompile.model.job import InPlace, Job, Role

SUPERVISOR_PORT = "etcompile.dev/supervisor-port"
"""Annotation of a job: the port on which its supervisors talk to each other."""

_JOB_BACKOFF_LIMIT = 6
"""What Kubernetes assumes for a Job that does not say."""
_GRACE_PERIOD = 30
"""What Kubernetes assumes for a Pod that does not say, in seconds."""


def is_supervised(job: Job, role: Role) -> bool:
    """Whether the commands of a role run again in their containers."""
    return job.run.in_place is not None and role.name in job.run.in_place.roles


def options(job: Job, role: Role) -> tuple[str, ...]:
    """The options of the supervisors of a role; none if they are not supervised.

    Args:
        job: The job, which says how it restarts in place.
        role: One of its roles.
    """
    in_place = job.run.in_place
    if in_place is None or role.name not in in_place.roles:
        return ()
    return (*_gang(job, in_place), *_own(job, in_place, role))


def _gang(job: Job, in_place: InPlace) -> Iterator[str]:
    """Who restarts together, and who of them coordinates: the first that does not only serve."""
    roles = [role for role in job.roles if is_supervised(job, role) and role.members]
    if in_place.mode == "each" or not roles:
        return
    first = next((role for role in roles if not role.recovery.serves), roles[0])
    # By this name its own peers find it, too.
    searched = job.service is None or job.service.searched
    domain = "" if searched or job.service is None else f".{job.service.name}"
    yield "--gang=" + ",".join(f"{role.name}:{len(role.members)}" for role in roles)
    yield f"--coordinator={first.host_name(first.members[0])}{domain}"
    yield f"--first={first.name}-{first.members[0].index}"


def _own(job: Job, in_place: InPlace, role: Role) -> Iterator[str]:
    yield f"--port={in_place.port}"
    yield f"--stop={in_place.stop}"
    if (limit := _backoff_limit(job, in_place, role)) is not None:
        yield f"--backoff-limit={limit}"
    if role.recovery.serves:
        yield "--serves"
    if role.recovery.permanent:
        yield f"--permanent={role.recovery.permanent}"
    if in_place.checkpoint_signal:
        yield f"--checkpoint-signal={in_place.checkpoint_signal}"
        yield f"--warn={_warning(job)}"


def _backoff_limit(job: Job, in_place: InPlace, role: Role) -> int | None:
    """How many restarts the policy of the job allows; None for any number."""
    limit = job.run.backoff_limit
    if role.batch is not None:
        own = role.batch.backoff_limit
        return _JOB_BACKOFF_LIMIT if own is None else own
    if role.recovery.failures is None:
        return limit
    if in_place.mode == "each":
        return role.recovery.failures
    # An attempt survives so many failures; one more ends it, and the next attempt begins.
    return (role.recovery.failures + 1) * ((limit or 0) + 1) - 1


def _warning(job: Job) -> int:
    """Seconds for which a command that the kubelet stops has the checkpoint signal alone.

    Half of what the first of the Pods to end has (`terminationGracePeriodSeconds`).
    """
    specs = (role.template.spec for role in job.roles if is_supervised(job, role))
    graces = [spec.get("terminationGracePeriodSeconds") for spec in specs]
    return min(_GRACE_PERIOD if grace is None else int(grace) for grace in graces) // 2
