"""The three ConfigMaps of a job: as they were seen, and as the watcher writes its own two.

`J-hosts` goes with the job's ConfigMap; `J-status` outlives it, or a job that is synced again would
train again (reference/gitops.md 9).
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from etcompile.backend.identity import job_labels
from etcompile.compiler.stored_run import StoredRun, digest
from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.k8s.objects import Object
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import COMPLETED, JOB_LABEL, STORED_JOB, hosts_name, status_name
from etcompile.model.run_record import KEYS, RUN, record_data
from etcompile.watch.core.actions import WriteHosts, WriteStatus
from etcompile.watch.core.hostfile import succeeded
from etcompile.watch.core.view import ANCHOR

_METADATA = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
        *("labels", "annotations", "ownerReferences"),
    }
)


class SeenMap(Struct, frozen=True):
    """A ConfigMap as it was last seen."""

    version: int
    value: Object  # its metadata, without what is long, and its data
    written: float | None = None  # when, in seconds since 1970; None if it does not say
    problem: str = ""  # why its data is not kept; empty if it is

    @property
    def metadata(self) -> Any:
        """Its metadata."""
        return self.value["metadata"]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.metadata["name"])

    @property
    def data(self) -> Mapping[str, str]:
        """Its data."""
        return self.value.get("data") or {}


def job_key(value: Object) -> JobKey:
    """The namespace and the job of an object; the latter is empty if its label names none."""
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def version_of(value: Object) -> int:
    """A number that grows with every write to the cluster, as Kubernetes promises since 1.35."""
    return int(value["metadata"]["resourceVersion"])


def slim(value: Object, slot: str) -> tuple[Object, int]:
    """Return a ConfigMap without what nobody reads here, and how many bytes that takes."""
    data = value.get("data") or {}
    wanted = {"config": frozenset({STORED_JOB}), "status": KEYS}.get(slot)
    if wanted is not None:
        data = {key: text for key, text in data.items() if key in wanted}
    metadata = {k: v for k, v in value["metadata"].items() if k in _METADATA}
    if slot == "status" and RUN in data:
        data = {**data, RUN: digest(data[RUN])}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    reduced = {"metadata": {**metadata, "annotations": notes}, "data": data}
    return reduced, len(msgspec.json.encode(reduced))


_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows them as children of the job, and need not look at each change."""


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    """Return the ConfigMap that an action wants."""
    job, notes = run.job, _QUIET
    if isinstance(action, WriteStatus):
        name, data = status_name(job.name), record_data(action.record)
        if (done := succeeded(job, action.record)) is not None:
            # What gates read that wait for roles to succeed: the run, and each of these roles.
            data[COMPLETED] = "".join(f"{line}\n" for line in (action.record.run, *done))
        data |= action.notes
        if run.copy_digest is not None:
            data[RUN] = run.text
    else:
        name, data = hosts_name(job.name), {**action.hosts.data}
        notes = {**_QUIET, ANCHOR: msgspec.json.encode(action.hosts.anchors).decode()}
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
    marks = {key: metadata[key] for key in ("labels", "ownerReferences") if key in metadata}
    if known.metadata.get("ownerReferences"):
        marks.setdefault("ownerReferences", None)
    return {
        "metadata": {
            **marks,
            "annotations": metadata["annotations"],
            "resourceVersion": known.metadata["resourceVersion"],
        },
        "data": {**data, **dict.fromkeys(known.data.keys() - body["data"].keys())},
    }


def owned(value: Object, config: SeenMap | None) -> dict[str, Any]:
    """Return an object that goes when the job's ConfigMap goes."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}
