"""Watches objects of a cluster and puts their changes into a queue.

There is one watch for each kind and namespace. It is opened when a step has to wait, lists once,
and follows from there. It reports states (`reasons`), not objects, so that thousands of Pods cost
little. Kubernetes Events are watched as well for objects that do not say what they wait for.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from etcompile.k8s.objects import Object, is_going
from etcompile.k8s.pods import is_half_deleted
from etcompile.kubeapi.client import Cluster, event_time
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.resources import Resource
from etcompile.kubeapi.watch_stream import Watch
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout.machine.messages import Hint, Listed, Lost, Place, Seen
from etcompile.rollout.machine.readiness import place_of
from etcompile.rollout.machine.reasons import ObjectState, deleted, deleting, has_rule, object_state

Message = Seen | Listed | Hint | Lost

_LONGEST = 300
"""Characters of an Event's message that are told."""


class Watches:
    """The watches of a rollout; one thread asks for them.

    They look for objects with the label of a job, and for all objects of a place where one is
    without it.

    Args:
        post: Takes messages, from any thread.
    """

    def __init__(self, cluster: Cluster, plan: Plan, post: Callable[[Message], None]) -> None:
        self._cluster = cluster
        self._post = post
        self._bare = {place_of(ref, cluster.namespace) for ref in _unlabelled(plan)}
        self._open: set[Place] = set()
        self._told: set[str] = set()
        self._watches: dict[Place, Watch] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def follow(self, ref: ObjectRef) -> None:
        """Has objects of this kind and namespace followed from now on.

        Raises:
            ClusterError: the cluster does not serve the kind.
        """
        resource = self._cluster.resource(ref.api_version, ref.kind)
        namespace = (ref.namespace or self._cluster.namespace) if resource.namespaced else ""
        place = ref.api_version, ref.kind, namespace
        if place not in self._open:
            self._open.add(place)
            self._start(lambda: self._follow(resource, place))

    def follow_object(self, ref: ObjectRef, labels: Mapping[str, str] | None) -> None:
        """The same, of an object that may not have the label of a job.

        Args:
            ref: The object.
            labels: Its labels; None if they are not known.

        Raises:
            ClusterError: the cluster does not serve its kind, or does not show the object.
        """
        if labels is None:
            found = self._get(ref)
            labels = (found["metadata"].get("labels") or {}) if found else {JOB_LABEL: ""}
        place = place_of(ref, self._cluster.namespace)
        if JOB_LABEL not in labels and place not in self._bare:
            self._look_for_all(place)
        self.follow(ref)

    def is_there(self, ref: ObjectRef, uid: str | None) -> bool:
        """Whether an object that no list had is there nevertheless, without our labels.

        Raises:
            ClusterError: the cluster does not say.
        """
        place = place_of(ref, self._cluster.namespace)
        if place in self._bare or not self._exists(ref, uid):
            return False
        self._look_for_all(place)
        return True

    def follow_events(self, namespace: str) -> None:
        """Has what Kubernetes Events say of objects of a namespace told from now on."""
        if namespace and namespace not in self._told:
            self._told.add(namespace)
            self._start(lambda: self._follow_events(namespace))

    def warnings(self, namespaces: Iterable[str]) -> dict[str | None, str]:
        """The last warning about each object of some namespaces, by UID."""
        found: dict[str | None, tuple[str, str]] = {}
        for namespace in namespaces:
            try:
                events = self._cluster.resource("v1", "Event")
                for page in self._cluster.pages(
                    events, namespace, fields="type=Warning", one_moment=False
                ):
                    for event in page.items:
                        uid = (event.get("involvedObject") or {}).get("uid")
                        if text := _line(event.get("message")):
                            found[uid] = max(found.get(uid, ("", "")), (event_time(event), text))
            except ClusterError:
                continue  # Events only explain; who may not read them goes without
        return {uid: text for uid, (_, text) in found.items()}

    def close(self) -> None:
        """Ends all watches."""
        with self._lock:
            self._closed = True
            watches = [*self._watches.values()]
        for watch in watches:
            watch.close()
        for thread in self._threads:
            thread.join(2.0)

    def _look_for_all(self, place: Place) -> None:
        """Has a place listed and followed anew, whatever labels its objects have."""
        self._bare.add(place)
        with self._lock:
            watch = self._watches.get(place)
        if watch is not None:
            watch.close()

    def _exists(self, ref: ObjectRef, uid: str | None) -> bool:
        """Whether that very object is there, whatever its labels are."""
        found = self._get(ref)
        return found is not None and uid in (None, found["metadata"].get("uid"))

    def _get(self, ref: ObjectRef) -> Object | None:
        resource = self._cluster.resource(ref.api_version, ref.kind)
        return self._cluster.get(resource, ref.name, ref.namespace or None, metadata_only=True)

    def _selector(self, place: Place) -> str:
        return "" if place in self._bare else JOB_LABEL

    def _start(self, run: Callable[[], None]) -> None:
        # A daemon: a connection that hangs must not keep the process.
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self, resource: Resource, place: Place) -> None:
        bare = not has_rule(resource.kind)
        try:
            while not self._closed:
                self._once(resource, place, self._selector(place), bare=bare)
        except ClusterError as error:
            if not self._closed:
                self._post(Lost(ObjectRef(*place, "(all)"), error))

    def _once(self, resource: Resource, place: Place, labels: str, *, bare: bool) -> None:
        """A list and a watch, until etcd has forgotten where it was."""
        namespace = place[2] or None
        listing = self._cluster.list(resource, namespace, labels=labels, metadata_only=bare)
        for item in listing.items:
            self._post(_seen(place, item, bare=bare))
        uids = {value["metadata"]["name"]: value["metadata"]["uid"] for value in listing.items}
        self._post(Listed(place, uids))
        watch = self._cluster.watch(
            resource, listing.resource_version, namespace, labels=labels, metadata_only=bare
        )
        for type_, value in self._changes(watch, place, labels):
            if type_ == "DELETED":
                metadata = value["metadata"]
                ref = ObjectRef(place[0], place[1], place[2], metadata["name"])
                if labels and self._exists(ref, metadata["uid"]):
                    # Not gone: somebody took away the label that it was followed by.
                    self._bare.add(place)
                    return
                self._post(Seen(place, metadata["name"], metadata["uid"], None, deleted(value)))
            else:
                self._post(_seen(place, value, bare=bare))

    def _changes(
        self, watch: Watch, place: Place, labels: str = ""
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._lock:
            # Other labels may be asked for since it was listed.
            if self._closed or (labels and self._selector(place) != labels):
                return
            self._watches[place] = watch
        try:
            for event in watch:
                if event.type != "BOOKMARK":
                    yield event.type, event.object
        except ClusterError as error:
            if not error.expired:
                raise
        finally:
            with self._lock:
                self._watches.pop(place, None)

    def _follow_events(self, namespace: str) -> None:
        try:
            events = self._cluster.resource("v1", "Event")
            while not self._closed:
                listing = self._cluster.list(events, namespace)
                for item in listing.items:
                    self._hint(namespace, item)
                watch = self._cluster.watch(events, listing.resource_version, namespace)
                for type_, value in self._changes(watch, ("v1", "Event", namespace)):
                    if type_ != "DELETED":
                        self._hint(namespace, value)
        except ClusterError:
            return  # they only explain; who may not read them goes without

    def _hint(self, namespace: str, value: Object) -> None:
        about = value.get("involvedObject") or {}
        unbound = value.get("reason") == "WaitForFirstConsumer"
        if value.get("type") != "Warning" and not unbound:
            return
        kind, name = about.get("kind") or "", about.get("name") or ""
        self._post(
            Hint(
                namespace,
                kind,
                name,
                _line(value.get("message") or value.get("reason")),
                unbound,
                about.get("uid") or "",
            )
        )


def _seen(place: Place, value: Object, *, bare: bool) -> Seen:
    metadata = value["metadata"]
    going = deleting(value) if is_going(value) else ""
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    found = ObjectState("ready") if bare else object_state(value)
    half = place[:2] == ("v1", "Pod") and is_half_deleted(value)
    return Seen(place, metadata["name"], metadata["uid"], found, going, grace, half)


def _line(message: object) -> str:
    """A message in one line that is not too long."""
    return " ".join(str(message or "").split())[:_LONGEST]


def _unlabelled(plan: Plan) -> Iterator[ObjectRef]:
    """Objects that do not say which job they belong to, so that no label finds them."""
    for step in plan.steps:
        labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
        if step.job is None or (step.manifest is not None and JOB_LABEL not in labels):
            yield step.ref
