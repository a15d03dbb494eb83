"""Read from the parents of ApplySets which objects a job has, and which set of jobs it is in.

Each job is an ApplySet in kubectl's format (KEP-3659; reference/gitops.md 3). A set of jobs is what
a folder declares, so that a job whose file is gone can be pruned. It has no object of its own: the
parent of each job's ApplySet has the set's id, as the last apply left it. So a job that another set
has applied since is not in this one any more.
"""

import base64
import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from etcompile.k8s.objects import Object, annotations_of, labels_of
from etcompile.plan.step import JobSet, ObjectRef, Reason, Remedy, Step

INVENTORY_ID = "applyset.kubernetes.io/id"
"""The label of an ApplySet's parent."""
PART_OF = "applyset.kubernetes.io/part-of"
"""The label of an ApplySet's members, which no input has."""
KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"

SET = "etcompile.dev/set"
"""The label of an ApplySet's parent: the id of the set that its job is in."""
SOURCE = "etcompile.dev/set-source"
"""Its annotation: the name of the set for people."""
ORIGIN = "etcompile.dev/set-origin"
"""Its annotation: the Git remote or first commit of the repository that the set is of."""
DEFAULT_NAMESPACE = "etcompile.dev/set-default-namespace"
"""Its annotation: the namespace of jobs that named none when the set was applied."""
ORPHANED = "etcompile.dev/orphaned"
"""Its annotation: the last apply of the set did not declare the job any more."""

_PREFIX = "etcompile-"


def parent(job: str, namespace: str) -> ObjectRef:
    """Return the parent of a job's ApplySet: a ConfigMap, so that no right to Secrets is needed."""
    return ObjectRef("v1", "ConfigMap", namespace, f"{_PREFIX}{job}")


@functools.cache
def applyset_id(parent: ObjectRef) -> str:
    text = f"{parent.name}.{parent.namespace}.{parent.kind}.{parent.group}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"applyset-{digest.decode().rstrip('=')}-v1"


def is_parent(live: Object, ref: ObjectRef) -> bool:
    labels = labels_of(live)
    return bool(labels.get(INVENTORY_ID) == applyset_id(ref))


def members(live: Object) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the API groups and kinds of the members of a parent's set, and their namespaces.

    A parent names no versions: the cluster knows which one to use.
    """
    metadata = live["metadata"]
    annotations = metadata.get("annotations") or {}
    names = (name.partition(".") for name in listed(annotations.get(KINDS)))
    kinds = [(group, kind) for kind, _, group in names]
    return kinds, [metadata.get("namespace") or "", *listed(annotations.get(NAMESPACES))]


def listed(annotation: object) -> list[str]:
    """Split an annotation of a parent, whose names have commas between them."""
    return [name for name in str(annotation or "").split(",") if name]


# Sets of jobs -------------------------------------------------------------------------------------


def other_set(live: Mapping[str, Any] | None, job_set: JobSet | None) -> str | None:
    """Return the name of the set that a job is in; None if that is ours, or none.

    Sets of one repository are all ours: its folders may be renamed.
    """
    labels, annotations = belonging(live)
    source = annotations.get(SOURCE) or labels.get(SET)
    if not source or (job_set and labels.get(SET) == job_set.id):
        return None
    owner = job_set.owner if job_set else ""
    ours = owner and any(f"{part}/".startswith(f"{owner}/") for part in source.split(", "))
    return None if ours else source


def of_other_set(parent_ref: ObjectRef, job: str, other: str) -> Step:
    remedy = "rename the job, name its set with --config set=NAME, or give --adopt to take it over"
    why = Reason(f"its job is in another set of jobs, {other}", Remedy("adopt", remedy))
    return Step("conflict", parent_ref, (why,), job=job, needs="adopt")


def other_repository(live: Mapping[str, Any], job_set: JobSet) -> str:
    origin = belonging(live)[1].get(ORIGIN, "")
    return origin if job_set.origin and origin != job_set.origin else ""


def orphan_job(live: Object, declared: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    metadata = live["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if not name.startswith(_PREFIX):
        return None
    job = namespace, name.removeprefix(_PREFIX)
    return job if is_parent(live, parent(job[1], namespace)) and job not in declared else None


def orphans(parents: Iterable[Object]) -> dict[tuple[str, str], str]:
    jobs = {}
    for value in parents:
        annotations = annotations_of(value)
        if ORPHANED in annotations and (job := orphan_job(value, ())):
            jobs[job] = str(annotations.get(SOURCE) or "")
    return jobs


def belonging(live: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, str]]:
    metadata = (live or {}).get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    named = (SOURCE, ORIGIN, DEFAULT_NAMESPACE, ORPHANED)
    return (
        {SET: labels[SET]} if SET in labels else {},
        {key: annotations[key] for key in named if key in annotations},
    )
