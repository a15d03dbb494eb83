"""Requests of the watcher that change objects: sent by the leader only, counted, and seen at once.

Each names what it was decided on: a UID, a resource version, or that nothing is there. So it does
nothing if that is no longer so, and sending it twice does what sending it once does.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import WATCHER
from etcompile.watch.metrics import Metrics
from etcompile.watch.store import Store
from etcompile.watch.workqueue import JobKey


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class ObjectControl(Struct, frozen=True):
    """Creates, changes and deletes objects; safe to share between threads."""

    cluster: Cluster
    store: Store
    may_act: Callable[[], bool]
    metrics: Metrics

    @property
    def pods(self) -> Any:
        """The resource of Pods."""
        return self.cluster.resource("v1", "Pod")

    @property
    def maps(self) -> Any:
        """The resource of ConfigMaps."""
        return self.cluster.resource("v1", "ConfigMap")

    def create(self, value: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        """Creates an object; returns it as it is now."""
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        create = partial(
            self.cluster.create,
            value,
            field_manager=WATCHER,
            field_validation="Ignore",
            dry_run=dry_run,
        )
        return self.send("create", value["kind"], create)

    def patch(
        self, resource: Any, name: str, change: Any, namespace: str, kind: str = "ConfigMap"
    ) -> Any:
        """Changes an object; returns it as it is now."""
        patch = partial(
            self.cluster.patch, resource, name, change, namespace, field_manager=WATCHER
        )
        return self.send("patch", kind, patch)

    def delete_pod(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        """Deletes a Pod; whether it was there."""
        delete = partial(self.cluster.delete, self.pods, name, key[0], uid=uid, grace=grace)
        try:
            there = self.send("delete", "Pod", delete)
        except ClusterError as error:
            if not error.conflict:
                raise
            live = self.look(key[0], name)
            if live is not None and live["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return False  # another Pod has the name, or none: the one that was to go is gone
        self.store.leaves(key, name, uid)
        return bool(there)

    def look(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The Pod of a name, if there is one."""
        live = self.cluster.get(self.pods, name, namespace)
        if live is not None:
            self.store.saw_pod(live, answer=True)
        return live

    def send(self, verb: str, kind: str, request: Callable[[], Any]) -> Any:
        """Sends a request and counts its answer.

        Raises:
            NotLeaderError: this watcher may not act.
        """
        if not self.may_act():
            raise NotLeaderError
        counted = self.metrics.writes.labels
        try:
            answer = request()
        except ClusterError as error:
            counted(verb, kind, str(error.status or "none")).inc()
            raise
        counted(verb, kind, "ok").inc()
        return answer
