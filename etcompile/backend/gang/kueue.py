"""Group the Pods that must fit for Kueue; the others are queued one by one.

Variant A of reference/gang-scheduling.md 4.4. Kueue admits quota for a group of a fixed size, so
Pods beyond the minimum are not in it. A finished group accepts no Pods, so each run needs a new
group (4.5).
"""

from collections.abc import Iterator

from etcompile.backend.gang.group import Group, Place, Share
from etcompile.backend.gang.scheduler import NO_TIERS, Membership, Scheduler
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.names import is_label
from etcompile.model import Member
from etcompile.model.protocol import INDEX_LABEL, RANK_LABEL
from etcompile.model.schedulers import KUEUE_GROUP, KUEUE_QUEUE

_PREFIX = "kueue.x-k8s.io"
_TOTAL = f"{_PREFIX}/pod-group-total-count"
_ROLE = f"{_PREFIX}/role-hash"
_PRIORITY = f"{_PREFIX}/priority-class"
_LONGEST = f"{_PREFIX}/max-exec-time-seconds"
_TOPOLOGY = tuple(
    f"{_PREFIX}/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained")
)
_TOGETHER = f"{_PREFIX}/podset-group-name"
_OF_PODS = (
    *_TOPOLOGY,
    f"{_PREFIX}/podset-slice-required-topology",
    f"{_PREFIX}/podset-slice-required-topology-constraints",
    f"{_PREFIX}/podset-slice-size",
    _TOGETHER,
    f"{_PREFIX}/safe-to-forcefully-delete",
)
"""Annotations that Kueue reads on each Pod; on a job they hold for all of its Pods."""
_PROVISIONING = f"provreq.{_PREFIX}"
"""The domain of annotations that become parameters of a ProvisioningRequest."""
_RANK = f"{_PREFIX}/pod-group-pod-index"
"""Label of the rank of a Pod in its role, by which Kueue orders Pods in racks (4.2)."""


def membership(group: Group, place: Place) -> Membership:
    core = _priority(group)
    priority = core if place.core else group.intent.extra_queue_priority or core
    labels = {KUEUE_QUEUE: str(group.queue)}
    if priority:
        labels[_PRIORITY] = priority
    if longest := group.intent.labels.get(_LONGEST):
        labels[_LONGEST] = longest
    if not place.core:
        return Membership(labels=labels)
    role, notes = place.share.role, place.share.role.template.annotations
    annotations = {_TOTAL: str(group.minimum), _ROLE: role.name}
    if role.members[0].index is None:
        labels[_RANK] = "0"
    else:
        annotations[f"{_RANK}-label"] = RANK_LABEL if role.labels.rank else INDEX_LABEL
    if _together(group, place.share) and place.share.minimum > 1:
        # The ranks of such a role begin with 1, after the other role's; its labels begin with 0.
        annotations[f"{_PREFIX}/pod-index-offset"] = "-1"
    if place.leads:
        # The run ends with this Pod. Without this, Pods that only serve keep holding its quota.
        annotations[f"{_PREFIX}/retriable-in-group"] = "false"
    of_job, label = group.intent.annotations, group.intent.topology_label
    if label and of_job.keys().isdisjoint(_TOPOLOGY):
        of_job = {**of_job, _TOPOLOGY[0]: label}
    has_topology = not notes.keys().isdisjoint(_TOPOLOGY)
    for key, value in of_job.items():
        is_read = key in _OF_PODS or key.startswith(f"{_PROVISIONING}/")
        if is_read and key not in notes and not (has_topology and key in _TOPOLOGY):
            annotations[key] = value
    return Membership(labels={**labels, KUEUE_GROUP: group.name}, annotations=annotations)


def _together(group: Group, share: Share) -> str | None:
    annotations = share.role.template.annotations
    return annotations.get(_TOGETHER) or group.intent.annotations.get(_TOGETHER)


def _priority(group: Group) -> str | None:
    """Return the WorkloadPriorityClass: our annotation, else the label by which Kueue finds it."""
    return group.intent.queue_priority or group.intent.labels.get(_PRIORITY)


def problems(group: Group) -> Iterator[Diagnostic]:
    place = group.job.origin.locate("metadata", "name")
    if group.job.run_id is None:
        problem = "its run has no ID, so the next run would join this group after it has finished"
        advice = "add the annotation etcompile.dev/run: auto to the job"
        yield diagnose(codes.GANG_KUEUE, place, problem=problem, advice=advice)
    together: dict[str, list[Share]] = {}
    for share in group.shares:
        if share.minimum and (name := _together(group, share)):
            together.setdefault(name, []).append(share)
    for name, shares in together.items():
        if len(shares) != 2 or min(share.minimum for share in shares) > 1:
            sizes = ", ".join(f"{share.role.name} ({share.minimum})" for share in shares)
            problem = f"{_TOGETHER} {name} places two roles as one, and is that of {sizes}"
            advice = "set it on two Pod templates, one of them of a single Pod"
            yield diagnose(codes.GANG_KUEUE, place, problem=problem, advice=advice)
    for share in group.shares:
        ranks = {member.place for member in share.role.members}
        if None in ranks or len(ranks) < share.minimum:
            continue
        # No other Pod can join the group in place of a missing one.
        for rank in (rank for rank in range(share.minimum) if rank not in ranks):
            name = share.role.host_name(Member(rank))
            problem = f"it waits for {name}, which a scale intent removes"
            change = "change replicas in the job itself and give it another etcompile.dev/run"
            advice = f"scale in others, or {change}"
            yield diagnose(codes.GANG_KUEUE, place, problem=problem, advice=advice)
            return


def needs(group: Group) -> Iterator[str]:
    yield "its pod integration on, for this namespace"
    yield f"LocalQueue {group.queue} in the job's namespace"
    resources = {name for share in group.shares for name in share.requests}
    yield f"quota for {', '.join(sorted(resources))} in its ClusterQueue"
    for name in dict.fromkeys((_priority(group), group.intent.extra_queue_priority)):
        if name:
            yield f"WorkloadPriorityClass {name}"


SCHEDULERS = {
    "kueue": Scheduler(
        title="Kueue",
        membership=membership,
        problems=problems,
        needs=needs,
        default_queue="default",
        # Longer names of queues do not fit into a label.
        queue_form=(is_label, "a DNS label"),
        unused={
            **NO_TIERS,
            "min_resources": "it adds up what the Pods ask for",
            "timeout": "it queues without an end",
            "on_timeout": "it queues without an end",
        },
        roles=True,
        uniform_roles=True,
        plain_pods=True,
        reads_job=frozenset({KUEUE_QUEUE, _PRIORITY, _LONGEST, _PROVISIONING, *_OF_PODS}),
        resizes_since=None,
    )
}
