"""Report what would keep a gang from starting, or would be ignored, before it is applied.

These rules hold for every scheduler (reference/gang-scheduling.md 10); rules of one scheduler are
in its module. They check the written objects, overlays included; a diagnostic points to the Pod
template. The MPI Operator replaces the scheduler of a template, the Training Operator preserves it
and emits a Warning event (reference/training-operator.md 2.5, reference/mpi-operator-v2.md 3.8);
here a diagnostic takes its place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.backend.gang.group import Group, place_of, pod_specs
from etcompile.backend.gang.scheduler import Scheduler
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.diagnostics.message_text import WIDEST, excerpts
from etcompile.k8s import requests
from etcompile.k8s.names import is_label, is_subdomain
from etcompile.k8s.objects import wave
from etcompile.k8s.path import containers_of, dotted
from etcompile.model import Job
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.schedulers import QUEUE_ANNOTATIONS, QUEUE_LABELS, SCHEDULER_NAMES

_DEFAULT = "default-scheduler"
_NO_CLASS = "none"
_NEEDED = ("cpu", "memory")
"""Resources that every container should request; schedulers miscount Pods without them."""
_QUEUES = {*QUEUE_LABELS, *QUEUE_ANNOTATIONS}
"""Keys that another rule checks."""
_SHAPING = ("nodeSelector", "affinity", "tolerations", "runtimeClassName", "overhead")
_TITLES = {
    "minimum": "minimum",
    "queue": "queue",
    "priority_class": "priority class",
    "min_resources": "minResources",
    "timeout": "timeout",
    "topology": "network topology",
    "topology_label": "topology",
    "on_timeout": "on-timeout",
    "queue_priority": "queue-priority",
    "extra_queue_priority": "extra-queue-priority",
}


def unused_without_scheduler(job: Job) -> list[Diagnostic]:
    origin = next(iter(job.gang.origins.values()))
    path = origin.path
    if path[-2:-1] == ("annotations",):
        where = f"annotation {path[-1]}"
    elif path[0] == "spec":
        path = path[:-1]
        where = dotted(path)
    else:
        where = dotted(path[1:])  # in the runtime of a TrainJob, whose file the place names
    advice = "choose the cluster's with the setting gang, or in an overlay"
    reason = "no gang scheduler is chosen"
    place = origin.source.locate(path, key=True)
    facts = {"where": where, "reason": reason, "advice": advice}
    return [diagnose(codes.NO_EFFECT, place, **facts)]


def check(group: Group, scheduler: Scheduler) -> list[Diagnostic]:
    rules = OF_JOB if group.job.run.suspended else (*OF_JOB, *OF_PODS)
    problems = [problem for rule in rules for problem in rule(group, scheduler)]
    return problems if group.job.run.suspended else [*problems, *scheduler.problems(group)]


# What the job says of its gang -------------------------------------------------------------------


def unused_fields(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    for field, origin in group.intent.origins.items():
        if reason := scheduler.unused.get(field):
            facts = {"field": _TITLES[field], "scheduler": scheduler.title, "reason": reason}
            yield diagnose(codes.GANG_FIELD, origin.locate(), **facts)


def malformed_names(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    form, words = scheduler.queue_form
    intent = group.intent
    domain, of_class = "a DNS subdomain", "priority_class"
    names = (
        ("gang", group.name, is_label, "a DNS label of at most 63 characters", None),
        ("queue", group.queue, form, words, None),
        ("priority class", intent.priority_class, is_subdomain, domain, of_class),
        ("priority", intent.queue_priority, is_label, "a DNS label", "queue_priority"),
        ("priority", intent.extra_queue_priority, is_label, "a DNS label", "extra_queue_priority"),
    )
    for what, name, fits, expected, setting in names:
        if name is not None and not fits(name):
            facts = {"what": what, "name": name, "expected": expected}
            place = _place(group, setting)
            if what == "queue" and group.claims:
                place = group.claims[0].origin.locate()
            yield diagnose(codes.GANG_NAME, place, **facts, scheduler=scheduler.title)


def ignored_queues(group: Group, _scheduler: Scheduler) -> Iterator[Diagnostic]:
    """Warn of each place that names another queue than the effective one."""
    for claim in group.claims[1:]:
        first = group.claims[0]
        if claim.queue != first.queue:
            facts = {"where": claim.where, "queue": claim.queue}
            facts |= {"used": first.queue, "by": first.where}
            yield diagnose(codes.GANG_QUEUES, claim.origin.locate(), **facts)


# The Pods of the gang ----------------------------------------------------------------------------


def impossible_size(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    place = _place(group, "minimum")
    present = sum(1 for _ in pod_specs(group.objects))
    leading = sum(len(share.role.members) for share in group.shares if share.first)
    minimum = group.intent.minimum
    facts = None
    if minimum is not None and 0 < minimum < leading:
        roles = ", ".join(share.role.name for share in group.shares if share.first)
        facts = f"{minimum} Pods are less than the {leading} of {roles}", "raise it, or remove it"
    size = minimum if minimum is not None and minimum < 1 else group.minimum
    if size < 1:
        facts = f"a gang of {size} Pods is none", "raise it, or remove it"
    elif size > present:
        facts = f"it waits for {size} Pods, and has {present}", "lower it, or add replicas"
    fixed = scheduler.resizes_since is None or group.minor < scheduler.resizes_since
    for share in group.shares if fixed and not facts else ():
        bounds = share.role.bounds
        began = bounds.quorum if bounds else None
        if began is not None and group.intent.minimum is None and len(share.members) < began:
            problem = f"{scheduler.title} cannot make a gang smaller, which began with {began}"
            problem += f" of {share.role.name}"
            change = "lower replicas in the job itself, and give it another etcompile.dev/run"
            facts = problem, change
    if facts:
        yield diagnose(codes.GANG_SIZE, place, problem=facts[0], advice=facts[1])


def replaced_marks(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    reported: set[str] = set()
    for pod, _ in pod_specs(group.objects):
        name = pod["metadata"]["labels"][ROLE_LABEL]
        place = None if name in reported else place_of(group, pod)
        if place is None:
            continue
        reported.add(name)
        role = place.share.role
        membership, template = scheduler.membership(group, place), role.template
        for field, texts, marks in (
            ("labels", template.labels, membership.labels),
            ("annotations", template.annotations, membership.annotations),
        ):
            for key in sorted(marks.keys() & texts.keys() - _QUEUES):
                if texts[key] != marks[key]:
                    at = template.origin.locate("metadata", field, key)
                    what = f"{field.removesuffix('s')} {key}"
                    before, after = excerpts(texts[key], marks[key], WIDEST)
                    facts = {"what": what, "found": before, "role": role.name}
                    yield diagnose(codes.GANG_MARKS_REPLACED, at, **facts, wanted=after)


def missing_requests(group: Group, _scheduler: Scheduler) -> Iterator[Diagnostic]:
    silent: dict[str, list[str]] = {}
    for share in group.shares:
        for _, container in containers_of(share.spec):
            amounts = requests.of_container({"resources": share.spec.get("resources")})
            amounts |= requests.of_container(container)
            for name in _NEEDED:
                if name not in amounts:
                    silent.setdefault(f"{share.role.name}/{container['name']}", []).append(name)
    if silent:
        first = next(iter(silent)).partition("/")[0]
        share = next(candidate for candidate in group.shares if candidate.role.name == first)
        where = ", ".join(f"{name} ({' and '.join(parts)})" for name, parts in silent.items())
        yield diagnose(
            codes.GANG_NO_REQUESTS, share.role.template.origin.locate("spec"), where=where
        )


def unequal_pods(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    if not scheduler.uniform_roles:
        return
    shapes: dict[str, tuple[Any, Any]] = {}
    reported: set[str] = set()
    for pod, spec in pod_specs(group.objects):
        role = pod["metadata"]["labels"][ROLE_LABEL]
        first, expected = shapes.get(role, (None, None))
        if spec is first or role in reported:
            continue
        ports = [container.get("ports") for container in spec["containers"]]
        shape = (requests.requested(spec), ports, *(spec.get(field) for field in _SHAPING))
        if first is None:
            shapes[role] = spec, shape
        elif shape != expected:
            reported.add(role)
            name = pod["metadata"].get("name", role)
            share = group.share(role)
            place = share.role.origin.locate(key=True) if share else None
            yield diagnose(codes.GANG_SHAPES, place, role=role, pod=name)


def pods_in_several_waves(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    """Report Pods that are created only after others run, which in turn wait for them."""
    if scheduler.starts_early:
        return
    waves: dict[int, str] = {}
    for value in group.objects:
        if value["kind"] in ("Pod", "Job"):
            waves.setdefault(wave(value), value["metadata"]["name"])
        elif value["kind"] in ("PodGroup", "Workload"):
            pods = [wave(other) for other in group.objects if other["kind"] == "Pod"]
            if pods and wave(value) > min(pods):
                waves.setdefault(wave(value), f"{value['kind']} {value['metadata']['name']}")
    if len(waves) > 1:
        which = " and ".join(f"{name} in wave {number}" for number, name in sorted(waves.items()))
        yield diagnose(codes.GANG_WAVES, _place(group, None), objects=which)


def leader_beyond_minimum(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    """Report a leading Pod that is beyond the minimum if Pods count in the order of their names."""
    if scheduler.roles:
        return
    named = []
    for value in group.objects:
        for pod, _ in pod_specs([value]):
            place = place_of(group, pod)
            named.append((value["metadata"]["name"], bool(place and place.leads)))
    first_ones = sorted(named)[: group.minimum]
    missing = [name for name, leads in named if leads and (name, leads) not in first_ones]
    if missing and 0 < group.minimum < len(named):
        facts = {"scheduler": scheduler.title, "count": group.minimum, "pod": missing[0]}
        first = ", ".join(name for name, _ in first_ones[:3])
        yield diagnose(codes.GANG_LEADER, _place(group, "minimum"), **facts, first=first)


def _place(group: Group, field: str | None) -> Location:
    origin = group.intent.origins.get(field) if field else None
    return origin.locate() if origin else group.job.origin.locate("metadata", "name")


# One scheduler and one priority ------------------------------------------------------------------


def other_schedulers(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    wanted = group.settings.gang_scheduler or scheduler.scheduler_name
    values = _values(group, "schedulerName", _DEFAULT)
    for share in group.shares:
        template = share.role.template
        name = template.spec.get("schedulerName")
        if name and name != wanted and share.role.name in values.get(str(wanted), ()):
            place = template.origin.locate("spec", "schedulerName")
            facts = {"found": name, "role": share.role.name, "wanted": wanted}
            yield diagnose(codes.GANG_SCHEDULER_REPLACED, place, **facts)
    if len(values) > 1:
        name = next((other for other in values if other != wanted), _DEFAULT)
        place = _place_of_value(group, "schedulerName", name, values[name])
        yield diagnose(codes.GANG_MIXED, place, field="schedulerName", values=_words(values))
        return
    for name, roles in values.items():
        usual = wanted or scheduler.usual_name
        # Kueue admits Pods of any scheduler, but a gang scheduler takes each of them alone.
        is_other = name != usual if usual else name in SCHEDULER_NAMES.values()
        if not is_other:
            continue
        advice = (
            "remove schedulerName, or choose that scheduler with the setting gang instead of Kueue"
        )
        if usual is not None:
            advice = (
                f"remove schedulerName, or set gang-scheduler to {name} if {scheduler.title} has"
                f" that name in your cluster instead of {usual}"
            )
        place = _place_of_value(group, "schedulerName", name, roles)
        facts = {"found": name, "roles": " and ".join(roles), "scheduler": scheduler.title}
        yield diagnose(codes.GANG_OTHER_SCHEDULER, place, **facts, advice=advice)


def different_priorities(group: Group, scheduler: Scheduler) -> Iterator[Diagnostic]:
    """Report different PriorityClasses in one gang; an error only if they block it for ever.

    Volcano and coscheduling order the Pods inside a group by their own priority, and the
    operators create such jobs (reference/gang-scheduling.md 10, E3).
    """
    values = _values(group, "priorityClassName", _NO_CLASS)
    if len(values) <= 1:
        return
    named = next(name for name in values if name != _NO_CLASS)
    place = _place_of_value(group, "priorityClassName", named, values[named])
    words = _words(values)
    if scheduler.one_priority:
        yield diagnose(codes.GANG_MIXED, place, field="priorityClassName", values=words)
    else:
        yield diagnose(codes.GANG_PRIORITIES, place, values=words, scheduler=scheduler.title)


def _words(values: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{value} ({', '.join(roles)})" for value, roles in values.items())


def _values(group: Group, field: str, default: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    seen: set[tuple[int, str]] = set()
    for pod, spec in pod_specs(group.objects):
        role = pod["metadata"]["labels"][ROLE_LABEL]
        # Pods of a role share one PodSpec, unless an overlay patched them.
        if (id(spec), role) not in seen:
            seen.add((id(spec), role))
            roles = values.setdefault(spec.get(field) or default, [])
            if role not in roles:
                roles.append(role)
    return values


def _place_of_value(group: Group, field: str, value: str, roles: Sequence[str]) -> Location:
    templates = [share.role.template for share in group.shares if share.role.name in roles]
    for template in templates:
        if template.spec.get(field) == value:
            return template.origin.locate("spec", field)
    for source in group.changed:
        for pod, spec in pod_specs([source.data]):
            if spec.get(field) == value and pod["metadata"]["labels"][ROLE_LABEL] in roles:
                below = ("template", "spec") if source.data["kind"] == "Job" else ()
                return source.locate(("spec", *below, field))
    if templates:
        return templates[0].origin.locate()
    return group.job.origin.locate("metadata", "name")


Rule = Callable[[Group, Scheduler], Iterator[Diagnostic]]

OF_JOB: tuple[Rule, ...] = (unused_fields, malformed_names, ignored_queues)
OF_PODS: tuple[Rule, ...] = (
    impossible_size,
    other_schedulers,
    different_priorities,
    replaced_marks,
    missing_requests,
    unequal_pods,
    pods_in_several_waves,
    leader_beyond_minimum,
)
"""Rules for a gang whose Pods exist, which those of a suspended job do not."""
