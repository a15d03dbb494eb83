"""What makes two compilations the same run, and the labels that say whose an object is."""

import hashlib
import json
from typing import Any

from etcompile.model import Job, Member, Role
from etcompile.model.protocol import INDEX_LABEL, JOB_LABEL, ROLE_LABEL


def spec_hash(job: Job) -> str:
    """The run's identity: 12 hexadecimal digits of the job without what scaling changes.

    The input carries the algorithm's version, so that another algorithm is a decision and not
    an accident (reference/gitops.md 7).
    """
    text = json.dumps(job.identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"v1:{text}".encode()).hexdigest()[:12]


def metadata(job: Job, name: str, labels: dict[str, str], **more: object) -> dict[str, Any]:
    """The metadata of an object of the job, its namespace only if the job names one."""
    namespace = {"namespace": job.namespace} if job.namespace else {}
    return {"name": name, **namespace, "labels": labels, **more}


def job_labels(job: Job) -> dict[str, str]:
    """Labels of an object that belongs to no replica."""
    return {**job.labels, **_common(job)}


def replica_labels(job: Job, role: Role, member: Member) -> dict[str, str]:
    """Labels of a replica's Pod and Service, the kind's own and etcompile's."""
    index = "" if member.index is None else str(member.index)
    indexes = {INDEX_LABEL: index, **({role.index_label: index} if role.index_label else {})}
    return {
        **selector(job, role, member),
        **_common(job),
        "app.kubernetes.io/component": role.name,
        ROLE_LABEL: role.name,
        **(indexes if index else {}),
    }


def selector(job: Job, role: Role, member: Member) -> dict[str, str]:
    """The kind's own labels: those by which a replica's Service finds its Pod."""
    own = {**job.selector, **role.labels}
    if role.index_label and member.index is not None:
        own[role.index_label] = str(member.index)
    return own


def _common(job: Job) -> dict[str, str]:
    # No app.kubernetes.io/instance: Argo CD's label tracking claims it
    # (reference/gitops.md 1.4).
    return {
        JOB_LABEL: job.name,
        "app.kubernetes.io/name": job.kind.lower(),
        "app.kubernetes.io/part-of": job.name,
        "app.kubernetes.io/managed-by": "etcompile",
    }
