"""The metadata of the object that describes a gang, with what the job hands to it.

Some of what a scheduler reads stands in the annotations of this object only: Volcano looks nowhere
else for `volcano.sh/preemptable`. The Training Operator copies all annotations of the job to it,
and KAI's own grouper labels and annotations (reference/training-operator.md 2.5).
"""

from collections.abc import Mapping
from typing import Any

from etcompile.backend.gang.group import Group
from etcompile.backend.identity import job_labels, metadata
from etcompile.k8s.bookkeeping import is_bookkeeping
from etcompile.model.schedulers import reader_of


def pod_group(api_version: str, metadata: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A PodGroup, with those fields of its spec that say something."""
    fields = {name: value for name, value in spec.items() if value}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": fields}


def plugin_group(group: Group, api_version: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """The PodGroup of the scheduler-plugins, and of the schedulers that are made of them."""
    return pod_group(
        api_version,
        metadata,
        minMember=group.minimum,
        minResources=group.resources,
        scheduleTimeoutSeconds=group.asked.timeout,
    )


def group_metadata(
    group: Group,
    scheduler: str,
    annotations: Mapping[str, str] | None = None,
    *,
    all_annotations: bool = False,
    all_labels: bool = False,
) -> dict[str, Any]:
    """The metadata of the object that describes a gang.

    The labels and annotations of the job that only this scheduler reads are on it, whatever the
    kind of the job is. What a tool keeps on the job for its own bookkeeping never is.

    Args:
        group: The gang.
        scheduler: The scheduler, one of `GANGS`.
        annotations: Annotations of the scheduler's module; those of the job count before them.
        all_annotations: All annotations of the job are on it, not only the scheduler's own.
        all_labels: All labels of the job are, too.
    """
    given = group.asked
    notes = {
        **(annotations or {}),
        **_handed(given.annotations, scheduler, everything=all_annotations),
    }
    labels = {
        **_handed(given.labels, scheduler, everything=all_labels),
        **job_labels(group.job),
    }
    more = {"annotations": dict(sorted(notes.items()))} if notes else {}
    return metadata(group.job, group.name, labels, **more)


def _handed(given: Mapping[str, str], scheduler: str, *, everything: bool) -> dict[str, str]:
    return {
        key: value
        for key, value in sorted(given.items())
        if (everything or reader_of(key) == scheduler) and not is_bookkeeping(key)
    }
