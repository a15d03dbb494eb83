"""Add gang schedulers, which start all Pods that a job needs, or none.

A scheduler is a row of `etcompile.model.schedulers` and an entry of `SCHEDULERS` in a module of
this package. `group` describes a job's gang, `scheduler` marks its Pods as members, `gang_checks`
reports what would make it wait for ever. Without a scheduler none of them is imported.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.k8s.objects import Object
from etcompile.model import Job, Settings
from etcompile.model.schedulers import names_queue, scheduler_keys

if TYPE_CHECKING:
    from etcompile.backend.gang.scheduler import Scheduler

__all__ = ["ganged", "members", "needs", "problems", "scheduler_of", "suited"]


_MODULES = {"coscheduling": "podgroups", "koordinator": "podgroups", "volcano": "podgroups"}
"""Schedulers whose module has another name."""


def scheduler_of(name: str) -> "Scheduler":
    module = import_module(f"{__name__}.{_MODULES.get(name, name)}")
    schedulers: Mapping[str, Scheduler] = module.SCHEDULERS
    return schedulers[name]


def suited(job: Job, settings: Settings) -> Job:
    """Return the job in a form that its scheduler supports: without Jobs if it groups Pods only."""
    if settings.gang == "none" or not scheduler_of(settings.gang).plain_pods:
        return job
    roles = []
    for role in job.roles:
        if role.batch is not None:
            recovery = structs.replace(role.recovery, deadline=role.batch.deadline)
            role = structs.replace(role, batch=None, recovery=recovery)  # noqa: PLW2901
        roles.append(role)
    return structs.replace(job, roles=tuple(roles))


def ganged(job: Job, settings: Settings, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if settings.gang == "none":
        return list(objects)
    from etcompile.backend.gang.scheduler import Marks  # noqa: PLC0415 - only a gang needs it

    scheduler = scheduler_of(settings.gang)
    marks = Marks(job, settings, scheduler, objects)
    gang = [] if job.run.suspended else scheduler.objects(marks.group)
    return [*gang, *map(marks.on, objects)]


def members(
    job: Job, settings: Settings, pods: Sequence[Object], samples: Sequence[Object]
) -> list[dict[str, Any]]:
    """Mark some Pods of a job as members of its gang, as `ganged` does among all its objects.

    Args:
        samples: A Pod of each role and size: together they determine what the gang requests.
    """
    from etcompile.backend.gang.scheduler import Marks  # noqa: PLC0415 - only a gang needs it

    marks = Marks(job, settings, scheduler_of(settings.gang), [*samples, *pods])
    return [marks.on(value) for value in pods]


def problems(
    job: Job,
    settings: Settings,
    objects: Sequence[Object],
    changed: Sequence[Source] = (),
) -> list[Diagnostic]:
    # Only Pods that an overlay changed can have other keys than their template.
    of_job = any(scheduler_keys(job.gang.labels)) or any(scheduler_keys(job.gang.annotations))
    templates = [role.template for role in job.roles]
    unread: list[Diagnostic] = []
    if of_job or changed or any(names_queue(pod.labels, pod.annotations) for pod in templates):
        from etcompile.backend.gang import unread_keys  # noqa: PLC0415 - only such a job needs it

        unread += unread_keys.unread_of_pods(job, settings, objects, changed)
        unread += unread_keys.unread_of_job(job, settings)
        unread += unread_keys.misplaced(job)
    if settings.gang == "none" and not job.gang.origins:
        return unread
    from etcompile.backend.gang import gang_checks, group  # noqa: PLC0415 - only a gang needs them

    if settings.gang == "none":
        return [*unread, *gang_checks.unused_without_scheduler(job)]
    chosen = scheduler_of(settings.gang)
    gang = group.group_of(job, settings, objects, chosen.default_queue, changed)
    return [*unread, *gang_checks.check(gang, chosen)]


def needs(job: Job, settings: Settings, objects: Sequence[Object]) -> tuple[str, ...]:
    if settings.gang == "none":
        return ()
    from etcompile.backend.gang import group  # noqa: PLC0415 - only a gang needs it

    chosen = scheduler_of(settings.gang)
    gang = group.group_of(job, settings, objects, chosen.default_queue)
    name = settings.gang_scheduler or chosen.scheduler_name
    called = f" with schedulerName {name}" if name else ""
    named = (gang.priority_class, *(share.spec.get("priorityClassName") for share in gang.shares))
    classes = [f"PriorityClass {priority}" for priority in dict.fromkeys(named) if priority]
    return (f"{chosen.title}{called}", *chosen.needs(gang), *classes)
