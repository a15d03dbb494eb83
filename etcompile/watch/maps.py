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
from etcompile.model import Job
from etcompile.model.protocol import COMPLETED, hosts_name, status_name
from etcompile.model.run_record import (
    FAILURES,
    RUN,
    TIMELINE,
    RunRecord,
    record_data,
)
from etcompile.watch.actions import WriteHosts, WriteStatus
from etcompile.watch.job_view import ANCHOR, WRITTEN, digest, hosts_annotations
from etcompile.watch.rules.hostfile import succeeded
from etcompile.watch.seen import SeenMap
from etcompile.watch.stored_run import StoredRun

_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows them as children of the job, and need not look at each change."""
_OWN_NOTES = frozenset({WRITTEN, ANCHOR})


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    """The ConfigMap that an action wants."""
    if isinstance(action, WriteStatus):
        data = record_data(action.record)
        if (roles := completed(run.job, action.record)) is not None:
            data[COMPLETED] = roles
        if action.failures is not None:
            data[FAILURES] = log_text(action.failures)
        if action.timeline is not None:
            data[TIMELINE] = timeline_text(action.timeline)
        if run.copy_digest is not None:
            data[RUN] = run.text
        return _config_map(run, status_name(run.job.name), data, _QUIET)
    notes = {**_QUIET, **hosts_annotations(action.hosts)}
    return owned(_config_map(run, hosts_name(run.job.name), action.hosts.data, notes), config)


def completed(job: Job, record: RunRecord) -> str | None:
    """What gates read that wait for roles to succeed; None if none of the job's does.

    The spec hash of the run, and each of these roles that has succeeded, a line each.
    """
    done = succeeded(job, record)
    return "".join(f"{line}\n" for line in (record.run, *done)) if done is not None else None


def change(body: Object, known: SeenMap) -> dict[str, Any]:
    """The merge patch of a known ConfigMap to a body, with the known version as precondition."""
    metadata, old = body["metadata"], known.metadata
    changed = {
        key: value
        for key, value in body["data"].items()
        if known.data.get(key) != (digest(value) if key == RUN else value)
    }
    gone = dict.fromkeys(known.data.keys() - body["data"].keys())
    notes = _differing(metadata["annotations"], known.annotations)
    stale = known.annotations.keys() & _OWN_NOTES - metadata["annotations"].keys()
    marks: dict[str, Any] = {
        "annotations": {**notes, **dict.fromkeys(stale)},
        "labels": _differing(metadata["labels"], old.get("labels") or {}),
    }
    if metadata.get("ownerReferences", []) != old.get("ownerReferences", []):
        marks["ownerReferences"] = metadata.get("ownerReferences")
    version = {"resourceVersion": old["resourceVersion"]}
    return {"metadata": {**marks, **version}, "data": {**changed, **gone}}


def _differing(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def owned(value: Object, config: SeenMap | None) -> dict[str, Any]:
    """An object that goes when the job's ConfigMap goes."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}


def _config_map(
    run: StoredRun, name: str, data: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": run.namespace,
            "labels": job_labels(run.job),
            "annotations": dict(annotations),
        },
        "data": dict(data),
    }
