"""What the watcher's own ConfigMaps are to be: whole, and as a change of what is there.

Functions from values to values; the executor sends the requests. `J-hosts` goes with the
job's ConfigMap; `J-status` outlives it, or a job that is synced again would train again
(reference/gitops.md 9).
"""

from collections.abc import Mapping
from typing import Any

from etcompile.backend.identity import job_labels
from etcompile.failures.log import log_text
from etcompile.goodput import timeline_text
from etcompile.k8s.objects import Object
from etcompile.model.protocol import COMPLETED, hosts_name, status_name
from etcompile.model.run_record import (
    FAILURES,
    RUN,
    TIMELINE,
    record_data,
)
from etcompile.watch.actions import WriteHosts, WriteStatus
from etcompile.watch.job_view import ANCHOR, WRITTEN, digest, hosts_annotations
from etcompile.watch.rules.hostfile import succeeded
from etcompile.watch.seen import SeenMap
from etcompile.watch.stored_run import StoredRun

_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows them as children of the job, and need not look at each change."""


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    """The ConfigMap that an action wants."""
    job, notes = run.job, _QUIET
    if isinstance(action, WriteStatus):
        name, data = status_name(job.name), record_data(action.record)
        if (done := succeeded(job, action.record)) is not None:
            # What gates read that wait for roles to succeed: the run, and each of these roles.
            data[COMPLETED] = "".join(f"{line}\n" for line in (action.record.run, *done))
        if action.failures is not None:
            data[FAILURES] = log_text(action.failures)
        if action.timeline is not None:
            data[TIMELINE] = timeline_text(action.timeline)
        if run.copy_digest is not None:
            data[RUN] = run.text
    else:
        name, data = hosts_name(job.name), {**action.hosts.data}
        notes = {**_QUIET, **hosts_annotations(action.hosts)}
    metadata = {"name": name, "namespace": run.namespace, "labels": job_labels(job)}
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": notes},
        "data": data,
    }
    return owned(value, config) if isinstance(action, WriteHosts) else value


def change(body: Object, known: SeenMap) -> dict[str, Any]:
    """The merge patch of a known ConfigMap to a body, with the known version as precondition."""
    metadata = body["metadata"]
    data = {
        key: value
        for key, value in body["data"].items()
        if known.data.get(key) != (digest(value) if key == RUN else value)
    }
    stale = known.annotations.keys() & {WRITTEN, ANCHOR} - metadata["annotations"].keys()
    marks = {key: metadata[key] for key in ("labels", "ownerReferences") if key in metadata}
    if known.metadata.get("ownerReferences"):
        marks.setdefault("ownerReferences", None)
    return {
        "metadata": {
            **marks,
            "annotations": {**metadata["annotations"], **dict.fromkeys(stale)},
            "resourceVersion": known.metadata["resourceVersion"],
        },
        "data": {**data, **dict.fromkeys(known.data.keys() - body["data"].keys())},
    }


def owned(value: Object, config: SeenMap | None) -> dict[str, Any]:
    """An object that goes when the job's ConfigMap goes."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}
