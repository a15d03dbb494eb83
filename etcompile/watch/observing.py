"""What is known of every job: its ConfigMaps and Pods, as new as anything that was ever seen.

Events of streams and answers to the watcher's own writes meet here, and the newer one counts, so
that nothing is ever decided on a state from before the watcher's own last write (reference defects
48 to 50 of et-operator.md, 50 of training-operator.md). A Pod is a few hundred bytes: its view is
made the moment it is seen, and nothing else of it is kept.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field, structs

from etcompile.model.protocol import JOB_LABEL, STORED_JOB
from etcompile.watch.queueing import JobKey
from etcompile.watch.state import (
    BatchView,
    Gone,
    Heard,
    PodView,
    batch_view,
    pod_view,
    seconds,
)
from etcompile.watch.tracking import Tracking

Object = Mapping[str, Any]
_Name = tuple[str, str]


class SeenPod(Struct):
    """A Pod as it was last seen.

    Args:
        version: Its resource version.
        since: When its view last changed, in seconds since 1970.
        view: What the rules see of it.
        heard: What is known of its log, if somebody has asked.
    """

    version: int
    since: float
    view: PodView
    heard: Heard | None = None


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
    """

    version: int
    value: Object
    written: float | None = None

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
    """

    config: SeenMap | None = None
    hosts: SeenMap | None = None
    status: SeenMap | None = None
    batch: dict[str, SeenBatch] = field(default_factory=dict)
    pods: dict[str, SeenPod] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)
    since: float = 0.0
    tracking: Tracking | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing of it is left."""
        return not (self.config or self.hosts or self.status or self.pods or self.batch)


class Observations:
    """What is known of all jobs; safe to share between threads.

    Args:
        changed: Is told which job something was seen of. It must not wait for anything.
    """

    def __init__(self, changed: Callable[[JobKey], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, SeenJob] = {}
        # Asked to go, and not yet seen to: an older event must not bring them back.
        self._leaving: set[str] = set()
        self._told_pods, self._told_maps = _Told(), _Told()
        self.pods = _Keeper(self.saw_pod, self._left_pods)
        self.maps = _Keeper(self.saw_map, self._left_maps)
        self.batch = _Keeper(self.saw_batch, self._left_batch)

    # ---- what the loop asks --------------------------------------------------------------------

    def job(self, key: JobKey) -> SeenJob | None:
        """What is known of a job, as of now: a copy that does not change."""
        with self._lock:
            seen = self._jobs.get(key)
            if seen is None:
                return None
            return structs.replace(
                seen, pods=dict(seen.pods), gone=dict(seen.gone), batch=dict(seen.batch)
            )

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
            value: The Pod.
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

    def leaves(self, key: JobKey, name: str, uid: str) -> None:
        """A Pod was asked to go, and the API server agreed."""
        with self._lock:
            seen = self._jobs.get(key)
            pod = seen.pods.get(name) if seen else None
            if pod is not None and pod.view.uid == uid:
                self._leaving.add(uid)
                pod.view = structs.replace(pod.view, deleting=True)

    def heard(self, key: JobKey, name: str, uid: str, heard: Heard) -> None:
        """Somebody has asked for the log of a Pod, or been answered."""
        with self._lock:
            seen = self._jobs.get(key)
            pod = seen.pods.get(name) if seen else None
            told = pod is not None and pod.view.uid == uid
            if pod is not None and told:
                pod.heard = heard
        if told and heard.at is not None:
            self._changed(key)

    def saw_map(self, value: Object, *, gone: bool = False, answer: bool = False) -> None:
        """A ConfigMap as an event or an answer shows it.

        Args:
            value: The ConfigMap.
            gone: Whether it is there no more.
            answer: Whether a request was answered with it, and no stream has told of it.
        """
        key, slot, version = _job_key(value), _slot(value), _version(value)
        if slot is None:
            return
        with self._lock:
            if not self._told_maps.is_news(key[0], version, answer=answer):
                return
            seen = self._jobs.setdefault(key, SeenJob())
            known: SeenMap | None = getattr(seen, slot)
            newer = known is None or version > known.version
            if gone:
                told = newer and known is not None and known.name == value["metadata"]["name"]
                if told:
                    setattr(seen, slot, None)
            else:
                told = newer
                if told:
                    setattr(seen, slot, SeenMap(version, _slim(value), _written(value)))
                if known is None and slot == "config":
                    seen.since = time.time()
            self._drop(key)
        if told:
            self._changed(key)

    def saw_batch(self, value: Object, *, gone: bool = False) -> None:
        """A Job of Kubernetes as an event shows it.

        Args:
            value: The Job.
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

    def _left_pods(self, place: str | None, listed: set[_Name], version: int) -> None:
        """Forgets Pods that a complete list does not have."""
        with self._lock:
            self._told_pods.tells(place, version)
            told = {
                key
                for key, seen in [*self._jobs.items()]
                if place is None or key[0] == place
                for name, pod in [*seen.pods.items()]
                if (key[0], name) not in listed and pod.version <= version
                if self._forget_pod(key, name, version, unseen=True)
            }
        for key in told:
            self._changed(key)

    def _left_batch(self, place: str | None, listed: set[_Name], version: int) -> None:
        """Forgets Jobs that a complete list does not have."""
        told = set()
        with self._lock:
            for key, seen in [*self._jobs.items()]:
                if place is not None and key[0] != place:
                    continue
                for name, known in [*seen.batch.items()]:
                    if (key[0], name) not in listed and known.version <= version:
                        del seen.batch[name]
                        told.add(key)
                self._drop(key)
        for key in told:
            self._changed(key)

    def _left_maps(self, place: str | None, listed: set[_Name], version: int) -> None:
        """Forgets ConfigMaps that a complete list does not have."""
        told = set()
        with self._lock:
            self._told_maps.tells(place, version)
            for key, seen in [*self._jobs.items()]:
                if place is not None and key[0] != place:
                    continue
                for slot in ("config", "hosts", "status"):
                    known: SeenMap | None = getattr(seen, slot)
                    if known is None or known.version > version:
                        continue
                    if (key[0], known.name) not in listed:
                        setattr(seen, slot, None)
                        told.add(key)
                self._drop(key)
        for key in told:
            self._changed(key)

    def _put_pod(self, key: JobKey, value: Object) -> bool:
        name, version = value["metadata"]["name"], _version(value)
        seen = self._jobs.setdefault(key, SeenJob())
        known = seen.pods.get(name)
        if known is not None and known.version >= version:
            return False
        tracking = Tracking.of(value["metadata"])
        if tracking.marked and tracking != seen.tracking:
            seen.tracking = tracking
        view = pod_view(value)
        if view.uid in self._leaving:
            view = structs.replace(view, deleting=True)
        if known is not None and known.view.uid != view.uid:
            self._leaving.discard(known.view.uid)
        if known is not None and known.view == view:
            known.version = version
            return False
        heard = known.heard if known is not None and known.view.uid == view.uid else None
        seen.pods[name] = SeenPod(version, time.time(), view, heard)
        seen.gone.pop(name, None)
        return True

    def _forget_pod(self, key: JobKey, name: str, version: int, *, unseen: bool = False) -> bool:
        seen = self._jobs.get(key)
        known = seen.pods.get(name) if seen else None
        if seen is None or known is None or known.version > version:
            return False
        del seen.pods[name]
        self._leaving.discard(known.view.uid)
        seen.gone[name] = Gone(known.view, time.time(), unseen)
        self._drop(key)
        return True

    def _drop(self, key: JobKey) -> None:
        if self._jobs[key].empty:
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
        self._reached[place] = max(version, self._reached.get(place, 0))

    def is_news(self, namespace: str, version: int, *, answer: bool) -> bool:
        """Whether a version may be new; if it is no answer, a stream tells of it by this."""
        if answer:
            return version > max(self._reached.get(namespace, 0), self._reached.get(None, 0))
        self.tells(namespace, version)
        return True


class _Keeper:
    """Tells the observations of a stream, and at the end of a list what it had not."""

    def __init__(
        self,
        saw: Callable[..., None],
        left: Callable[[str | None, set[_Name], int], None],
    ) -> None:
        self._saw = saw
        self._left = left
        self._listed: dict[str | None, set[_Name]] = {}

    def begin(self, place: str | None) -> None:
        """A list begins."""
        self._listed[place] = set()

    def listed(self, place: str | None, objects: Iterable[Object]) -> None:
        """Some of the objects of that list."""
        names = self._listed[place]
        for value in objects:
            names.add((value["metadata"]["namespace"], value["metadata"]["name"]))
            self._saw(value)

    def complete(self, place: str | None, version: str) -> None:
        """That list is complete."""
        self._left(place, self._listed.pop(place), int(version))

    def changed(self, kind: str, value: Object) -> None:
        """An event."""
        self._saw(value, gone=kind == "DELETED")


def _job_key(value: Object) -> JobKey:
    metadata = value["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(JOB_LABEL, "")


def _version(value: Object) -> int:
    # A number that grows with every write to the cluster; since Kubernetes 1.35 that is promised.
    return int(value["metadata"]["resourceVersion"])


def _slot(value: Object) -> str | None:
    """Which of a job's ConfigMaps it is."""
    name, job = value["metadata"]["name"], _job_key(value)[1]
    if STORED_JOB in (value.get("data") or {}):
        return "config"
    if not job:
        return None
    return {f"{job}-hosts": "hosts", f"{job}-status": "status"}.get(name)


def _written(value: Object) -> float | None:
    managers = value["metadata"].get("managedFields") or ()
    return max(filter(None, (seconds(one.get("time")) for one in managers)), default=None)


def _slim(value: Object) -> Object:
    """A ConfigMap without what nobody reads here: scripts, and who owns which field."""
    data = value.get("data") or {}
    metadata = {k: v for k, v in value["metadata"].items() if k != "managedFields"}
    if STORED_JOB in data:
        data = {STORED_JOB: data[STORED_JOB]}
    return {"metadata": metadata, "data": data}
