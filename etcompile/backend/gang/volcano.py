"""Volcano: a PodGroup with a minimum for each role (reference/gang-scheduling.md 2)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.backend.gang.group import Group, Object, Place
from etcompile.backend.gang.scheduler import NOT_QUEUED, Membership, Scheduler
from etcompile.backend.identity import job_labels, metadata
from etcompile.diagnostics import Diagnostic, diagnose

_API = "scheduling.volcano.sh/v1beta1"
_GROUP = "scheduling.k8s.io/group-name"
"""The only key by which the scheduler knows a member."""
_FIRST, _CORE, _EXTRA = "100", "10", "1"


def _membership(group: Group, place: Place) -> Membership:
    # Who is taken first, and whom preemption takes last.
    priority = _FIRST if place.leads else _CORE if place.core else _EXTRA
    return Membership(
        annotations={
            _GROUP: group.name,
            "volcano.sh/task-spec": place.share.role.name,
            "volcano.sh/task-priority": priority,
        }
    )


def _objects(group: Group) -> list[dict[str, Any]]:
    minima = {share.role.name: share.minimum for share in group.shares if share.minimum}
    waiting = (
        {"annotations": {"volcano.sh/sla-waiting-time": f"{group.asked.timeout}s"}}
        if group.asked.timeout
        else {}
    )
    return [
        {
            "apiVersion": _API,
            "kind": "PodGroup",
            "metadata": metadata(group.job, group.name, job_labels(group.job), **waiting),
            "spec": {
                "minMember": group.minimum,
                "minTaskMember": minima,
                **({"minResources": group.resources} if group.resources else {}),
                "queue": group.queue,
                **({"priorityClassName": group.priority_class} if group.priority_class else {}),
            },
        }
    ]


def _problems(group: Group, objects: Sequence[Object]) -> Iterator[Diagnostic]:
    for value in objects:
        if (value["kind"], value["apiVersion"]) == ("PodGroup", _API):
            for problem in _wrong(value["spec"]):
                place = group.job.origin.locate("metadata", "name")
                name = value["metadata"]["name"]
                yield diagnose("ET2086", place, group=name, problem=problem)


def _wrong(spec: Mapping[str, Any]) -> Iterator[str]:
    minima = spec.get("minTaskMember") or {}
    if minima and spec.get("minMember") != (total := sum(minima.values())):
        found = spec.get("minMember")
        yield f"minMember is {found}, and minTaskMember adds up to {total}"
    if minima and spec.get("subGroupPolicy"):
        yield "it has both minTaskMember and subGroupPolicy"
    tiers = [("spec", spec), *((one.get("name"), one) for one in spec.get("subGroupPolicy") or ())]
    for where, holder in tiers:
        topology = holder.get("networkTopology") or {}
        if {"highestTierAllowed", "highestTierName"} <= topology.keys():
            yield f"networkTopology of {where} has both highestTierAllowed and highestTierName"


def _needs(group: Group) -> Iterator[str]:
    yield f"Queue {group.queue}, open"
    if group.asked.timeout:
        yield "Volcano's plugin sla"


SCHEDULER = Scheduler(
    title="Volcano",
    membership=_membership,
    objects=_objects,
    problems=_problems,
    needs=_needs,
    scheduler_name="volcano",
    default_queue="default",
    unused={**NOT_QUEUED, "on_timeout": "it goes on waiting"},
    minimum_at=("spec", "minMember"),
    roles=True,
    alike=True,
)
