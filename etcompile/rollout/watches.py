"""Watch objects of a cluster and put their changes into a queue.

There is one watch for each kind and namespace, opened when a step has to wait. It reports states
(`reasons`), not objects, so that thousands of Pods cost little. Kubernetes Events are watched as
well for objects that do not say what they wait for.
"""

import threading
from collections.abc import Callable, Collection
from functools import partial

from etcompile.k8s.objects import LiveObject, is_going, labels_of
from etcompile.k8s.pods import containers, restarts
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.informer import Informer
from etcompile.model.protocol import JOB_LABEL, STATUS_END
from etcompile.model.run_record import read_record
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout.live import live_object
from etcompile.rollout.machine.messages import OURS, Hint, Listed, Lost, Place, RunEnded, Seen
from etcompile.rollout.machine.reasons import READY, deleted, deleting, has_rule, object_state
from etcompile.rollout.machine.targets import place_of

_LONGEST = 300
"""Characters of an Event's message that are reported."""
_PAGE = 500
_RENEWAL = 300.0


class Watches:
    """The watches of a rollout, which one thread opens.

    They select objects with the label of a job, and all objects of a place if one lacks it.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        post: Callable[[Seen | Listed | Hint | RunEnded | Lost], None],
    ) -> None:
        self._cluster = cluster
        self._post = post
        self._bare: set[Place] = set()
        """Where an object does not say which job it belongs to, so that no label finds it."""
        for step in plan.steps:
            labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
            if step.job is None or (step.manifest is not None and JOB_LABEL not in labels):
                self._bare.add(place_of(step.ref, cluster.namespace))
        self._informers: dict[Place, Informer] = {}
        self._threads: list[threading.Thread] = []

    def follow(self, ref: ObjectRef, labels: Collection[str] | None) -> None:
        """Follow objects of this kind and namespace from now on.

        Args:
            labels: The keys of its labels, among which that of a job may be missing; None if they
                are not known.
        """
        if labels is None:
            live = live_object(self._cluster, ref, metadata_only=True)
            labels = labels_of(live) if live else OURS
        place = place_of(ref, self._cluster.namespace)
        if JOB_LABEL not in labels and place not in self._bare:
            # All objects of the place, whatever labels they have.
            self._bare.add(place)
            if place in self._informers:
                self._informers[place].relist("")
        has_states = has_rule(ref.kind)

        def failed(error: ClusterError) -> bool:
            if not error.expired:
                self._post(Lost(ObjectRef(*place, "(all)"), error))
            return error.expired

        self._start(
            place,
            Informer(
                self._cluster,
                ref.api_version,
                ref.kind,
                place[2] or None,
                partial(self._changed, place),
                lambda uids, _: self._post(
                    Listed(place, {name: uid for (_, name), uid in uids.items()})
                ),
                failed,
                labels="" if place in self._bare else JOB_LABEL,
                metadata_only=not has_states,
                limit=_PAGE,
                renewal=_RENEWAL,
            ),
        )

    def follow_notes(self, kind: str, namespace: str) -> None:
        """Report from now on what Events or run records of a namespace say."""
        place = "notes", kind, namespace
        if not namespace or place in self._informers:
            return

        def explained(value: LiveObject, gone: bool) -> None:  # noqa: FBT001
            unbound = value.get("reason") == "WaitForFirstConsumer"
            if gone or not (value.get("type") == "Warning" or unbound):
                return
            about = value.get("involvedObject") or {}
            of_kind, name = about.get("kind") or "", about.get("name") or ""
            words = str(value.get("message") or value.get("reason") or "").split()
            text = " ".join(words)[:_LONGEST]
            self._post(Hint(namespace, of_kind, name, text, unbound, about.get("uid") or ""))

        def recorded(value: LiveObject, gone: bool) -> None:  # noqa: FBT001
            name = value["metadata"]["name"]
            record = read_record(value.get("data") or {}) if name.endswith(STATUS_END) else None
            if record is not None and record.ended and not gone:
                self._post(RunEnded(namespace, name, record))

        informer = Informer(
            self._cluster,
            *("v1", kind, namespace),
            explained if kind == "Event" else recorded,
            # A user who may not read them goes without.
            failed=lambda error: error.status not in (401, 403),
            labels="" if kind == "Event" else JOB_LABEL,
            limit=_PAGE,
            renewal=_RENEWAL,
        )
        self._start(place, informer)

    def relist(self) -> None:
        for informer in self._informers.values():
            informer.relist()

    def close(self) -> None:
        for informer in self._informers.values():
            informer.close()
        for thread in self._threads:
            thread.join(2.0)

    def _start(self, place: Place, informer: Informer) -> None:
        if place not in self._informers:
            self._informers[place] = informer
            # A daemon: a connection that hangs must not keep the process.
            thread = threading.Thread(target=informer.run, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _changed(self, place: Place, value: LiveObject, gone: bool) -> None:  # noqa: FBT001
        metadata = value["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if gone:
            self._post(Seen(place, name, uid, None, deleted(value)))
            return
        state = object_state(value) if has_rule(place[1]) else READY
        going = deleting(value) if is_going(value) else ""
        self._post(Seen(place, name, uid, state, going))
        has_restarted = place[1] == "Pod" and restarts(containers(value)) > 0
        words = f"Pod {name}: {state.reason}" if has_restarted else ""
        for owner in metadata.get("ownerReferences") or ():
            # A Job does not say that its Pod fails again and again.
            self._post(Hint(place[2], owner["kind"], owner["name"], words, uid=owner["uid"]))
