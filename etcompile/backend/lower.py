"""All objects of a job, or the Pods of some of its replicas as they are among these.

The one place that knows which modules make up a job; each of them can be read alone.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from etcompile.backend import access, claims, config, custom, gang, pods, secrets, services
from etcompile.backend.texts import Texts
from etcompile.model import Job, Member, Role, Settings


def lower(job: Job, settings: Settings, texts: Texts, stored: str) -> tuple[dict[str, Any], ...]:
    """The Kubernetes objects of a job.

    Returns:
        The objects, in no particular order (`etcompile.emit` gives them one).

    Raises:
        TemplateError: a template that the user gave does not render.
    """
    job, sources = _resolved(job, settings)
    objects = [
        *sources,
        *access.objects(job),
        config.config_map(job, settings, texts, stored),
    ]
    objects += claims.objects(job)
    if not job.run.suspended:
        objects += custom.objects(job)
    if not job.run.suspended or job.service:
        objects += services.objects(job, settings)
    for role in job.roles:
        if not job.run.suspended or role.batch:
            objects += pods.objects(job, role, settings)
    return tuple(gang.ganged(job, settings, objects))


def lower_pods(
    job: Job, name: str, members: Sequence[Member], settings: Settings
) -> tuple[dict[str, Any], ...]:
    """The Pods of some replicas, as `lower` makes them: one of a thousand costs what one costs.

    Args:
        job: The job, after its intents.
        name: The name of a role that the job has.
        members: Replicas of that role, in the order in which their Pods are wanted; one that the
            job does not have takes the place of the one whose place it has.
        settings: How to compile the job.
    """
    job, _ = _resolved(job, settings)
    role = next(candidate for candidate in job.roles if candidate.name == name)
    made = pods.objects(job, structs.replace(role, members=tuple(members)), settings)
    if settings.gang == "none":
        return tuple(made)
    taken = {member.place: member for member in members}
    present = tuple(taken.get(member.place, member) for member in role.members)
    roles = (
        structs.replace(other, members=present) if other is role else other for other in job.roles
    )
    samples = [
        value
        for sampled in job.roles
        for value in pods.objects(
            job, structs.replace(sampled, members=_of_each_size(sampled)), settings
        )
    ]
    job = structs.replace(job, roles=tuple(roles))
    return tuple(gang.members(job, settings, made, samples))


def _resolved(job: Job, settings: Settings) -> tuple[Job, list[dict[str, Any]]]:
    """The job as its Pods are made of it, and the objects that its key pair comes from."""
    return secrets.resolve(gang.suited(job, settings), settings.secret)


def _of_each_size(role: Role) -> tuple[Member, ...]:
    """A replica of each size that there is in a role: the first one of it."""
    sizes: dict[tuple[tuple[str, str], ...], Member] = {}
    for member in role.members:
        sizes.setdefault(tuple(sorted(member.resources.items())), member)
    return tuple(sizes.values())


def namespace_reason(job: Job, settings: Settings) -> str | None:
    """Why the job's namespace must be known to compile it; None if it need not be."""
    if job.access is not None and job.access.rules:
        return "the subject of its RoleBinding must name one"
    if job.names_namespace:
        return job.names_namespace
    searched = job.has_bare_names
    if searched and job.is_behind_one_service(settings.services):
        return "the DNS search domain of shared Services must name one"
    if "kpt" in settings.profiles and any(role.additions.gate for role in job.roles):
        return "kpt's depends-on must name one"
    return secrets.namespace_reason(job, settings.secret)
