"""Objects of a cluster as they change, to messages in a queue: one watch a kind and namespace.

A watch is opened when something has to be waited for, lists once, and follows from there; what it
has seen is told as states (`reasons`), never as objects, so that thousands of Pods cost little.
Events are followed too where an object cannot say itself what it waits for.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object, is_going
from etcompile.k8s.pods import is_half_deleted
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.discovery import Resource
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.watch import Watch
from etcompile.plan.step import ObjectRef
from etcompile.rollout.reasons import (
    ObjectState,
    deleted,
    deleting,
    has_rule,
    object_state,
)

Place = tuple[str, str, str]
"""API version, kind and namespace; the latter is empty for kinds that have none."""


class Seen(Struct, frozen=True):
    """How far an object is.

    Args:
        place: Where it is watched.
        name: Its name.
        uid: Its UID.
        observed: How far it is; None if it is gone.
        going: Why it is not gone yet, if it is being deleted; why it went, if it is gone.
        grace: Seconds that it has to end, if it is being deleted.
        half_deleted: Its deletion was begun and never finished (`k8s.pods.is_half_deleted`).
    """

    place: Place
    name: str
    uid: str
    observed: ObjectState | None
    going: str = ""
    grace: int = 0
    half_deleted: bool = False


class Listed(Struct, frozen=True):
    """All that is there, at the beginning of a watch.

    Args:
        place: Where.
        uids: UIDs by name.
    """

    place: Place
    uids: dict[str, str]


class Hint(Struct, frozen=True):
    """What an event says about an object.

    Args:
        namespace: The object's.
        kind: The object's.
        name: The object's.
        text: The event's message.
        unbound: A claim that is bound when its first Pod is there, so nothing waits for it.
        uid: The object's; empty if the event does not say.
    """

    namespace: str
    kind: str
    name: str
    text: str
    unbound: bool = False
    uid: str = ""


class Broken(Struct, frozen=True):
    """A watch that cannot go on.

    Args:
        place: What it was to watch.
        error: Why.
    """

    place: Place
    error: ClusterError


Message = Seen | Listed | Hint | Broken


class Watches:
    """The watches of a rollout; one thread asks for them.

    Args:
        cluster: The cluster.
        post: Takes messages, from any thread.
        labels: The label selector for a place; empty for all objects.
        unlabelled: Is told, from any thread, of a place with an object that has lost its labels;
            from then on `labels` is empty for it.
    """

    def __init__(
        self,
        cluster: Cluster,
        post: Callable[[Message], None],
        labels: Callable[[Place], str],
        unlabelled: Callable[[Place], None],
    ) -> None:
        self._cluster = cluster
        self._post = post
        self._labels = labels
        self._unlabelled = unlabelled
        self._open: set[Place] = set()
        self._told: set[str] = set()
        self._watches: dict[Place, Watch] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def need(self, ref: ObjectRef) -> Place:
        """Has objects of this kind and namespace followed from now on.

        Raises:
            ClusterError: the cluster does not serve the kind.
        """
        resource = self._cluster.resource(ref.api_version, ref.kind)
        place = self.place(ref, resource)
        if place not in self._open:
            self._open.add(place)
            self._start(lambda: self._follow(resource, place))
        return place

    def again(self, place: Place) -> None:
        """Has a place listed and followed anew, because other labels are to be looked for."""
        with self._lock:
            watch = self._watches.get(place)
        if watch is not None:
            watch.close()

    def exists(self, ref: ObjectRef, uid: str | None) -> bool:
        """Whether that very object is there, whatever its labels are.

        Raises:
            ClusterError: the cluster does not say.
        """
        resource = self._cluster.resource(ref.api_version, ref.kind)
        found = self._cluster.get(resource, ref.name, ref.namespace or None, metadata_only=True)
        return found is not None and uid in (None, found["metadata"].get("uid"))

    def place(self, ref: ObjectRef, resource: Resource | None = None) -> Place:
        """Where an object is watched."""
        resource = resource or self._cluster.resource(ref.api_version, ref.kind)
        namespace = (ref.namespace or self._cluster.namespace) if resource.namespaced else ""
        return ref.api_version, ref.kind, namespace

    def need_events(self, namespace: str) -> None:
        """Has warnings about the objects of a namespace told from now on."""
        if namespace and namespace not in self._told:
            self._told.add(namespace)
            self._start(lambda: self._follow_events(namespace))

    def close(self) -> None:
        """Ends all watches."""
        with self._lock:
            self._closed = True
            watches = [*self._watches.values()]
        for watch in watches:
            watch.close()
        for thread in self._threads:
            thread.join(2.0)

    def _start(self, run: Callable[[], None]) -> None:
        # A daemon: a connection that hangs must not keep the process.
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self, resource: Resource, place: Place) -> None:
        bare = not has_rule(resource.kind)
        try:
            while not self._closed:
                self._once(resource, place, self._labels(place), bare=bare)
        except ClusterError as error:
            if not self._closed:
                self._post(Broken(place, error))

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
                if labels and self.exists(ref, metadata["uid"]):
                    # Not gone: somebody took away the label that it was followed by.
                    self._unlabelled(place)
                    return
                self._post(Seen(place, metadata["name"], metadata["uid"], None, deleted(value)))
            else:
                self._post(_seen(place, value, bare=bare))

    def _changes(
        self, watch: Watch, place: Place, labels: str = ""
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._lock:
            # Other labels may be asked for since it was listed.
            if self._closed or (labels and self._labels(place) != labels):
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
        text = " ".join(str(value.get("message") or value.get("reason") or "").split())
        kind, name = about.get("kind") or "", about.get("name") or ""
        self._post(Hint(namespace, kind, name, text[:300], unbound, about.get("uid") or ""))


def _seen(place: Place, value: Object, *, bare: bool) -> Seen:
    metadata = value["metadata"]
    going = deleting(value) if is_going(value) else ""
    grace = metadata.get("deletionGracePeriodSeconds") or 0
    found = ObjectState("ready") if bare else object_state(value)
    half = place[:2] == ("v1", "Pod") and is_half_deleted(value)
    return Seen(place, metadata["name"], metadata["uid"], found, going, grace, half)
