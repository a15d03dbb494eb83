"""Whether all Pods of a gang are in the hands of its scheduler, and at one priority.

The Pods are looked at as they are written, overlays included; what is told stands where the Pod
template says it. The MPI Operator replaces the scheduler of a template, the Training Operator
keeps it with a Warning event (reference/training-operator.md 2.5, reference/mpi-operator-v2.md
3.8): there is no operator here that could emit one.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from etcompile.backend.gang.group import Group, pod_specs
from etcompile.backend.gang.scheduler import Scheduler
from etcompile.diagnostics import Diagnostic, Location, Source, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.schedulers import SCHEDULER_NAMES

_DEFAULT = "default-scheduler"
_NO_CLASS = "none"


class Written(Struct, frozen=True):
    """The objects of a job, as they are written.

    Args:
        objects: All of them.
        changed: Those that overlays changed, one for all that are alike but for their metadata.
        scheduler_name: The `schedulerName` that the settings give the gang scheduler, if they do.
    """

    objects: Sequence[Object]
    changed: Sequence[Source] = ()
    scheduler_name: str | None = None


def scheduler_problems(
    group: Group, scheduler: Scheduler, written: Written
) -> Iterator[Diagnostic]:
    """What Pod templates and overlays say of the `schedulerName`, against that of the gang."""
    wanted = written.scheduler_name or scheduler.scheduler_name
    found = _values(written.objects, "schedulerName", _DEFAULT)
    yield from _replaced(group, wanted, found)
    if len(found) > 1:
        name = next((other for other in found if other != wanted), _DEFAULT)
        place = _place(group, written, "schedulerName", name, found[name])
        yield _differing("schedulerName", found, place)
        return
    for name, roles in found.items():
        if _is_strange(name, scheduler, wanted):
            yield diagnose(
                codes.GANG_OTHER_SCHEDULER,
                _place(group, written, "schedulerName", name, roles),
                found=name,
                roles=" and ".join(roles),
                scheduler=scheduler.title,
                advice=_advice(name, scheduler, wanted),
            )


def priority_problems(group: Group, scheduler: Scheduler, written: Written) -> Iterator[Diagnostic]:
    """Different PriorityClasses in one gang: an error only where they make it wait for ever.

    Volcano and coscheduling order the Pods inside a group by their own priority, and the
    operators make such jobs (reference/gang-scheduling.md 10, E3).
    """
    found = _values(written.objects, "priorityClassName", _NO_CLASS)
    if len(found) <= 1:
        return
    named = next(name for name in found if name != _NO_CLASS)
    place = _place(group, written, "priorityClassName", named, found[named])
    if scheduler.one_priority:
        yield _differing("priorityClassName", found, place)
        return
    yield diagnose(codes.GANG_PRIORITIES, place, values=_words(found), scheduler=scheduler.title)


def _replaced(
    group: Group, wanted: str | None, found: dict[str, list[str]]
) -> Iterator[Diagnostic]:
    for share in group.shares:
        template = share.role.template
        written = template.spec.get("schedulerName")
        if written and written != wanted and share.role.name in found.get(str(wanted), ()):
            place = template.origin.locate("spec", "schedulerName")
            facts = {"found": written, "role": share.role.name, "wanted": wanted}
            yield diagnose(codes.GANG_SCHEDULER_REPLACED, place, **facts)


def _is_strange(name: str, scheduler: Scheduler, wanted: str | None) -> bool:
    """Whether Pods with this `schedulerName` are not the scheduler's."""
    usual = wanted or scheduler.usual_name
    # Kueue admits Pods of any scheduler; but a gang scheduler takes each of them on its own.
    return name != usual if usual else name in SCHEDULER_NAMES.values()


def _advice(name: str, scheduler: Scheduler, wanted: str | None) -> str:
    usual = wanted or scheduler.usual_name
    if usual is None:
        return "remove schedulerName, or choose that scheduler with --gang instead of Kueue"
    return (
        f"remove schedulerName, or set gang-scheduler to {name} if {scheduler.title} has that"
        f" name in your cluster instead of {usual}"
    )


def _differing(field: str, found: dict[str, list[str]], place: Location) -> Diagnostic:
    return diagnose(codes.GANG_MIXED, place, field=field, values=_words(found))


def _words(found: dict[str, list[str]]) -> str:
    return " and ".join(f"{value} ({', '.join(roles)})" for value, roles in found.items())


def _values(objects: Sequence[Object], field: str, default: str) -> dict[str, list[str]]:
    """The values of a field of the Pods, each with the roles that have it."""
    found: dict[str, list[str]] = {}
    seen: set[tuple[int, str]] = set()
    for pod, spec in pod_specs(objects):
        role = pod["metadata"]["labels"][ROLE_LABEL]
        # Pods of a role share one PodSpec, unless an overlay patched them.
        if (id(spec), role) not in seen:
            seen.add((id(spec), role))
            roles = found.setdefault(spec.get(field) or default, [])
            if role not in roles:
                roles.append(role)
    return found


def _place(
    group: Group, written: Written, field: str, value: str, roles: Sequence[str]
) -> Location:
    """Where the Pods of roles get the value of a field: in a template, or else an overlay."""
    templates = [share.role.template for share in group.shares if share.role.name in roles]
    for template in templates:
        if template.spec.get(field) == value:
            return template.origin.locate("spec", field)
    for source in written.changed:
        for pod, spec in pod_specs([source.data]):
            if spec.get(field) == value and pod["metadata"]["labels"][ROLE_LABEL] in roles:
                below = ("template", "spec") if source.data["kind"] == "Job" else ()
                return source.locate(("spec", *below, field))
    if templates:
        return templates[0].origin.locate()
    return group.job.origin.locate("metadata", "name")
