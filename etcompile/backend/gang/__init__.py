"""Gang schedulers, which start all Pods that a job needs, or none: a module each.

A scheduler is a `SCHEDULER` in a module of this package and its name in
`etcompile.model.settings.GANGS`, nothing else. What it needs to know of a job is in `group`, what
makes Pods its own in `marking`, what would make it wait for ever in `rules`; without a scheduler
none of them is imported.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.k8s.objects import Object
from etcompile.model import Job, Role, Settings
from etcompile.model.schedulers import names_queue, scheduler_keys

if TYPE_CHECKING:
    from etcompile.backend.gang.scheduler import Scheduler

__all__ = ["ganged", "members", "needs", "problems", "scheduler_of", "suited"]


def scheduler_of(name: str) -> "Scheduler":
    """The scheduler that a setting names."""
    found: Scheduler = import_module(f"{__name__}.{name}").SCHEDULER
    return found


def suited(job: Job, settings: Settings) -> Job:
    """The job as its scheduler can have it: without Jobs, where it takes Pods only."""
    if settings.gang == "none" or not scheduler_of(settings.gang).plain_pods:
        return job
    return structs.replace(job, roles=tuple(map(_plain, job.roles)))


def _plain(role: Role) -> Role:
    """A role whose Pods are made by no Job."""
    if role.batch is None:
        return role
    recovery = structs.replace(role.recovery, deadline=role.batch.deadline)
    return structs.replace(role, batch=None, recovery=recovery)


def ganged(job: Job, settings: Settings, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a job with those that describe its gang, and its Pods as members of it."""
    if settings.gang == "none":
        return list(objects)
    from etcompile.backend.gang.marking import Marks  # noqa: PLC0415 - only a gang needs it

    scheduler = scheduler_of(settings.gang)
    marks = Marks(job, settings, scheduler, objects)
    made = [] if job.run.suspended else scheduler.objects(marks.group)
    return [*made, *map(marks.on, objects)]


def members(
    job: Job, settings: Settings, pods: Sequence[Object], samples: Sequence[Object]
) -> list[dict[str, Any]]:
    """Some Pods of a job as members of its gang, as `ganged` has them among all its objects.

    Args:
        job: The job, as the run that it is.
        settings: How it is compiled, with a scheduler.
        pods: The Pods, or Jobs that make them.
        samples: A Pod of each role and of each size: what the gang asks for depends on all.
    """
    from etcompile.backend.gang.marking import Marks  # noqa: PLC0415 - only a gang needs it

    marks = Marks(job, settings, scheduler_of(settings.gang), [*samples, *pods])
    return [marks.on(value) for value in pods]


def problems(
    job: Job,
    settings: Settings,
    objects: Sequence[Object],
    wave: Callable[[Object], int],
    changed: Sequence[Source] = (),
) -> list[Diagnostic]:
    """What would keep a gang from starting, or be ignored."""
    found = _unread(job, settings, objects, changed)
    if settings.gang == "none" and not job.gang.origins:
        return found
    from etcompile.backend.gang import assignment, group, rules  # noqa: PLC0415 - only a gang needs them

    if settings.gang == "none":
        return [*found, *rules.unused_without_scheduler(job)]
    chosen = scheduler_of(settings.gang)
    gang = group.group_of(job, settings, objects, chosen.default_queue)
    written = assignment.Written(objects, changed, settings.gang_scheduler)
    return [*found, *rules.check(gang, chosen, written, wave)]


def _unread(
    job: Job, settings: Settings, objects: Sequence[Object], changed: Sequence[Source]
) -> list[Diagnostic]:
    """What other schedulers than the chosen one would have to read."""
    of_job = any(scheduler_keys(job.gang.labels)) or any(scheduler_keys(job.gang.annotations))
    templates = (role.template for role in job.roles)
    # Of thousands of Pods, only those that an overlay changed have other keys than their template.
    if (
        not of_job
        and not changed
        and not any(names_queue(t.labels, t.annotations) for t in templates)
    ):
        return []
    from etcompile.backend.gang import keys  # noqa: PLC0415 - only such a job needs it

    def title(name: str) -> str:
        return scheduler_of(name).title

    reads = scheduler_of(settings.gang).reads_job if settings.gang != "none" else None
    return [
        *keys.unread_of_pods(job, settings, title, objects, changed),
        *keys.unread_of_job(job, settings, title, reads),
    ]


def needs(job: Job, settings: Settings, objects: Sequence[Object]) -> tuple[str, ...]:
    """What must be in the cluster for a job's gang, which nobody can see from here."""
    if settings.gang == "none":
        return ()
    from etcompile.backend.gang import group  # noqa: PLC0415 - only a gang needs it

    chosen = scheduler_of(settings.gang)
    found = group.group_of(job, settings, objects, chosen.default_queue)
    name = settings.gang_scheduler or chosen.scheduler_name
    called = f" with schedulerName {name}" if name else ""
    named = (found.priority_class, *(share.spec.get("priorityClassName") for share in found.shares))
    classes = [
        f"PriorityClass {priority_class}"
        for priority_class in dict.fromkeys(named)
        if priority_class
    ]
    return (f"{chosen.title}{called}", *chosen.needs(found), *classes)
