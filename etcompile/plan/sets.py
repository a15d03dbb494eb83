"""A set of jobs: which jobs a folder declares, so that one whose file is gone can be pruned.

The ApplySet of a job knows its objects; this is the level above. There is no object of its own:
the parent of each job's ApplySet carries the set's id, as the last apply of that set left it. So
a job that another set has applied since is not of this one any more, and nothing has to be kept
in step.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from etcompile.k8s.objects import Object
from etcompile.plan.inventory import is_parent, parent
from etcompile.plan.step import JobSet, ObjectRef, Reason, Remedy, Step

SET = "etcompile.dev/set"
"""The label of an ApplySet's parent: the id of the set that its job is in."""
SOURCE = "etcompile.dev/set-source"
"""Its annotation: the set as people call it."""
SPREAD = "etcompile.dev/set-namespaces"
"""Its annotation: all namespaces that jobs of the set are in, where these are several."""
DEFAULT_NAMESPACE = "etcompile.dev/set-default-namespace"
"""Its annotation: the namespace of jobs that named none when the set was applied."""
ORPHANED = "etcompile.dev/orphaned"
"""Its annotation: the last apply of the set did not declare the job any more."""

_PREFIX = parent("", "").name


def other_set(found: Mapping[str, Any] | None, job_set: JobSet | None) -> str | None:
    """The set that a job is in, as people call it; None if that is ours, or none.

    Sets of one repository are all ours: its folders may be renamed.

    Args:
        found: The parent of the job's ApplySet, if there is one.
        job_set: The set that is applied, as far as it is known.
    """
    labels, annotations = belonging(found)
    source = annotations.get(SOURCE) or labels.get(SET)
    # Earlier versions called a folder outside Git by the host and the path.
    if not source or (job_set and labels.get(SET) == job_set.id) or re.match("[^/ ]+:/", source):
        return None
    owner = job_set.owner if job_set else ""
    ours = owner and any(f"{part}/".startswith(f"{owner}/") for part in source.split(", "))
    return None if ours else source


def of_other_set(parent_ref: ObjectRef, job: str, other: str) -> Step:
    """The refusal of a job that `other_set` says is not ours."""
    remedy = "rename the job, name its set with --set, or give --adopt to take it over"
    why = Reason(f"its job is in another set of jobs, {other}", Remedy("adopt", remedy))
    return Step("conflict", parent_ref, (why,), job=job, needs="adopt")


def orphan_job(found: Object, declared: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """Namespace and name of the job of an ApplySet's parent, if it is not declared any more.

    Args:
        found: A ConfigMap that carries the label of the set.
        declared: Namespace and name of the jobs that are declared.
    """
    metadata = found["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if not name.startswith(_PREFIX):
        return None
    job = namespace, name.removeprefix(_PREFIX)
    ref: ObjectRef = parent(job[1], namespace)
    return job if is_parent(found, ref) and job not in declared else None


def orphans(parents: Iterable[Object]) -> dict[tuple[str, str], str]:
    """The jobs that the last apply of their set did not declare, each with the set.

    Args:
        parents: ConfigMaps that carry the label of a set.
    """
    found = {}
    for value in parents:
        annotations = value["metadata"].get("annotations") or {}
        if ORPHANED in annotations and (job := orphan_job(value, ())):
            found[job] = str(annotations.get(SOURCE) or "")
    return found


def belonging(live: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations by which a parent says which set it is in."""
    metadata = (live or {}).get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return (
        {key: labels[key] for key in (SET,) if key in labels},
        {
            key: annotations[key]
            for key in (SOURCE, SPREAD, DEFAULT_NAMESPACE, ORPHANED)
            if key in annotations
        },
    )
