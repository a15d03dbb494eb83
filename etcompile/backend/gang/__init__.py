"""Gang schedulers, which start all Pods that a job needs, or none: a module each.

A scheduler is a `SCHEDULER` in a module of this package and its name in
`etcompile.model.settings.GANGS`, nothing else. What it needs to know of a job is in `group`, what
makes Pods its own in `marking`, what would make it wait for ever in `rules`; without a scheduler
none of them is imported.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic
from etcompile.model import KUEUE_QUEUE, Job, Settings

if TYPE_CHECKING:
    from etcompile.backend.gang.scheduler import Scheduler

__all__ = ["ganged", "needs", "problems", "scheduler_of", "suited"]

Object = Mapping[str, Any]


def scheduler_of(name: str) -> "Scheduler":
    """The scheduler that a setting names."""
    found: Scheduler = import_module(f"{__name__}.{name}").SCHEDULER
    return found


def suited(job: Job, settings: Settings) -> Job:
    """The job as its scheduler can have it: without Jobs, where it takes Pods only."""
    if settings.gang == "none" or not scheduler_of(settings.gang).plain_pods:
        return job
    roles = tuple(
        structs.replace(role, batch=None, deadline=role.batch.deadline) if role.batch else role
        for role in job.roles
    )
    return structs.replace(job, roles=roles)


def ganged(job: Job, settings: Settings, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a job with those that describe its gang, and its Pods as members of it.

    Args:
        job: The job, as the run that it is.
        settings: How it is compiled.
        objects: Its objects.
    """
    if settings.gang == "none":
        return list(objects)
    from etcompile.backend.gang import marking  # noqa: PLC0415 - only a gang needs it

    return marking.marked(job, settings, scheduler_of(settings.gang), objects)


def problems(
    job: Job, settings: Settings, objects: Sequence[Object], wave: Callable[[Object], int]
) -> list[Diagnostic]:
    """What would keep a gang from starting, or be ignored.

    Args:
        job: The job, as the run that it is.
        settings: How it is compiled.
        objects: Its objects, as they are written.
        wave: The wave of an object (`etcompile.emit.wave`).
    """
    queued = settings.gang != "kueue" and any(
        KUEUE_QUEUE in value["metadata"].get("labels", ())
        for value in objects
        if value["kind"] == "Pod"
    )
    if settings.gang == "none" and not job.gang.origins and not queued:
        return []
    from etcompile.backend.gang import group, rules  # noqa: PLC0415 - only a gang needs them

    found = rules.queued_alone(job, objects) if queued else []
    if settings.gang == "none":
        return [*found, *(rules.unused_without_scheduler(job) if job.gang.origins else ())]
    chosen = scheduler_of(settings.gang)
    gang = group.group_of(job, settings, objects, chosen.default_queue)
    return [*found, *rules.check(gang, chosen, objects, wave)]


def needs(job: Job, settings: Settings, objects: Sequence[Object]) -> tuple[str, ...]:
    """What must be in the cluster for a job's gang, which nobody can see from here.

    Args:
        job: The job, as the run that it is.
        settings: How it is compiled.
        objects: Its objects.
    """
    if settings.gang == "none":
        return ()
    from etcompile.backend.gang import group  # noqa: PLC0415 - only a gang needs it

    chosen = scheduler_of(settings.gang)
    found = group.group_of(job, settings, objects, chosen.default_queue)
    name = settings.gang_scheduler or chosen.scheduler_name
    called = f" with schedulerName {name}" if name else ""
    classes = [f"PriorityClass {one}" for one in [found.priority_class] if one]
    return (f"{chosen.title}{called}", *chosen.needs(found), *classes)
