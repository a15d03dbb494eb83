"""What is known of every job: its ConfigMaps and Pods, as new as anything that was ever seen.

Events of streams and answers to the watcher's own writes meet here, and the newer one counts, so
that nothing is ever decided on a state from before the watcher's own last write (reference defects
48 to 50 of et-operator.md, 50 of training-operator.md). A Pod is a few hundred bytes: its view is
made the moment it is seen, and nothing else of it is kept.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct, field, structs

from etcompile.compiler.stored import STORED_BYTES
from etcompile.k8s.objects import Object, seconds
from etcompile.model.protocol import JOB_LABEL, STORED_JOB, hosts_name, is_config, status_name
from etcompile.model.run_record import KEYS, RUN, recorded_replicas
from etcompile.model.sizes import LAST_APPLIED
from etcompile.watch.reflector import Name
from etcompile.watch.room import RECORD_BYTES, REPLICA_BYTES, Room
from etcompile.watch.state import (
    BatchView,
    EpochLog,
    Gone,
    LogActivity,
    PodView,
    Tail,
    batch_view,
    digest,
    pod_view,
    size_of,
    without_details,
)
from etcompile.watch.tracking_labels import Tracking
from etcompile.watch.workqueue import JobKey

_MOST_STRAYS = 10
"""ConfigMaps of a job that are none of the three, and that are remembered to be told of."""
_MOST_UNKEPT = 1000
"""ConfigMaps that there is no room for, and that are told of all the same."""
_EACH_POD = 1536
"""Bytes that a Pod takes besides its text: its view, and what points to it."""
_EACH_REPLICA = 128
"""Bytes that a replica of a run record takes while the record is read."""
_IN_MEMORY = 7
"""Bytes that a byte of a stored job takes once it is read."""


class SeenPod(Struct):
    """A Pod as it was last seen.

    Args:
        version: Its resource version.
        since: When its view last changed, in seconds since 1970.
        view: What the rules see of it.
        heard: What is known of its log, if somebody has asked.
        tail: The last lines of it, if somebody has asked for them.
        epochs: What it says of epochs, if somebody has asked.
    """

    version: int
    since: float
    view: PodView
    heard: LogActivity | None = None
    tail: Tail | None = None
    epochs: EpochLog | None = None


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
    def name(self) -> str:
        """Its name."""
        return str(self.value["metadata"]["name"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.value["metadata"].get("annotations") or {}

    @property
    def data(self) -> Mapping[str, str]:
        """Its data."""
        return self.value.get("data") or {}


class SeenJob(Struct):
    """All that is known of a job.

    Args:
        config: Its ConfigMap that Git declares, if it is there.
        hosts: The live host lists.
        status: The run record.
        batch: The Jobs of Kubernetes that make Pods of it, by name.
        pods: Its Pods by name.
        gone: Pods that vanished, by name, until one of that name is there again.
        since: When its ConfigMap was first seen, in seconds since 1970.
        tracking: What a tool puts on its Pods; None if it puts nothing there.
        strays: ConfigMaps with its label and a stored job that are not the one of its name.
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
    strays: dict[str, SeenMap] = field(default_factory=dict)
    crowded: bool = False

    @property
    def maps(self) -> list[SeenMap]:
        """The three ConfigMaps of the job, those that are there."""
        return [
            config_map
            for config_map in (self.config, self.hosts, self.status)
            if config_map is not None
        ]

    @property
    def empty(self) -> bool:
        """Whether nothing of it is left."""
        return not (self.maps or self.pods or self.batch or self.strays)


class Store:
    """What is known of all jobs; safe to share between threads.

    Args:
        changed: Is told which job something was seen of. It must not wait for anything.
        room: For what ConfigMaps hold.
        now: The time, in seconds since 1970, by the clock that the times in objects are of.
    """

    def __init__(
        self, changed: Callable[[JobKey], None], room: Room, now: Callable[[], float] = time.time
    ) -> None:
        self._changed = changed
        self._now = now
        self._room = room
        self._unkept: set[tuple[JobKey, str]] = set()
        self.rooms = 0
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, SeenJob] = {}
        # Whose each Pod is: somebody may give it another label, and then it is another job's.
        self._whose: dict[Name, JobKey] = {}
        # Asked to go, and not yet seen to: an older event must not bring them back.
        self._leaving: set[str] = set()
        self._told_pods, self._told_maps = _Told(), _Told()

    # ---- what the loop asks --------------------------------------------------------------------

    def job(self, key: JobKey) -> SeenJob | None:
        """What is known of a job, as of now: a copy that does not change."""
        with self._lock:
            seen = self._jobs.get(key)
            if seen is None:
                return None
            config = seen.config
            if config is not None and seen.crowded:
                problem = "the watcher has no memory left for its Pods"
                config = structs.replace(config, problem=config.problem or problem)
            return structs.replace(
                seen,
                config=config,
                pods=dict(seen.pods),
                gone=dict(seen.gone),
                batch=dict(seen.batch),
                strays=dict(seen.strays),
            )

    def has_room(self, key: JobKey, size: int) -> bool:
        """Takes room for what a job is once it is compiled; false if there is not as much.

        Args:
            key: The job. Its room is given back when its ConfigMap goes.
            size: Bytes.
        """
        with self._lock:
            return self._room.take(key[0], key, size)

    def most_replicas(self, namespace: str) -> int:
        """How many replicas there is room for in a namespace."""
        with self._lock:
            return self._room.left(namespace) // REPLICA_BYTES

    def has_room_again(self) -> bool:
        """Whether to list everything again, because what was turned away may have room now."""
        with self._lock:
            if not self._room.has_room_again():
                return False
            self.rooms += 1
            self._unkept.clear()
            for seen in self._jobs.values():
                seen.crowded = False
            return True

    def list_again(self) -> None:
        """Everything is to be listed again after all."""
        with self._lock:
            self._room.ask_again()

    def known(self) -> list[JobKey]:
        """All jobs of which anything is known."""
        with self._lock:
            return [*self._jobs]

    def counts(self) -> tuple[int, int]:
        """How many jobs there are, and how many Pods."""
        with self._lock:
            jobs = sum(seen.config is not None for seen in self._jobs.values())
            return jobs, sum(len(seen.pods) for seen in self._jobs.values())

    # ---- what was seen -------------------------------------------------------------------------

    def saw_pod(self, value: Object, *, gone: bool = False, answer: bool = False) -> None:
        """A Pod as an event or an answer shows it.

        Args:
            value: The Pod, JSON.
            gone: Whether it is there no more.
            answer: Whether a request was answered with it, and no stream has told of it.
        """
        key, name, version = _job_key(value), value["metadata"]["name"], _version(value)
        if answer and not key[1]:
            return  # it is no job's, and no stream will tell when it goes
        with self._lock:
            if not self._told_pods.is_news(key[0], version, answer=answer):
                return
            told = self._forget_pod(key, name, version) if gone else self._put_pod(key, value)
        if told:
            self._changed(key)

    def _pod(self, key: JobKey, name: str, uid: str) -> SeenPod | None:
        """The Pod of that name, if it is still the one with this UID."""
        seen = self._jobs.get(key)
        pod = seen.pods.get(name) if seen else None
        return pod if pod is not None and pod.view.uid == uid else None

    def leaves(self, key: JobKey, name: str, uid: str) -> None:
        """A Pod was asked to go, and the API server agreed."""
        with self._lock:
            pod = self._pod(key, name, uid)
            if pod is not None:
                self._leaving.add(uid)
                pod.view = structs.replace(pod.view, deleting=True, half_deleted=False)

    def saw_log(
        self, key: JobKey, name: str, uid: str, log: LogActivity | Tail | EpochLog, *, news: bool
    ) -> None:
        """Somebody reads the log of a Pod, or has read it; is that news for the job?"""
        with self._lock:
            pod = self._pod(key, name, uid)
            if pod is None:
                return
            match log:
                case LogActivity():
                    pod.heard = log
                case EpochLog():
                    pod.epochs = log
                case Tail(lines=lines):
                    size = sum(map(len, lines or ()))
                    fits = self._room.take(key[0], (key, "tail", name), size)
                    pod.tail = log if fits else structs.replace(log, lines=())
        if news:
            self._changed(key)

    def forget_gone(self, key: JobKey, most: int) -> None:
        """Forgets all but the newest Pods that have gone: who followed others has another name.

        Args:
            key: The job.
            most: How many are remembered.
        """
        with self._lock:
            seen = self._jobs.get(key)
            if seen is not None:
                self._forget_gone(key, seen, [*seen.gone][: max(0, len(seen.gone) - most)])

    def _forget_gone(self, key: JobKey, seen: SeenJob, names: Iterable[str]) -> None:
        for name in names:
            del seen.gone[name]
            self._room.give_back((key, "gone", name))

    def saw_map(self, value: Object, *, gone: bool = False, answer: bool = False) -> None:
        """A ConfigMap as an event or an answer shows it.

        Args:
            value: The ConfigMap, JSON.
            gone: Whether it is there no more.
            answer: Whether a request was answered with it, and no stream has told of it.
        """
        key, slot, version = _job_key(value), _slot(value), _version(value)
        with self._lock:
            if not self._told_maps.is_news(key[0], version, answer=answer):
                return
            seen = self._jobs.setdefault(key, SeenJob())
            told = self._put_map(key, seen, slot, value, gone=gone) if slot else False
            if slot is None:
                told = self._put_stray(key, seen, value, gone=gone)
            self._drop(key)
        if told:
            self._changed(key)

    def _put_map(self, key: JobKey, seen: SeenJob, slot: str, value: Object, *, gone: bool) -> bool:
        """Keeps one of a job's three ConfigMaps; whether that is news."""
        version = _version(value)
        known: SeenMap | None = getattr(seen, slot)
        if known is not None and version <= known.version - bool(known.problem):
            return False
        if gone:
            if known is not None and known.name != value["metadata"]["name"]:
                return False  # the other name that a job's ConfigMap may have
            self._forget_map(key, seen, slot)
            return known is not None
        slim, size = _slim(value, slot)
        problem = _too_large(slim, slot) or (unwritable(value) if slot != "config" else "")
        if not problem and not self._room.take(key[0], (key, slot), size):
            problem = "the watcher has no room for what it holds: ConfigMaps of jobs are too many"
        self._unkept.discard((key, slot))
        if problem:
            self._room.give_back((key, slot))
            slim = {"metadata": _identity(value), "data": {}}
            if len(self._unkept) >= _MOST_UNKEPT:
                # Even what is only told of takes memory, and must not without bound.
                self._forget_map(key, seen, slot)
                return known is not None
            self._unkept.add((key, slot))
        if known is None and slot == "config":
            seen.since = self._now()
        setattr(seen, slot, SeenMap(version, slim, _written(value), problem))
        return True

    def _forget_map(self, key: JobKey, seen: SeenJob, slot: str) -> None:
        self._room.give_back((key, slot))
        self._unkept.discard((key, slot))
        if slot == "config":
            self._room.give_back(key)
            self._forget_gone(key, seen, [*seen.gone])
        setattr(seen, slot, None)
        if slot == "status":
            # Whoever deletes the record of a run begins another, as `etcompile restart` does: what
            # was seen to go in that run is no loss of the next.
            self._forget_gone(key, seen, [*seen.gone])

    def _put_stray(self, key: JobKey, seen: SeenJob, value: Object, *, gone: bool) -> bool:
        """Remembers a ConfigMap that looks like the job's own, to tell of it."""
        name, version = value["metadata"]["name"], _version(value)
        known = seen.strays.get(name)
        if gone or STORED_JOB not in (value.get("data") or {}):
            self._forget_stray(key, seen, name)
            return False
        if known is None and len(seen.strays) >= _MOST_STRAYS:
            return False
        if not self._room.take(key[0], (key, "stray", name), 0):
            return False
        seen.strays[name] = SeenMap(version, {"metadata": _identity(value), "data": {}})
        return known is None

    def _forget_stray(self, key: JobKey, seen: SeenJob, name: str) -> None:
        seen.strays.pop(name, None)
        self._room.give_back((key, "stray", name))

    def saw_batch(self, value: Object, *, gone: bool = False) -> None:
        """A Job of Kubernetes as an event shows it.

        Args:
            value: The Job, JSON.
            gone: Whether it is there no more.
        """
        key, name, version = _job_key(value), value["metadata"]["name"], _version(value)
        with self._lock:
            seen = self._jobs.setdefault(key, SeenJob())
            known = seen.batch.get(name)
            if known is not None and known.version >= version:
                return
            view = batch_view(value)
            told = gone or known is None or known.view != view
            if gone:
                seen.batch.pop(name, None)
            else:
                seen.batch[name] = SeenBatch(version, view)
            self._drop(key)
        if told:
            self._changed(key)

    # ---- what a complete list does not have ----------------------------------------------------

    def _in(self, place: str | None) -> list[tuple[JobKey, SeenJob]]:
        """The jobs of a namespace, or all."""
        return [(key, seen) for key, seen in self._jobs.items() if place in (None, key[0])]

    def left_pods(self, place: str | None, listed: set[Name], version: int) -> None:
        """Forgets Pods that a complete list does not have."""
        with self._lock:
            self._told_pods.tells(place, version)
            told = {
                key
                for key, seen in self._in(place)
                for name, pod in [*seen.pods.items()]
                if (key[0], name) not in listed and pod.version <= version
                if self._forget_pod(key, name, version, unseen=True)
            }
        for key in told:
            self._changed(key)

    def left_batch(self, place: str | None, listed: set[Name], version: int) -> None:
        """Forgets Jobs that a complete list does not have."""
        told = set()
        with self._lock:
            for key, seen in self._in(place):
                for name, known in [*seen.batch.items()]:
                    if (key[0], name) not in listed and known.version <= version:
                        del seen.batch[name]
                        told.add(key)
                self._drop(key)
        for key in told:
            self._changed(key)

    def left_maps(self, place: str | None, listed: set[Name], version: int) -> None:
        """Forgets ConfigMaps that a complete list does not have."""
        told = set()
        with self._lock:
            self._told_maps.tells(place, version)
            for key, seen in self._in(place):
                for slot in ("config", "hosts", "status"):
                    known: SeenMap | None = getattr(seen, slot)
                    if known is None or known.version > version:
                        continue
                    if (key[0], known.name) not in listed:
                        self._forget_map(key, seen, slot)
                        told.add(key)
                for name, stray in [*seen.strays.items()]:
                    if (key[0], name) not in listed and stray.version <= version:
                        self._forget_stray(key, seen, name)
                self._drop(key)
        for key in told:
            self._changed(key)

    def _put_pod(self, key: JobKey, value: Object) -> bool:
        name, version = value["metadata"]["name"], _version(value)
        before = self._whose.get((key[0], name), key)
        if before != key and self._forget_pod(before, name, version):
            self._changed(before)
        seen = self._jobs.setdefault(key, SeenJob())
        known = seen.pods.get(name)
        if known is not None and known.version >= version:
            return False
        tracking = Tracking.of(value["metadata"])
        if tracking.marked and tracking != seen.tracking:
            seen.tracking = tracking
        same = known is not None and known.view.uid == value["metadata"]["uid"]
        view = pod_view(value, known.view.spans if known is not None and same else ())
        if view.uid in self._leaving:
            view = structs.replace(view, deleting=True)
        if known is not None and known.view.uid != view.uid:
            self._leaving.discard(known.view.uid)
        if known is not None and same and not view.spec_hash:
            # It was created for a run: taking its annotation away does not change that.
            view = structs.replace(view, spec_hash=known.view.spec_hash)
        if known is None or known.view != view:
            what = key, "pod", name
            if not self._room.take(key[0], what, size_of(view), _EACH_POD):
                self._forget_gone(key, seen, [*seen.gone])
                view = without_details(view)
                if not self._room.take(key[0], what, size_of(view), _EACH_POD):
                    # A Pod that is not kept must not look like one that is missing.
                    self._forget_pod(key, name, version)
                    if key in self._jobs:
                        seen.crowded = True
                        self._drop(key)
                    return True
        self._whose[key[0], name] = key
        if known is not None and known.view == view:
            known.version = version
            return False
        heard = known.heard if known is not None and same else None
        tail = known.tail if known is not None and same else None
        seen.pods[name] = SeenPod(version, self._now(), view, heard, tail)
        self._forget_gone(key, seen, {name} & seen.gone.keys())
        return True

    def _forget_pod(self, key: JobKey, name: str, version: int, *, unseen: bool = False) -> bool:
        seen = self._jobs.get(key)
        known = seen.pods.get(name) if seen else None
        if seen is None or known is None or known.version > version:
            return False
        del seen.pods[name]
        self._whose.pop((key[0], name), None)
        self._leaving.discard(known.view.uid)
        for kept in ("pod", "tail"):
            self._room.give_back((key, kept, name))
        self._forget_gone(key, seen, {name} & seen.gone.keys())
        if seen.maps and self._room.take(
            key[0], (key, "gone", name), size_of(known.view), _EACH_POD
        ):
            seen.gone[name] = Gone(known.view, self._now(), unseen)
        self._drop(key)
        return True

    def _drop(self, key: JobKey) -> None:
        seen = self._jobs[key]
        if seen.empty:
            self._forget_gone(key, seen, [*seen.gone])
            del self._jobs[key]


class _Told:
    """How far the streams of a kind have told.

    An answer that is not newer has nothing to add, and must not: what it shows may have vanished
    since, which is told once.
    """

    def __init__(self) -> None:
        self._reached: dict[str | None, int] = {}

    def tells(self, place: str | None, version: int) -> None:
        """A stream has told of a version in a namespace; in all of them if None."""
        if place is None:
            # One stream tells of all namespaces, in one order: there is nothing to keep of each.
            version = max(version, *self._reached.values(), 0)
            self._reached = {None: version}
        elif None in self._reached:
            self._reached[None] = max(version, self._reached[None])
        else:
            self._reached[place] = max(version, self._reached.get(place, 0))

    def is_news(self, namespace: str, version: int, *, answer: bool) -> bool:
        """Whether a version may be new; if it is no answer, a stream tells of it by this."""
        if answer:
            return version > max(self._reached.get(namespace, 0), self._reached.get(None, 0))
        self.tells(namespace, version)
        return True


def _job_key(value: Object) -> JobKey:
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def _version(value: Object) -> int:
    # A number that grows with every write to the cluster; since Kubernetes 1.35 that is promised.
    return int(value["metadata"]["resourceVersion"])


def _slot(value: Object) -> str | None:
    """Which of a job's ConfigMaps it is: by its name alone, whatever it holds."""
    name, job = value["metadata"]["name"], _job_key(value)[1]
    if is_config(value["metadata"]):
        return "config"
    return {hosts_name(job): "hosts", status_name(job): "status"}.get(name) if job else None


def _written(value: Object) -> float | None:
    managers = value["metadata"].get("managedFields") or ()
    return max(filter(None, (seconds(manager.get("time")) for manager in managers)), default=None)


_METADATA = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
        *("labels", "annotations", "ownerReferences"),
    }
)


def _slim(value: Object, slot: str) -> tuple[Object, int]:
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
    slim = {"metadata": {**metadata, "annotations": notes}, "data": data}
    size = len(msgspec.json.encode(slim))
    if slot == "status":
        size += recorded_replicas(data) * _EACH_REPLICA
    return slim, size * _IN_MEMORY if slot == "config" else size


def unwritable(value: Object) -> str:
    """What a ConfigMap has that no watcher writes, nor can take away; empty if nothing."""
    if value.get("binaryData"):
        return f"it has binaryData ({min(value['binaryData'])[:50]}), which no watcher writes"
    return "it is immutable, so no watcher can write it" if value.get("immutable") else ""


def _too_large(slim: Object, slot: str) -> str:
    """What is too large in a ConfigMap; empty if nothing is."""
    limit = STORED_BYTES if slot == "config" else RECORD_BYTES
    size = sum(len(text) for text in slim["data"].values())
    if size <= limit:
        return ""
    return f"it has {size // 1024} KiB; at most {limit // 1024} KiB are read"


def _identity(value: Object) -> Object:
    """The metadata by which an object is told of and written."""
    known = ("name", "namespace", "uid", "resourceVersion")
    found = {key: value["metadata"][key] for key in known if key in value["metadata"]}
    job = _job_key(value)[1]
    return {**found, "labels": {JOB_LABEL: job}} if job else found
