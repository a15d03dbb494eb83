"""Build PodGroups of NVIDIA KAI, with a subgroup per role (reference/gang-scheduling.md 7)."""

from collections.abc import Iterator
from typing import Any

from etcompile.backend.gang.group import Group, Place
from etcompile.backend.gang.scheduler import (
    NO_TOPOLOGY,
    NOT_QUEUED,
    Membership,
    Scheduler,
    group_metadata,
    pod_group,
)
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model.schedulers import SCHEDULER_NAMES

_API = "scheduling.run.ai/v2alpha2"
_PREEMPTIBILITY = "kai.scheduler/preemptibility"
_KINDS = ("preemptible", "non-preemptible")
_NODE_POOL = "kai.scheduler/node-pool"
_TOPOLOGY = {
    "topology": "kai.scheduler/topology",
    "requiredTopologyLevel": "kai.scheduler/topology-required-placement",
    "preferredTopologyLevel": "kai.scheduler/topology-preferred-placement",
}
"""Annotations of a job from which KAI's own grouper makes the group's `topologyConstraint`."""


def membership(group: Group, place: Place) -> Membership:
    # KAI ignores a Pod whose subgroup the group does not list.
    known = {"kai.scheduler/subgroup-name": place.share.role.name} if place.share.minimum else {}
    return Membership(
        labels={"kai.scheduler/queue": str(group.queue), **known},
        # The grouper would create a separate group for each Pod, or for each Job.
        annotations={"pod-group-name": group.name, "kai.scheduler/skip-podgrouper": "true"},
    )


def objects(group: Group) -> list[dict[str, Any]]:
    subgroups = [
        {"name": share.role.name, "minMember": share.minimum}
        for share in group.shares
        if share.minimum
    ]
    metadata = group_metadata(group, "kai", all_annotations=True, all_labels=True)
    if pool := _label(group, _NODE_POOL):
        metadata["labels"][_NODE_POOL] = pool
    # KAI's grouper uses the PriorityClass of the first Pod that it sees.
    priority, origin = group.intent.priority_class, group.intent.origins.get("priority_class")
    if origin is None or origin.path[0] == "spec":
        priority = _label(group, "priorityClassName") or priority or group.leading_class
    kind = _label(group, _PREEMPTIBILITY)
    topology = {
        field: group.intent.annotations[key]
        for field, key in _TOPOLOGY.items()
        if group.intent.annotations.get(key)
    }
    return [
        pod_group(
            _API,
            metadata,
            queue=group.queue,
            priorityClassName=priority,
            preemptibility=kind if kind in _KINDS else None,
            topologyConstraint=topology,
            subGroups=subgroups,
        )
    ]


def _label(group: Group, key: str) -> str | None:
    """Return a label where KAI's grouper looks for it: on the job first, then on its Pods."""
    templates = (share.role.template.labels for share in group.shares)
    return next(
        (text for labels in (group.intent.labels, *templates) if (text := labels.get(key))), None
    )


def problems(group: Group) -> Iterator[Diagnostic]:
    kind = _label(group, _PREEMPTIBILITY)
    if kind is not None and kind not in _KINDS:
        reason = f"it must be {' or '.join(_KINDS)}, and is '{kind}'"
        at = group.job.origin.locate("metadata", "labels", _PREEMPTIBILITY)
        yield diagnose(
            codes.GANG_FIELD, at, field=f"label {_PREEMPTIBILITY}", scheduler="KAI", reason=reason
        )


SCHEDULERS = {
    "kai": Scheduler(
        title="KAI",
        membership=membership,
        objects=objects,
        problems=problems,
        needs=lambda group: [
            "KAI 0.15 or newer: earlier ones group Pods by themselves only",
            f"Queue {group.queue} (scheduling.run.ai)",
        ],
        scheduler_name=SCHEDULER_NAMES["kai"],
        # What its chart makes.
        default_queue="default-queue",
        unused={
            **NOT_QUEUED,
            **NO_TOPOLOGY,
            "min_resources": "it adds up what the Pods ask for",
            "timeout": "it waits for ever",
            "on_timeout": "it waits for ever",
        },
        roles=True,
    )
}
