"""Watches objects of a cluster and puts their changes into a queue.

There is one watch for each kind and namespace, opened when a step has to wait. It reports states
(`reasons`), not objects, so that thousands of Pods cost little. Kubernetes Events are watched as
well for objects that do not say what they wait for.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from etcompile.k8s.objects import is_going
from etcompile.k8s.pods import containers, restarts
from etcompile.kubeapi import Cluster, ClusterError, Resource, Watch
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout.live import live_object
from etcompile.rollout.machine.messages import OURS, Hint, Listed, Lost, Place, Seen
from etcompile.rollout.machine.reasons import READY, deleted, deleting, has_rule, object_state
from etcompile.rollout.machine.targets import place_of

_LONGEST = 300
"""Characters of an Event's message that are reported."""


class Watches:
    """The watches of a rollout, which one thread opens.

    They look for objects with the label of a job, and for all objects of a place where one is
    without it.
    """

    def __init__(
        self, cluster: Cluster, plan: Plan, post: Callable[[Seen | Listed | Hint | Lost], None]
    ) -> None:
        self._cluster = cluster
        self._post = post
        self._bare: set[Place] = set()
        """Where an object does not say which job it belongs to, so that no label finds it."""
        for step in plan.steps:
            labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
            if step.job is None or (step.manifest is not None and JOB_LABEL not in labels):
                self._bare.add(place_of(step.ref, cluster.namespace))
        self._open: set[Place] = set()
        self._watches: dict[Place, Watch] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def follow(self, ref: ObjectRef, labels: Collection[str] | None) -> None:
        """Has objects of this kind and namespace followed from now on.

        Args:
            labels: The keys of its labels, among which that of a job may be missing; None if they
                are not known.
        """
        if labels is None:
            live = live_object(self._cluster, ref, metadata_only=True)
            labels = (live["metadata"].get("labels") or {}) if live else OURS
        place = place_of(ref, self._cluster.namespace)
        if JOB_LABEL not in labels and place not in self._bare:
            # Has the place listed and followed anew, whatever labels its objects have.
            self._bare.add(place)
            with self._lock:
                watch = self._watches.get(place)
            if watch is not None:
                watch.close()
        resource = self._cluster.resource(ref.api_version, ref.kind)
        self._start(place, partial(self._follow, resource, place))

    def follow_events(self, namespace: str) -> None:
        """Has what Kubernetes Events say of objects of a namespace reported from now on."""
        if namespace:
            place = "v1", "Event", namespace
            self._start(place, partial(self._follow_events, place))

    def close(self) -> None:
        """Ends all watches."""
        with self._lock:
            self._closed = True
            watches = [*self._watches.values()]
        for watch in watches:
            watch.close()
        for thread in self._threads:
            thread.join(2.0)

    def _start(self, place: Place, run: Callable[[], None]) -> None:
        if place not in self._open:
            self._open.add(place)
            # A daemon: a connection that hangs must not keep the process.
            thread = threading.Thread(target=run, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _follow(self, resource: Resource, place: Place) -> None:
        has_states = has_rule(resource.kind)
        try:
            while not self._closed:
                labels = "" if place in self._bare else JOB_LABEL
                for type_, value in self._changes(
                    resource, place, labels=labels, metadata_only=not has_states
                ):
                    metadata = value["metadata"]
                    name, uid = metadata["name"], metadata["uid"]
                    if type_ == "DELETED":
                        self._post(Seen(place, name, uid, None, deleted(value)))
                        continue
                    state = object_state(value) if has_states else READY
                    going = deleting(value) if is_going(value) else ""
                    self._post(Seen(place, name, uid, state, going))
                    has_restarted = place[1] == "Pod" and restarts(containers(value)) > 0
                    words = f"Pod {name}: {state.reason}" if has_restarted else ""
                    for owner in metadata.get("ownerReferences") or ():
                        # A Job does not say that its Pod fails again and again.
                        self._post(
                            Hint(place[2], owner["kind"], owner["name"], words, uid=owner["uid"])
                        )
        except ClusterError as error:
            if not self._closed:
                self._post(Lost(ObjectRef(*place, "(all)"), error))

    def _follow_events(self, place: Place) -> None:
        try:
            events = self._cluster.resource("v1", "Event")
            while not self._closed:
                for type_, value in self._changes(events, place):
                    unbound = value.get("reason") == "WaitForFirstConsumer"
                    if type_ == "DELETED" or not (value.get("type") == "Warning" or unbound):
                        continue
                    about = value.get("involvedObject") or {}
                    kind, name = about.get("kind") or "", about.get("name") or ""
                    words = str(value.get("message") or value.get("reason") or "").split()
                    text = " ".join(words)[:_LONGEST]
                    self._post(Hint(place[2], kind, name, text, unbound, about.get("uid") or ""))
        except ClusterError:
            return  # they only explain; who may not read them goes without

    def _changes(
        self, resource: Resource, place: Place, *, labels: str = "", metadata_only: bool = False
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """What a place holds and then its changes, until etcd has forgotten where it was."""
        namespace = place[2] or None
        listing = self._cluster.list(
            resource, namespace, labels=labels, metadata_only=metadata_only
        )
        for item in listing.items:
            yield "ADDED", item
        uids = {value["metadata"]["name"]: value["metadata"]["uid"] for value in listing.items}
        self._post(Listed(place, uids))
        watch = self._cluster.watch(
            resource,
            listing.resource_version,
            namespace,
            labels=labels,
            metadata_only=metadata_only,
        )
        with self._lock:
            # Other labels may be wanted since it was listed.
            if self._closed or (labels and place in self._bare):
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
