"""Coscheduling of the scheduler-plugins: a PodGroup (reference/gang-scheduling.md 3)."""

from collections.abc import Iterator
from typing import Any

from etcompile.backend.gang.group import Group, Place
from etcompile.backend.gang.podgroup import group_metadata, plugin_group
from etcompile.backend.gang.scheduler import NO_TOPOLOGY, NOT_QUEUED, Membership, Scheduler
from etcompile.model.schedulers import SCHEDULER_NAMES


def _membership(group: Group, _place: Place) -> Membership:
    return Membership(labels={"scheduling.x-k8s.io/pod-group": group.name})


def _objects(group: Group) -> list[dict[str, Any]]:
    everything = group.asked.operator.copies_annotations
    metadata = group_metadata(group, "coscheduling", all_annotations=everything)
    return [plugin_group(group, "scheduling.x-k8s.io/v1alpha1", metadata)]


def _needs(group: Group) -> Iterator[str]:
    yield f"no PodGroup {group.name} in another namespace: their status is kept by name alone"


SCHEDULER = Scheduler(
    title="coscheduling",
    membership=_membership,
    objects=_objects,
    needs=_needs,
    scheduler_name=SCHEDULER_NAMES["coscheduling"],
    unused={
        **NOT_QUEUED,
        **NO_TOPOLOGY,
        "queue": "it has no queues",
        "on_timeout": "it lets the Pods go and tries again",
    },
    minimum_at=("spec", "minMember"),
)
