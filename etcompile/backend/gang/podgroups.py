"""Build PodGroups for Volcano, coscheduling and Koordinator (reference/gang-scheduling.md).

Volcano (2) has a minimum per role. Coscheduling of the scheduler-plugins (3) and Koordinator (8),
which is based on it, have one for all roles. Koordinator also accepts annotations on Pods alone,
but then the first Pod decides for ever.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.backend.gang.group import Group, Place
from etcompile.backend.gang.scheduler import (
    NO_TOPOLOGY,
    NO_TOPOLOGY_LABEL,
    NOT_QUEUED,
    Membership,
    Scheduler,
    group_metadata,
    pod_group,
)
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.names import is_label_value
from etcompile.model.schedulers import COSCHEDULING_GROUP, SCHEDULER_NAMES

_VOLCANO_API = "scheduling.volcano.sh/v1beta1"
_GROUP = "scheduling.k8s.io/group-name"
"""The only key by which the scheduler recognises a member."""
_WAITING = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""How long a gang may wait: the annotation, and an older name that has less precedence."""
_PRIORITY = "volcano.sh/task-priority"
_FIRST, _CORE, _EXTRA = "100", "10", "1"


def volcano_membership(group: Group, place: Place) -> Membership:
    marks = {_GROUP: group.name, "volcano.sh/task-spec": place.share.role.name}
    annotations = place.share.role.template.annotations
    # Volcano uses it before the priority of the Pod to order Pods of several classes.
    if _PRIORITY not in annotations and not group.mixed:
        # The order of allocation, and the reverse order of preemption.
        marks[_PRIORITY] = _FIRST if place.leads else _CORE if place.core else _EXTRA
    return Membership(annotations=marks)


def volcano_objects(group: Group) -> list[dict[str, Any]]:
    minima = {share.role.name: share.minimum for share in group.shares if share.minimum}
    timeout, topology = group.intent.timeout, group.intent.topology
    waiting = {_WAITING[0]: f"{timeout}s"} if timeout and not _volcano_waiting(group) else {}
    everything = group.intent.operator.copies_annotations
    return [
        pod_group(
            _VOLCANO_API,
            group_metadata(group, "volcano", waiting, all_annotations=everything),
            minMember=group.minimum,
            minTaskMember=minima,
            minResources=group.resources,
            queue=group.queue,
            networkTopology=dict(topology or {}),
            priorityClassName=group.priority_class,
        )
    ]


def _volcano_waiting(group: Group) -> str | None:
    return next((name for name in _WAITING if name in group.intent.annotations), None)


def volcano_problems(group: Group) -> Iterator[Diagnostic]:
    if group.intent.timeout and (name := _volcano_waiting(group)):
        reason = f"the annotation {name} of the job says how long it may wait"
        facts = {"field": "timeout", "scheduler": "Volcano", "reason": reason}
        yield diagnose(codes.GANG_FIELD, group.intent.origins["timeout"].locate(), **facts)


def volcano_needs(group: Group) -> Iterator[str]:
    yield f"Queue {group.queue}, open"
    if group.intent.timeout or _volcano_waiting(group):
        yield "Volcano's plugin sla"


_KOORDINATOR = "gang.scheduling.koordinator.sh"


def _plugin_group(
    group: Group,
    scheduler: str,
    api_version: str,
    annotations: Mapping[str, str] | None = None,
    *,
    all_annotations: bool = False,
) -> list[dict[str, Any]]:
    return [
        pod_group(
            api_version,
            group_metadata(group, scheduler, annotations, all_annotations=all_annotations),
            minMember=group.minimum,
            minResources=group.resources,
            scheduleTimeoutSeconds=group.intent.timeout,
        )
    ]


def koordinator_membership(group: Group, _place: Place) -> Membership:
    labels = {"pod-group.scheduling.sigs.k8s.io": group.name}
    if group.claims:
        labels["quota.scheduling.koordinator.sh/name"] = str(group.queue)
    return Membership(labels)


SCHEDULERS = {
    "volcano": Scheduler(
        title="Volcano",
        membership=volcano_membership,
        objects=volcano_objects,
        problems=volcano_problems,
        needs=volcano_needs,
        scheduler_name=SCHEDULER_NAMES["volcano"],
        default_queue="default",
        unused={**NOT_QUEUED, **NO_TOPOLOGY_LABEL, "on_timeout": "it goes on waiting"},
        roles=True,
        uniform_roles=True,
    ),
    "coscheduling": Scheduler(
        title="coscheduling",
        membership=lambda group, _: Membership({COSCHEDULING_GROUP: group.name}),
        objects=lambda group: _plugin_group(
            group,
            "coscheduling",
            "scheduling.x-k8s.io/v1alpha1",
            all_annotations=group.intent.operator.copies_annotations,
        ),
        needs=lambda group: [
            f"no PodGroup {group.name} in another namespace: their status is kept by name alone"
        ],
        scheduler_name=SCHEDULER_NAMES["coscheduling"],
        unused={
            **NOT_QUEUED,
            **NO_TOPOLOGY,
            "queue": "it has no queues",
            "on_timeout": "it lets the Pods go and tries again",
        },
    ),
    "koordinator": Scheduler(
        title="Koordinator",
        membership=koordinator_membership,
        # After its first success, replacements and Pods beyond the minimum pass at once.
        objects=lambda group: _plugin_group(
            group,
            "koordinator",
            "scheduling.sigs.k8s.io/v1alpha1",
            {f"{_KOORDINATOR}/mode": "Strict", f"{_KOORDINATOR}/match-policy": "once-satisfied"},
        ),
        needs=lambda group: [f"ElasticQuota {group.queue}"] if group.claims else [],
        scheduler_name=SCHEDULER_NAMES["koordinator"],
        default_queue="default",
        queue_form=(lambda name: bool(name) and is_label_value(name), "the value of a label"),
        unused={**NOT_QUEUED, **NO_TOPOLOGY, "on_timeout": "it lets the Pods go and tries again"},
    ),
}
