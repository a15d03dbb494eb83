"""What makes two compilations the same run, and the labels that say whose an object is."""

import json
from typing import Any

from etcompile.digest import sha256
from etcompile.k8s.defaults import normalised
from etcompile.model import Job, Member, Role
from etcompile.model.protocol import INDEX_LABEL, JOB_LABEL, RANK_LABEL, ROLE_LABEL


def spec_hash(job: Job) -> str:
    """The run's identity: 12 hexadecimal digits of the job without what scaling changes.

    An equal value in another spelling is the same run. The input carries the algorithm's version,
    so that another algorithm is a decision and not an accident (reference/gitops.md 7).
    """
    identity = normalised(job.identity)
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(f"v1:{text}".encode())[:12]


def run_id(job: Job, wanted: str | None) -> str | None:
    """The ID of a job's run.

    Args:
        wanted: The ID, unless the job asks for another; `auto` for five characters of the spec
            hash; None for none.
    """
    wanted = job.run.run_id or wanted
    return spec_hash(job)[:5] if wanted == "auto" else wanted


def metadata(job: Job, name: str, labels: dict[str, str], **more: object) -> dict[str, Any]:
    """The metadata of an object of the job, its namespace only if the job names one."""
    namespace = {"namespace": job.namespace} if job.namespace else {}
    return {"name": name, **namespace, "labels": labels, **more}


def job_labels(job: Job) -> dict[str, str]:
    """Labels of an object that belongs to no replica."""
    return {**job.labels, JOB_LABEL: job.name, **recommended_labels(job)}


def role_labels(job: Job, role: Role) -> dict[str, str]:
    """Labels of a role's Services: who they belong to, and the recommended ones."""
    return {**recommended_labels(job, role), **identity_labels(job, role)}


def identity_labels(job: Job, role: Role) -> dict[str, str]:
    """Labels that a role's Pods and Services share, the kind's own and etcompile's.

    The operators overwrite a template's label of these keys (reference/training-operator.md 2.1,
    reference/et-operator.md 2.2, reference/dlrover.md 3.1), and objects are selected by them.
    """
    return {
        **selector(job, role),
        JOB_LABEL: job.name,
        ROLE_LABEL: role.name,
        **role.labels.objects,
    }


def recommended_labels(job: Job, role: Role | None = None) -> dict[str, str]:
    """The labels that Kubernetes recommends, for objects that have none of these keys.

    No operator sets them on Pods, so a Pod template owns them: policies and monitors of its author
    select by them, and nothing of etcompile may.
    """
    component = {"app.kubernetes.io/component": role.name} if role else {}
    # No app.kubernetes.io/instance: Argo CD's label tracking claims it
    # (reference/gitops.md 1.4).
    return {
        "app.kubernetes.io/name": job.app or job.kind.lower(),
        "app.kubernetes.io/part-of": job.name,
        "app.kubernetes.io/managed-by": "etcompile",
        **component,
    }


def index_labels(role: Role, member: Member) -> dict[str, str]:
    """Labels that tell a replica's Pod and Service from those of its role's others."""
    if member.index is None:
        return {}
    own = (
        {role.labels.index: str(member.index + role.labels.index_offset)}
        if role.labels.index
        else {}
    )
    return {**own, INDEX_LABEL: str(member.index)}


def place_labels(role: Role, member: Member) -> dict[str, str]:
    """Labels that tell a replica's Service from those of its role's others.

    Where a kind tells ranks from indexes, a Service belongs to the rank: who follows a failed
    replica is behind the same one.
    """
    if role.labels.rank is None or member.place is None:
        return index_labels(role, member)
    rank = str(member.place)
    return {role.labels.rank: rank, INDEX_LABEL: rank}


def pod_labels(role: Role, member: Member) -> dict[str, str]:
    """Labels of the kind's that a replica's Pod has and its Service has not."""
    place = str(member.place)
    rank = {role.labels.rank: place, RANK_LABEL: place} if role.labels.rank else {}
    count = {role.labels.relaunch: str(member.relaunches)} if role.labels.relaunch else {}
    leader = role.labels.leader if member.index in (0, None) else {}
    return {**role.labels.pods, **leader, **rank, **count}


def own_labels(job: Job) -> frozenset[str]:
    """The keys of the labels by which objects of the job are found."""
    replicas = [
        {**identity_labels(job, role), **index_labels(role, member), **pod_labels(role, member)}
        for role in job.roles
        for member in role.members[:1]
    ]
    return frozenset({JOB_LABEL, *(key for labels in replicas for key in labels)})


def selector(job: Job, role: Role) -> dict[str, str]:
    """The kind's own labels of a role: with its index label, they find a replica's Pod."""
    return {**job.selector, **role.labels.common}
