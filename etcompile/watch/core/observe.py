"""Keep what is known of every job: its ConfigMaps and Pods, as new as anything that was ever seen.

Events of streams and answers to the watcher's own writes meet here, and the newer one counts. So
nothing is decided on a state from before the watcher's own last write (reference defects 48 to 50
of et-operator.md, 50 of training-operator.md).

Whatever others write into the cluster is cut on its way in, and two caps hold for each namespace.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.compiler.stored import STORED_BYTES
from etcompile.compiler.stored_run import Tracking, digest
from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.k8s.objects import Object, seconds
from etcompile.k8s.pod_state import BatchView, PodState, batch_view, pod_state
from etcompile.kubeapi.controller.informer import Name
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import (
    JOB_LABEL,
    STORED_JOB,
    config_names,
    hosts_name,
    is_config,
    status_name,
)
from etcompile.model.run_record import KEYS, NOTES, RUN
from etcompile.watch.core.reports import say
from etcompile.watch.core.view import UNREAD, Gone, LogRead

REPLICAS = 20_000
"""That the jobs of a namespace may declare together: more are refused before they are read."""
_MIB = 1024 * 1024
_MAPS = 48 * _MIB  # of the stored jobs, run records and host lists of a namespace
_EACH = 2048  # bytes that a ConfigMap takes besides its text
_MOST_CONTAINERS = 64  # of a Pod
_LONGEST_TEXT = 4096
_LONGEST_NAME = 317  # a prefix of 253 characters, a slash and a name of 63
_NAMES = frozenset({"name", "namespace", "nodeName", "reason", "type", "uid"})
_SMALL = 16 * 1024  # bytes of an object in which nothing need be cut
_WHOLE = frozenset({"data", "managedFields"})
_METADATA = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp"),
        *("labels", "annotations", "ownerReferences"),
    }
)


def bounded(value: Any) -> Any:
    """Return an object with every text in it cut, and every list of containers."""
    return value if len(msgspec.json.encode(value)) <= _SMALL else _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:_MOST_CONTAINERS]]
    if not isinstance(value, dict):
        return value
    return {
        key[:_LONGEST_NAME]: inner
        if key in _WHOLE
        else inner[:_LONGEST_NAME]
        if key in _NAMES and isinstance(inner, str)
        else _cut(inner)
        for key, inner in value.items()
    }


class SeenMap(Struct, frozen=True):
    """A ConfigMap as it was last seen."""

    version: int
    value: Object  # its metadata, without what is long, and its data
    written: float | None = None  # when, in seconds since 1970; None if it does not say
    problem: str = ""  # why its data is not stored

    @property
    def metadata(self) -> Any:
        return self.value["metadata"]

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def data(self) -> Mapping[str, str]:
        return self.value.get("data") or {}


Observer = Callable[[PodState, Object, PodState | None], PodState]
"""Adds to the state of a Pod what only a listener reads of it."""


class SeenPod(Struct):
    """A Pod as it was last seen, and since when it has been like that."""

    version: int
    since: float
    view: PodState
    logs: Mapping[str, LogRead] = {}  # by purpose


class SeenBatch(Struct, frozen=True):
    """A Job of Kubernetes as it was last seen."""

    version: int
    view: BatchView


class SeenJob(Struct):
    """All that is known of a job."""

    config: SeenMap | None = None
    hosts: SeenMap | None = None
    status: SeenMap | None = None
    batch: dict[str, SeenBatch] = field(default_factory=dict)
    pods: dict[str, SeenPod] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)
    since: float = 0.0  # when its ConfigMap was first seen, in seconds since 1970
    tracking: Tracking | None = None  # what a tool puts on its Pods

    @property
    def config_metadata(self) -> Mapping[str, Any]:
        """Return the metadata of its declared ConfigMap; nothing if that is not there."""
        return self.config.metadata if self.config is not None else {}

    @property
    def maps(self) -> dict[str, SeenMap]:
        maps = {"config": self.config, "hosts": self.hosts, "status": self.status}
        return {slot: seen for slot, seen in maps.items() if seen is not None}


class Store:
    """What is known of all jobs; safe to share between threads.

    Args:
        changed: Called with each job that something was seen of. It must not wait.
        namespaced: Each namespace has a stream of its own; else one shows all of them in order.
    """

    def __init__(
        self,
        changed: Callable[[JobKey], None],
        now: Callable[[], float] = time.time,
        observers: Sequence[Observer] = (),
        *,
        namespaced: bool = False,
    ) -> None:
        self._changed = changed
        self._now = now
        self._observers = observers
        self._namespaced = namespaced
        self._bytes, self._replicas = _Cap(_MAPS), _Cap(REPLICAS)
        self._refused = False  # something was beyond a cap
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, SeenJob] = {}
        # The job of each Pod: a new label makes it another job's.
        self._owners: dict[Name, JobKey] = {}
        # UIDs whose deletion was requested and not yet seen: an older event must not undo it.
        self._leaving: set[str] = set()
        self._reached: dict[tuple[str, str], int] = {}  # versions that each stream has shown

    # ---- what reconciliations read -------------------------------------------------------------

    def job(self, key: JobKey) -> SeenJob | None:
        """Return what is known of a job, as of now: a copy that does not change."""
        with self._lock:
            seen = self._jobs.get(key)
            if seen is None:
                return None
            pods, gone, batch = dict(seen.pods), dict(seen.gone), dict(seen.batch)
            return structs.replace(seen, pods=pods, gone=gone, batch=batch)

    def known(self) -> list[JobKey]:
        with self._lock:
            return [*self._jobs]

    def counts(self) -> tuple[int, int]:
        with self._lock:
            jobs = sum(seen.config is not None for seen in self._jobs.values())
            return jobs, sum(len(seen.pods) for seen in self._jobs.values())

    def counts_replicas(self, key: JobKey, replicas: int) -> bool:
        """Count the replicas of a job until its ConfigMap goes; false if they are too many."""
        with self._lock:
            fits = self._replicas.take(key[0], (key, "config"), replicas)
            self._refused = self._refused or not fits
            return fits

    def may_read_again(self) -> bool:
        """Return whether something was beyond a cap, so that it is worth a try now."""
        with self._lock:
            refused, self._refused = self._refused, False
            return refused

    def forget_gone(self, key: JobKey, most: int) -> None:
        """Forget all but the newest Pods that have gone: followers have other names."""
        with self._lock:
            seen = self._jobs.get(key)
            if seen is not None:
                for name in [*seen.gone][: max(0, len(seen.gone) - most)]:
                    del seen.gone[name]

    # ---- Pods ----------------------------------------------------------------------------------

    def observe_pod(self, value: Object, *, gone: bool = False, answer: bool = False) -> None:
        """Observe a Pod as an event shows it, or an answer that no event has shown."""
        key, name, version = job_key(value), value["metadata"]["name"], version_of(value)
        if answer and not key[1]:
            return  # it is no job's, and no stream will show its deletion
        with self._lock:
            if not self._is_newer("Pod", key[0], version, answer=answer):
                return
            changed = self._forget_pod(key, name, version) if gone else self._put_pod(key, value)
        if changed:
            self._changed(key)

    def leaves(self, key: JobKey, name: str, uid: str) -> None:
        with self._lock:
            pod = self._pod(key, name, uid)
            if pod is not None:
                self._leaving.add(uid)
                pod.view = structs.replace(pod.view, deleting=True, half_deleted=False)

    def log(self, key: JobKey, name: str, uid: str, purpose: str) -> LogRead:
        with self._lock:
            pod = self._pod(key, name, uid)
            return pod.logs.get(purpose, UNREAD) if pod is not None else UNREAD

    def observe_log(
        self, key: JobKey, name: str, uid: str, purpose: str, read: LogRead, *, changed: bool
    ) -> None:
        with self._lock:
            pod = self._pod(key, name, uid)
            if pod is None:
                return
            pod.logs = {**pod.logs, purpose: read}
        if changed:
            self._changed(key)

    def _pod(self, key: JobKey, name: str, uid: str) -> SeenPod | None:
        pod = self._jobs[key].pods.get(name) if key in self._jobs else None
        return pod if pod is not None and pod.view.uid == uid else None

    def _put_pod(self, key: JobKey, value: Object) -> bool:
        name, version = value["metadata"]["name"], version_of(value)
        before = self._owners.get((key[0], name), key)
        if before != key and self._forget_pod(before, name, version):
            self._changed(before)
        seen = self._jobs.setdefault(key, SeenJob())
        known = seen.pods.get(name)
        if known is not None and known.version >= version:
            return False
        tracking = Tracking.of(value["metadata"])
        if (tracking.labels or tracking.annotations) and tracking != seen.tracking:
            seen.tracking = tracking
        same = known if known is not None and known.view.uid == value["metadata"]["uid"] else None
        last = same.view if same is not None else None
        view = pod_state(value, last)
        for observe in self._observers:
            view = observe(view, value, last)
        if view.uid in self._leaving:
            view = structs.replace(view, deleting=True)
        if known is not None and same is None:
            self._leaving.discard(known.view.uid)
        if last is not None and not view.spec_hash:
            # It was created for a run, even if somebody has removed its annotation.
            view = structs.replace(view, spec_hash=last.spec_hash)
        self._owners[key[0], name] = key
        if known is not None and known.view == view:
            known.version = version
            return False
        # Its log may say more now: it is read again at once.
        logs = (
            {purpose: structs.replace(r, at=0.0) for purpose, r in same.logs.items()}
            if same
            else {}
        )
        seen.pods[name] = SeenPod(version, self._now(), view, logs)
        seen.gone.pop(name, None)
        return True

    def _forget_pod(self, key: JobKey, name: str, version: int, *, unseen: bool = False) -> bool:
        seen = self._jobs.get(key)
        known = seen.pods.get(name) if seen else None
        if seen is None or known is None or known.version > version:
            return False
        del seen.pods[name]
        self._owners.pop((key[0], name), None)
        self._leaving.discard(known.view.uid)
        seen.gone.pop(name, None)
        if seen.maps:
            seen.gone[name] = Gone(known.view, self._now(), unseen)
        self._drop(key)
        return True

    # ---- ConfigMaps ----------------------------------------------------------------------------

    def observe_map(self, value: Object, *, gone: bool = False, answer: bool = False) -> None:
        """Observe a ConfigMap as an event shows it, or an answer that no event has shown."""
        key, version = job_key(value), version_of(value)
        # Its name alone says which of a job's ConfigMaps it is.
        name, job = value["metadata"]["name"], key[1]
        slots = {hosts_name(job): "hosts", status_name(job): "status"} if job else {}
        slot = "config" if is_config(value["metadata"]) else slots.get(name)
        if slot is None and not gone and STORED_JOB in (value.get("data") or {}):
            names = " or ".join(config_names(job))
            why = f"it is labelled {JOB_LABEL}={job}, but the ConfigMap of that job is {names}"
            say(logging.WARNING, key, f"the ConfigMap {name} is ignored: {why}")
        with self._lock:
            newer = self._is_newer("ConfigMap", key[0], version, answer=answer)
            if slot is None or not newer:
                return
            seen = self._jobs.setdefault(key, SeenJob())
            changed = self._put_map(key, seen, slot, value, gone=gone)
            self._drop(key)
        if changed:
            self._changed(key)

    def _put_map(self, key: JobKey, seen: SeenJob, slot: str, value: Object, *, gone: bool) -> bool:
        version = version_of(value)
        known: SeenMap | None = getattr(seen, slot)
        if known is not None and version <= known.version - bool(known.problem):
            return False
        if gone:
            if known is not None and known.name != value["metadata"]["name"]:
                return False  # the other name that a job's ConfigMap may have
            self._forget_map(key, seen, slot)
            return known is not None
        reduced, problem, owner = _slim(value, slot), "", (key, slot)
        size = len(msgspec.json.encode(reduced)) + _EACH
        if slot == "status" and not self._bytes.take(key[0], owner, size):
            # What explains a failure must not cost the job its supervision.
            say(logging.WARNING, key, "its log of failures is not read: its namespace has too many")
            data = {k: text for k, text in reduced["data"].items() if k not in NOTES}
            reduced, size = {**reduced, "data": data}, sum(map(len, data.values())) + _EACH
        if slot == "config" and len(reduced["data"].get(STORED_JOB, "")) > STORED_BYTES:
            problem = f"it is larger than {STORED_BYTES // 1024} KiB"
        elif not self._bytes.take(key[0], owner, size):
            problem = f"the ConfigMaps of its namespace's jobs have more than {_MAPS // _MIB} MiB"
            self._refused = True
        if problem:
            self._bytes.take(key[0], owner, 0)
            metadata = {k: v for k, v in reduced["metadata"].items() if k != "annotations"}
            reduced = {"metadata": metadata, "data": {}}
        if known is None and slot == "config":
            seen.since = self._now()
        managers = value["metadata"].get("managedFields") or ()
        times = filter(None, (seconds(manager.get("time")) for manager in managers))
        setattr(seen, slot, SeenMap(version, reduced, max(times, default=None), problem))
        return True

    def _forget_map(self, key: JobKey, seen: SeenJob, slot: str) -> None:
        setattr(seen, slot, None)
        self._bytes.take(key[0], (key, slot), 0)
        self._replicas.take(key[0], (key, slot), 0)
        if slot != "hosts":
            # Deleting the record of a run begins another one, as `etcompile restart` does: Pods
            # that went in that run are no losses of the next.
            seen.gone.clear()

    def observe_batch(self, value: Object, *, gone: bool = False) -> None:
        key, name, version = job_key(value), value["metadata"]["name"], version_of(value)
        with self._lock:
            seen = self._jobs.setdefault(key, SeenJob())
            known = seen.batch.get(name)
            if known is not None and known.version >= version:
                return
            new = SeenBatch(version, batch_view(value))
            if gone:
                seen.batch.pop(name, None)
                self._drop(key)
            else:
                seen.batch[name] = new
        if gone or known is None or known.view != new.view:
            self._changed(key)

    def left(self, kind: str, place: str | None, listed: Collection[Name], version: int) -> None:
        """Forget objects that a complete list of a namespace, or of all, does not have.

        Args:
            version: What the list is as of; what is newer stays.
        """
        changed = set()
        with self._lock:
            self._is_newer(kind, place or "", version)
            for key, seen in [*self._jobs.items()]:
                if place not in (None, key[0]):
                    continue
                objects: Any = {"Pod": seen.pods, "Job": seen.batch, "ConfigMap": seen.maps}[kind]
                for slot, known in [*objects.items()]:
                    name = known.name if isinstance(known, SeenMap) else slot
                    if known.version > version or (key[0], name) in listed:
                        continue
                    changed.add(key)
                    if kind == "Pod":
                        self._forget_pod(key, name, version, unseen=True)
                    elif kind == "Job":
                        del seen.batch[name]
                    else:
                        self._forget_map(key, seen, slot)
                self._drop(key)
        for key in changed:
            self._changed(key)

    def _drop(self, key: JobKey) -> None:
        seen = self._jobs.get(key)
        if seen is not None and not (seen.maps or seen.pods or seen.batch):
            del self._jobs[key]

    def _is_newer(self, kind: str, namespace: str, version: int, *, answer: bool = False) -> bool:
        """Return whether a version may be new; if it is no answer, a stream has shown it.

        An answer that is not newer must not add anything: what it shows may have vanished since,
        which a stream shows once.
        """
        stream = kind, namespace if self._namespaced else ""
        reached = self._reached.get(stream, 0)
        if not answer:
            self._reached[stream] = max(version, reached)
        return not answer or version > reached


class _Cap:
    """How much of something each namespace may have."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[str, dict[tuple[JobKey, str], int]] = {}

    def take(self, namespace: str, owner: tuple[JobKey, str], size: int) -> bool:
        """Take so much for an owner, instead of what it had; nothing, if that is too much."""
        sizes = self._sizes.setdefault(namespace, {})
        sizes.pop(owner, None)
        fits = sum(sizes.values()) + size <= self._most
        if fits and size:
            sizes[owner] = size
        if not sizes:
            del self._sizes[namespace]
        return fits


def job_key(value: Object) -> JobKey:
    """Return the namespace and the job of an object; no job if its label names none."""
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def version_of(value: Object) -> int:
    """Return a number that grows with every write, as Kubernetes promises since 1.35."""
    return int(value["metadata"]["resourceVersion"])


def _slim(value: Object, slot: str) -> Object:
    """Return a ConfigMap reduced to what the watcher reads."""
    data = value.get("data") or {}
    read = {"config": frozenset({STORED_JOB}), "status": KEYS}.get(slot)
    if read is not None:
        data = {key: text for key, text in data.items() if key in read}
    metadata = {k: v for k, v in value["metadata"].items() if k in _METADATA}
    if slot == "status" and RUN in data:
        data = {**data, RUN: digest(data[RUN])}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    return {"metadata": {**metadata, "annotations": notes}, "data": data}
