"""Objects of a job as they were last seen, without what nobody reads here."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.k8s.objects import Object
from etcompile.model.protocol import JOB_LABEL, STORED_JOB
from etcompile.model.run_record import KEYS, RUN, RunRecord, recorded_replicas
from etcompile.watch.job_view import UNREAD, Gone, PodLog, digest
from etcompile.watch.pod_edits import Tracking
from etcompile.watch.pod_view import BatchView, PodView
from etcompile.watch.stored_run import StoredRun
from etcompile.watch.workqueue import JobKey

_EACH_REPLICA = 128
"""Bytes that a replica of a run record takes while the record is read."""
_IN_MEMORY = 7
"""Bytes that a byte of a stored job takes once it is read."""
_METADATA = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
        *("labels", "annotations", "ownerReferences"),
    }
)


class SeenPod(Struct):
    """A Pod as it was last seen, and since when it has been like that."""

    version: int
    since: float
    view: PodView
    log: PodLog = UNREAD


class SeenBatch(Struct, frozen=True):
    """A Job of Kubernetes as it was last seen."""

    version: int
    view: BatchView


class SeenMap(Struct, frozen=True):
    """A ConfigMap as it was last seen.

    Args:
        version: Its resource version, as a number to compare.
        value: Its metadata, without what is long, and its data.
        written: When it was last written, in seconds since 1970; None if it does not say.
        problem: Why its data is not kept; empty if it is.
    """

    version: int
    value: Object
    written: float | None = None
    problem: str = ""

    @property
    def metadata(self) -> Any:
        """Its metadata."""
        return self.value["metadata"]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.metadata["name"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.get("annotations") or {}

    @property
    def data(self) -> Mapping[str, str]:
        """Its data."""
        return self.value.get("data") or {}


class SeenJob(Struct):
    """All that is known of a job.

    Args:
        since: When its ConfigMap was first seen, in seconds since 1970.
        tracking: What a tool puts on its Pods; None if it puts nothing there.
        crowded: Not all of its Pods could be kept: what is not there is not known.
    """

    config: SeenMap | None = None
    hosts: SeenMap | None = None
    status: SeenMap | None = None
    batch: dict[str, SeenBatch] = field(default_factory=dict)
    pods: dict[str, SeenPod] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)
    since: float = 0.0
    tracking: Tracking | None = None
    crowded: bool = False

    @property
    def maps(self) -> list[SeenMap]:
        """The three ConfigMaps of the job, those that are there."""
        return [seen for seen in (self.config, self.hosts, self.status) if seen is not None]


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided."""

    key: JobKey
    run: StoredRun
    seen: SeenJob
    record: RunRecord | None


def job_key(value: Object) -> JobKey:
    """The namespace and the job of an object; the latter is empty if its label names none."""
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def version_of(value: Object) -> int:
    """A number that grows with every write to the cluster, as Kubernetes promises since 1.35."""
    return int(value["metadata"]["resourceVersion"])


def slim(value: Object, slot: str) -> tuple[Object, int]:
    """A ConfigMap without what nobody reads here, and how many bytes that takes.

    Scripts, who owns which field, and kubectl's copy of the whole are left out.
    """
    data = value.get("data") or {}
    wanted = {"config": frozenset({STORED_JOB}), "status": KEYS}.get(slot)
    if wanted is not None:
        data = {key: text for key, text in data.items() if key in wanted}
    metadata = {k: v for k, v in value["metadata"].items() if k in _METADATA}
    if slot == "status" and RUN in data:
        data = {**data, RUN: digest(data[RUN])}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    reduced = {"metadata": {**metadata, "annotations": notes}, "data": data}
    size = len(msgspec.json.encode(reduced))
    if slot == "status":
        size += recorded_replicas(data) * _EACH_REPLICA
    return reduced, size * _IN_MEMORY if slot == "config" else size


def unwritable(value: Object) -> str:
    """What a ConfigMap has that no watcher writes, nor can take away; empty if nothing."""
    if value.get("binaryData"):
        return f"it has binaryData ({min(value['binaryData'])[:50]}), which no watcher writes"
    return "it is immutable, so no watcher can write it" if value.get("immutable") else ""


def identity(value: Object) -> Object:
    """The metadata by which an object is reported and written."""
    known = ("name", "namespace", "uid", "resourceVersion")
    metadata = {key: value["metadata"][key] for key in known if key in value["metadata"]}
    job = job_key(value)[1]
    return {**metadata, "labels": {JOB_LABEL: job}} if job else metadata
