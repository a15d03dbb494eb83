"""Keep what is known of every job: its ConfigMaps and Pods, as new as anything that was ever seen.

Events of streams and answers to the watcher's own writes meet here, and the newer one counts. So
nothing is decided on a state from before the watcher's own last write (reference defects 48 to 50
of et-operator.md, 50 of training-operator.md).

Whatever others write into the cluster is cut on its way in, and two caps hold for each namespace.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field, structs

from etcompile.compiler.stored import STORED_BYTES
from etcompile.compiler.stored_run import Tracking
from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.k8s.bounds import bounded
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
from etcompile.watch.core.run import Gone, LogRead, ReadLog

REPLICAS = 20_000
"""That the jobs of a namespace may declare together: more are refused before they are read."""
_MIB = 1024 * 1024
_MAPS = 48 * _MIB  # of the stored jobs, run records and host lists of a namespace
_EACH = 2048  # bytes that a ConfigMap takes besides its text
_MOST_GONE = 100  # Pods that are remembered, besides as many as a job has replicas
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "labels")
_READ = {"config": frozenset({STORED_JOB}), "status": KEYS}  # keys; of host lists, all

_View = TypeVar("_View", PodState, BatchView)


class SeenMap(Struct, frozen=True):
    """A ConfigMap as it was last seen."""

    version: int
    name: str
    metadata: Mapping[str, Any]  # without what is long
    data: Mapping[str, str]  # what the watcher reads
    size: int  # bytes that count
    written: float | None  # when, in seconds since 1970; None if it does not say
    problem: str  # why its data is not stored


class Seen(Struct, Generic[_View]):
    """A Pod or a Job of Kubernetes as it was last seen, and since when it has been like that."""

    version: int
    since: float
    view: _View
    logs: Mapping[str, LogRead] = {}  # by purpose


class SeenJob(Struct):
    """All that is known of a job."""

    maps: dict[str, SeenMap] = field(default_factory=dict)  # `config`, `hosts` and `status`
    batch: dict[str, Seen[BatchView]] = field(default_factory=dict)
    pods: dict[str, Seen[PodState]] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)  # the oldest first
    since: float = 0.0  # when its ConfigMap was first seen, in seconds since 1970
    tracking: Tracking | None = None  # what a tool puts on its Pods
    replicas: int = 0  # that count

    @property
    def config(self) -> SeenMap | None:
        return self.maps.get("config")

    @property
    def hosts(self) -> SeenMap | None:
        return self.maps.get("hosts")

    @property
    def status(self) -> SeenMap | None:
        return self.maps.get("status")

    @property
    def config_metadata(self) -> Mapping[str, Any]:
        """Return the metadata of its declared ConfigMap; nothing if that is not there."""
        return self.config.metadata if self.config is not None else {}

    def objects(self, kind: str) -> dict[str, Any]:
        return {"ConfigMap": self.maps, "Job": self.batch, "Pod": self.pods}[kind]  # type: ignore[return-value]


class Store:
    """What is known of all jobs; safe to share between threads.

    Args:
        changed: Called with each job that something was seen of. It must not wait.
        observers: Each adds to the state of a Pod what only a listener reads of it.
        namespaced: Each namespace has a stream of its own; else one shows all of them in order.
    """

    def __init__(
        self,
        changed: Callable[[JobKey], None],
        now: Callable[[], float] = time.time,
        observers: Sequence[Callable[[PodState, Object, PodState | None], PodState]] = (),
        *,
        namespaced: bool = False,
    ) -> None:
        self._changed = changed
        self._now = now
        self._observers = observers
        self._namespaced = namespaced
        self._bytes, self._replicas = _Cap(_MAPS), _Cap(REPLICAS)
        self.refused = False  # something was beyond a cap
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
            dicts = {name: dict(getattr(seen, name)) for name in ("maps", "batch", "pods", "gone")}
            return structs.replace(seen, **dicts)

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
            seen = self._jobs.get(key)
            if seen is None:
                return True  # it has just gone
            fits = self._replicas.take(key[0], seen.replicas, replicas)
            seen.replicas = replicas if fits else 0
            self.refused = self.refused or not fits
            return fits

    # ---- what informers and answers show -------------------------------------------------------

    def observe(
        self,
        kind: str,
        value: Object,
        gone: bool = False,  # noqa: FBT001, FBT002 - an event's value
        *,
        answer: bool = False,
    ) -> None:
        """Observe an object as an event shows it, or an answer that no event has shown."""
        value = bounded(value)
        key, name, version = job_key(value), value["metadata"]["name"], version_of(value)
        if answer and not key[1]:
            return  # it is no job's, and no stream will show its deletion
        slot = _slot(key, value) if kind == "ConfigMap" else name
        with self._lock:
            is_newer = self._is_newer(kind, key[0], version, answer=answer)
            if not slot or not is_newer:
                return
            before = self._owners.get((key[0], name), key) if kind == "Pod" else key
            known = self._jobs[before].objects(kind).get(slot) if before in self._jobs else None
            is_read = not isinstance(known, SeenMap) or not known.problem
            if known is not None and version < known.version + is_read:
                return
            if gone or before != key:
                # A job's ConfigMap may have either of two names.
                other = isinstance(known, SeenMap) and known.name != name
                if known is not None and not other:
                    self._forget(before, kind, slot)
                    self._changed(before)
                known = None
            if not gone:
                put = {"ConfigMap": self._put_map, "Job": self._put_batch, "Pod": self._put_pod}
                if put[kind](key, slot, value, known):  # type: ignore[operator]
                    self._changed(key)

    def _put_pod(self, key: JobKey, name: str, value: Object, known: Seen[PodState] | None) -> bool:
        seen, metadata, version = self._seen(key), value["metadata"], version_of(value)
        tracking = Tracking.of(metadata)
        if (tracking.labels or tracking.annotations) and tracking != seen.tracking:
            seen.tracking = tracking
        if known is not None and known.view.uid != metadata["uid"]:
            self._leaving.discard(known.view.uid)
            known = None
        last = known.view if known is not None else None
        view = pod_state(value, last)
        for observer in self._observers:
            view = observer(view, value, last)
        if view.uid in self._leaving:
            view = structs.replace(view, deleting=True)
        if last is not None and not view.spec_hash:
            # It was created for a run, even if somebody has removed its annotation.
            view = structs.replace(view, spec_hash=last.spec_hash)
        self._owners[key[0], name] = key
        if known is not None and last == view:
            known.version = version
            return False
        # Its log may say more now: it is read again at once.
        logs = known.logs.items() if known is not None else ()
        read_again = {purpose: structs.replace(read, at=0.0) for purpose, read in logs}
        seen.pods[name] = Seen(version, self._now(), view, read_again)
        seen.gone.pop(name, None)
        return True

    def _put_batch(
        self, key: JobKey, name: str, value: Object, known: Seen[BatchView] | None
    ) -> bool:
        view = batch_view(value)
        self._seen(key).batch[name] = Seen(version_of(value), self._now(), view)
        return known is None or known.view != view

    def _put_map(self, key: JobKey, slot: str, value: Object, known: SeenMap | None) -> bool:
        seen, whole, problem = self._seen(key), value["metadata"], ""
        # Reduce it to what the watcher reads.
        data = {k: v for k, v in (value.get("data") or {}).items() if k in _READ.get(slot, (k,))}
        metadata = {k: v for k, v in whole.items() if k in (*_METADATA, "ownerReferences")}
        notes = {k: v for k, v in (whole.get("annotations") or {}).items() if k != LAST_APPLIED}
        size = _EACH + len(msgspec.json.encode((metadata, notes, data)))
        stored = seen.config.data.get(STORED_JOB) if seen.config is not None else None
        if slot == "status" and stored is not None and data.get(RUN) == stored:
            data[RUN] = stored  # the copy of the same text takes no memory
            size -= len(stored)
        if slot == "config" and len(data.get(STORED_JOB, "")) > STORED_BYTES:
            size, problem = 0, f"it is larger than {STORED_BYTES // 1024} KiB"
        before = known.size if known is not None else 0
        if slot == "status" and not self._bytes.fits(key[0], before, size):
            # What explains a failure must not cost the job its supervision.
            say(logging.WARNING, key, "its log of failures is not read: its namespace has too many")
            size -= sum(len(data.pop(k, "")) for k in NOTES)
        if not self._bytes.take(key[0], before, size):
            size, self.refused = 0, True
            problem = f"the ConfigMaps of its namespace's jobs have more than {_MAPS // _MIB} MiB"
        if problem:
            notes, data = {}, {}
        if slot == "config" and known is None:
            seen.since = self._now()
        times = (seconds(manager.get("time")) for manager in whole.get("managedFields") or ())
        written = max(filter(None, times), default=None)
        metadata["annotations"] = notes
        seen.maps[slot] = SeenMap(
            version_of(value), whole["name"], metadata, data, size, written, problem
        )
        return True

    def _seen(self, key: JobKey) -> SeenJob:
        return self._jobs.setdefault(key, SeenJob())

    def left(self, kind: str, place: str | None, listed: Collection[Name], version: int) -> None:
        """Forget objects that a complete list of a namespace, or of all, does not have.

        Args:
            version: What the list is as of; what is newer stays.
        """
        with self._lock:
            self._is_newer(kind, place or "", version)
            for key, seen in [*self._jobs.items()]:
                for slot, known in [*seen.objects(kind).items()]:
                    name = known.name if isinstance(known, SeenMap) else slot
                    is_there = known.version > version or (key[0], name) in listed
                    if place in (None, key[0]) and not is_there:
                        self._forget(key, kind, slot, unseen=True)
                        self._changed(key)

    def _forget(self, key: JobKey, kind: str, slot: str, *, unseen: bool = False) -> None:
        """Forget an object; `unseen`: no event has shown how it went."""
        seen = self._jobs[key]
        known = seen.objects(kind).pop(slot)
        if kind == "Pod":
            self._owners.pop((key[0], slot), None)
            self._leaving.discard(known.view.uid)
            seen.gone.pop(slot, None)
            if seen.maps:
                seen.gone[slot] = Gone(known.view, self._now(), unseen)
                if len(seen.gone) > seen.replicas + _MOST_GONE:
                    del seen.gone[next(iter(seen.gone))]  # followers have other names
        elif kind == "ConfigMap":
            self._bytes.take(key[0], known.size, 0)
            if slot == "config":
                self._replicas.take(key[0], seen.replicas, 0)
                seen.replicas = 0
            if slot != "hosts":
                # Deleting the record of a run begins another one, as `etcompile restart` does: Pods
                # that went in that run are no losses of the next.
                seen.gone.clear()
        if not (seen.maps or seen.pods or seen.batch):
            del self._jobs[key]

    def removed(self, key: JobKey) -> None:
        """Note that a job was deleted: no event has shown it yet."""
        with self._lock:
            if (seen := self._jobs.get(key)) is not None and seen.config is not None:
                self._forget(key, "ConfigMap", "config")
                self._changed(key)

    def leaves(self, key: JobKey, name: str, uid: str) -> None:
        """Note that the deletion of a Pod was requested."""
        with self._lock:
            if (pod := self._pod(key, name, uid)) is not None:
                self._leaving.add(uid)
                pod.view = structs.replace(pod.view, deleting=True, half_deleted=False)

    def observe_log(self, key: JobKey, action: ReadLog, read: LogRead, *, changed: bool) -> None:
        with self._lock:
            if (pod := self._pod(key, action.name, action.uid)) is not None:
                pod.logs = {**pod.logs, action.purpose: read}
                if changed:
                    self._changed(key)

    def _pod(self, key: JobKey, name: str, uid: str) -> Seen[PodState] | None:
        pod = self._jobs[key].pods.get(name) if key in self._jobs else None
        return pod if pod is not None and pod.view.uid == uid else None

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
        self._used = Counter[str]()

    def fits(self, namespace: str, before: int, size: int) -> bool:
        return self._used[namespace] - before + size <= self._most

    def take(self, namespace: str, before: int, size: int) -> bool:
        """Take so much instead of what was taken before; nothing, if that is too much."""
        fits = self.fits(namespace, before, size)
        self._used[namespace] += (size if fits else 0) - before
        if not self._used[namespace]:
            del self._used[namespace]
        return fits


def job_key(value: Object) -> JobKey:
    """Return the namespace and the job of an object; no job if its label names none."""
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def version_of(value: Object) -> int:
    """Return a number that grows with every write, as Kubernetes promises since 1.35."""
    return int(value["metadata"]["resourceVersion"])


def _slot(key: JobKey, value: Object) -> str:
    """Return which of a job's ConfigMaps it is, by its name alone; empty for none."""
    name, job = value["metadata"]["name"], key[1]
    if is_config(value["metadata"]):
        return "config"
    if STORED_JOB in (value.get("data") or {}):
        names = " or ".join(config_names(job))
        why = f"it is labelled {JOB_LABEL}={job}, but the ConfigMap of that job is {names}"
        say(logging.WARNING, key, f"the ConfigMap {name} is ignored: {why}")
    slots = {hosts_name(job): "hosts", status_name(job): "status"} if job else {}
    return slots.get(name, "")
