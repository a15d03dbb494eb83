"""Compute what identifies a run, and the labels of a job's objects."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from etcompile.digest import sha256
from etcompile.k8s.defaults import normalised
from etcompile.k8s.listkeys import changed_at
from etcompile.k8s.objects import Object
from etcompile.k8s.path import mapping_at
from etcompile.model import Job, Member, Role
from etcompile.model.protocol import (
    INDEX_LABEL,
    JOB_LABEL,
    RANK_LABEL,
    ROLE_LABEL,
    SPEC_HASH,
    STORED_JOB,
)


def spec_hash(job: Job) -> str:
    """Return the run's identity: 12 hexadecimal digits of the job without what scaling changes.

    An equal value in another spelling is the same run. The input contains the algorithm's version,
    so that a change of the algorithm is deliberate (reference/gitops.md 7).
    """
    identity = normalised(job.identity)
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(f"v1:{text}".encode())[:12]


def run_id(job: Job, default: str | None) -> str | None:
    """Return the ID of a job's run.

    Args:
        default: The ID, unless the job sets one; `auto` for five characters of the spec hash; None
            for no ID.
    """
    chosen = job.run.run_id or default
    return spec_hash(job)[:5] if chosen == "auto" else chosen


_ANNOTATIONS = {
    "Pod": ("metadata", "annotations"),
    "Job": ("spec", "template", "metadata", "annotations"),
}


def identified(job: Job, objects: Sequence[Object], stored: str) -> Iterator[Object]:
    """Yield the objects of a run with its hash and its stored job, which overlays may change."""
    run = spec_hash(job)
    shared: dict[int, Object] = {}  # as a role's Pods share them
    for value in objects:
        kind = value["kind"]
        if kind == "ConfigMap":
            yield changed_at(value, ("data", STORED_JOB), stored)
            continue
        old = mapping_at(value, _ANNOTATIONS[kind]) if kind in _ANNOTATIONS else {}
        if old.get(SPEC_HASH) in (None, run):
            yield value
        else:
            new = shared.setdefault(id(old), {**old, SPEC_HASH: run})
            yield changed_at(value, _ANNOTATIONS[kind], new)


def metadata(job: Job, name: str, labels: dict[str, str], **more: object) -> dict[str, Any]:
    namespace = {"namespace": job.namespace} if job.namespace else {}
    return {"name": name, **namespace, "labels": labels, **more}


def job_object(job: Job, api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return an object with the labels of its job, and fields besides the metadata."""
    head = {"apiVersion": api_version, "kind": kind}
    return {**head, "metadata": metadata(job, name, job_labels(job)), **fields}


def job_labels(job: Job) -> dict[str, str]:
    return {**job.labels, JOB_LABEL: job.name, **recommended_labels(job)}


def role_labels(job: Job, role: Role) -> dict[str, str]:
    return {**recommended_labels(job, role), **identity_labels(job, role)}


def identity_labels(job: Job, role: Role) -> dict[str, str]:
    """Return the labels that a role's Pods and Services share, the kind's and etcompile's.

    The operators overwrite these keys in a template (reference/training-operator.md 2.1,
    reference/et-operator.md 2.2, reference/dlrover.md 3.1), because they select objects by them.
    """
    return {
        **selector(job, role),
        JOB_LABEL: job.name,
        ROLE_LABEL: role.name,
        **role.labels.objects,
    }


def recommended_labels(job: Job, role: Role | None = None) -> dict[str, str]:
    """Return the labels that Kubernetes recommends, for objects without these keys.

    No operator sets them on Pods. The Pod template may set them, and its author's policies and
    monitors may select by them, so nothing in etcompile selects by them.
    """
    component = {"app.kubernetes.io/component": role.name} if role else {}
    # app.kubernetes.io/instance is left out because Argo CD's label tracking claims it
    # (reference/gitops.md 1.4).
    return {
        "app.kubernetes.io/name": job.app or job.kind.lower(),
        "app.kubernetes.io/part-of": job.name,
        "app.kubernetes.io/managed-by": "etcompile",
        **component,
    }


def index_labels(role: Role, member: Member) -> dict[str, str]:
    if member.index is None:
        return {}
    index = {INDEX_LABEL: str(member.index)}
    if role.labels.index:
        return {role.labels.index: str(member.index + role.labels.index_offset), **index}
    return index


def place_labels(role: Role, member: Member) -> dict[str, str]:
    """Return the labels that distinguish a replica's Service within its role.

    In a kind that separates ranks from indexes, a Service belongs to the rank: the replica that
    replaces a failed one is behind the same Service.
    """
    if role.labels.rank is None or member.place is None:
        return index_labels(role, member)
    rank = str(member.place)
    return {role.labels.rank: rank, INDEX_LABEL: rank}


def pod_labels(role: Role, member: Member) -> dict[str, str]:
    """Return the kind's labels that a replica's Pod has and its Service does not."""
    place = str(member.place)
    rank = {role.labels.rank: place, RANK_LABEL: place} if role.labels.rank else {}
    count = {role.labels.relaunch: str(member.relaunches)} if role.labels.relaunch else {}
    leader = role.labels.leader if member.index in (0, None) else {}
    return {**role.labels.pods, **leader, **rank, **count}


def protected_labels(job: Job) -> frozenset[str]:
    """Return the keys of the labels by which objects of the job are selected."""
    replicas = [
        {**identity_labels(job, role), **index_labels(role, member), **pod_labels(role, member)}
        for role in job.roles
        for member in role.members[:1]
    ]
    return frozenset({JOB_LABEL, *(key for labels in replicas for key in labels)})


def selector(job: Job, role: Role) -> dict[str, str]:
    """Return the kind's labels of a role; with its index label they select a replica's Pod."""
    return {**job.selector, **role.labels.common}
