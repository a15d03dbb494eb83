"""Volcano: a PodGroup with a minimum for each role (reference/gang-scheduling.md 2)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.backend.gang.group import Group, Place
from etcompile.backend.gang.podgroup import group_metadata, pod_group
from etcompile.backend.gang.scheduler import NOT_QUEUED, Membership, Scheduler
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.model.schedulers import SCHEDULER_NAMES

_API = "scheduling.volcano.sh/v1beta1"
_GROUP = "scheduling.k8s.io/group-name"
"""The only key by which the scheduler knows a member."""
_WAITING = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""How long a gang may wait: the annotation, and its older name, which counts after it."""
_PRIORITY = "volcano.sh/task-priority"
_FIRST, _CORE, _EXTRA = "100", "10", "1"


def _membership(group: Group, place: Place) -> Membership:
    marks = {_GROUP: group.name, "volcano.sh/task-spec": place.share.role.name}
    own = place.share.role.template.annotations
    # It counts before the priority of the Pod, by which Volcano orders Pods of several classes.
    if _PRIORITY not in own and not group.mixed:
        # Who is taken first, and whom preemption takes last.
        marks[_PRIORITY] = _FIRST if place.leads else _CORE if place.core else _EXTRA
    return Membership(annotations=marks)


def _objects(group: Group) -> list[dict[str, Any]]:
    minima = {share.role.name: share.minimum for share in group.shares if share.minimum}
    timeout, topology = group.asked.timeout, group.asked.topology
    waiting = {_WAITING[0]: f"{timeout}s"} if timeout and not _waiting(group) else {}
    everything = group.asked.operator.copies_annotations
    return [
        pod_group(
            _API,
            group_metadata(group, "volcano", waiting, all_annotations=everything),
            minMember=group.minimum,
            minTaskMember=minima,
            minResources=group.resources,
            queue=group.queue,
            networkTopology=dict(topology or {}),
            priorityClassName=group.priority_class,
        )
    ]


def _waiting(group: Group) -> str | None:
    """The annotation by which the job itself says how long it may wait."""
    return next((name for name in _WAITING if name in group.asked.annotations), None)


def _problems(group: Group, objects: Sequence[Object]) -> Iterator[Diagnostic]:
    if group.asked.timeout and (name := _waiting(group)):
        reason = f"the annotation {name} of the job says how long it may wait"
        facts = {"field": "timeout", "scheduler": "Volcano", "reason": reason}
        yield diagnose(codes.GANG_FIELD, group.asked.origins["timeout"].locate(), **facts)
    for value in objects:
        if (value["kind"], value["apiVersion"]) == ("PodGroup", _API):
            for problem in _wrong(value["spec"]):
                place = group.job.origin.locate("metadata", "name")
                name = value["metadata"]["name"]
                yield diagnose(codes.GANG_VOLCANO, place, group=name, problem=problem)


def _wrong(spec: Mapping[str, Any]) -> Iterator[str]:
    minima = spec.get("minTaskMember") or {}
    if minima and spec.get("minMember") != (total := sum(minima.values())):
        found = spec.get("minMember")
        yield f"minMember is {found}, and minTaskMember adds up to {total}"
    if minima and spec.get("subGroupPolicy"):
        yield "it has both minTaskMember and subGroupPolicy"
    tiers = [
        ("spec", spec),
        *((policy.get("name"), policy) for policy in spec.get("subGroupPolicy") or ()),
    ]
    for where, holder in tiers:
        topology = holder.get("networkTopology") or {}
        if {"highestTierAllowed", "highestTierName"} <= topology.keys():
            yield f"networkTopology of {where} has both highestTierAllowed and highestTierName"


def _needs(group: Group) -> Iterator[str]:
    yield f"Queue {group.queue}, open"
    if group.asked.timeout or _waiting(group):
        yield "Volcano's plugin sla"


SCHEDULER = Scheduler(
    title="Volcano",
    membership=_membership,
    objects=_objects,
    problems=_problems,
    needs=_needs,
    scheduler_name=SCHEDULER_NAMES["volcano"],
    default_queue="default",
    unused={**NOT_QUEUED, "on_timeout": "it goes on waiting"},
    minimum_at=("spec", "minMember"),
    roles=True,
    alike=True,
)
