"""Koordinator: a PodGroup, whose minimum may change (reference/gang-scheduling.md 8).

Its annotations on Pods alone would do too; but the first Pod decides then, for ever.
"""

from collections.abc import Iterator
from typing import Any

from etcompile.backend.gang.group import Group, Place
from etcompile.backend.gang.podgroup import group_metadata, plugin_group
from etcompile.backend.gang.scheduler import NO_TOPOLOGY, NOT_QUEUED, Membership, Scheduler
from etcompile.k8s.names import is_label_value
from etcompile.model.schedulers import SCHEDULER_NAMES

_GANG = "gang.scheduling.koordinator.sh"


def _membership(group: Group, _place: Place) -> Membership:
    labels = {"pod-group.scheduling.sigs.k8s.io": group.name}
    if group.claims:
        labels["quota.scheduling.koordinator.sh/name"] = str(group.queue)
    return Membership(labels=labels)


def _objects(group: Group) -> list[dict[str, Any]]:
    # After its first success, who replaces a Pod or comes beyond the minimum is let through.
    policy = {f"{_GANG}/mode": "Strict", f"{_GANG}/match-policy": "once-satisfied"}
    metadata = group_metadata(group, "koordinator", policy)
    return [plugin_group(group, "scheduling.sigs.k8s.io/v1alpha1", metadata)]


def _needs(group: Group) -> Iterator[str]:
    if group.claims:
        yield f"ElasticQuota {group.queue}"


SCHEDULER = Scheduler(
    title="Koordinator",
    membership=_membership,
    objects=_objects,
    needs=_needs,
    scheduler_name=SCHEDULER_NAMES["koordinator"],
    default_queue="default",
    queue_form=(lambda name: bool(name) and is_label_value(name), "the value of a label"),
    unused={**NOT_QUEUED, **NO_TOPOLOGY, "on_timeout": "it lets the Pods go and tries again"},
    minimum_at=("spec", "minMember"),
)
