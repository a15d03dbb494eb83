"""Every change of the objects of a test, as the API server tells it, and who made it.

A fight shows as changes where there should be none. A write that changes nothing is no change; the
manager of the fields that are new says who wrote.
"""

import threading
import time
from collections import Counter
from typing import Any

from msgspec import Struct

from etcompile.kubeapi import Cluster, ClusterError, Resource

_KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Event"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
)
Object = dict[str, Any]


class Change(Struct, frozen=True):
    """A change of an object."""

    at: float  # by the monotonic clock
    verb: str  # ADDED, MODIFIED, DELETED
    kind: str
    namespace: str
    name: str
    uid: str
    manager: str  # who wrote; empty where no manager's fields are new: deletions, bindings

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.name} by {self.manager or '?'}"


class Changes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._all: list[Change] = []
        self._managed: dict[str, list[Object]] = {}
        for version, kind in _KINDS:
            resource = cluster.resource(version, kind)
            thread = threading.Thread(target=self._follow, args=(resource,), daemon=True)
            thread.start()

    def of(self, namespace: str, since: float = 0.0) -> list[Change]:
        with self._lock:
            return [one for one in self._all if one.namespace == namespace and one.at >= since]

    def quiet(self, namespace: str, seconds: float) -> None:
        begun = time.monotonic()
        time.sleep(seconds)
        changes = self.of(namespace, begun)
        assert not changes, f"{len(changes)} changes in {seconds} s of quiet:\n" + "\n".join(
            f"  +{one.at - begun:.1f} s {one}" for one in changes[:40]
        )

    def settle(self, namespace: str, seconds: float = 3.0, limit: float = 60.0) -> None:
        end = time.monotonic() + limit
        while True:
            changes = self.of(namespace)
            last = changes[-1].at if changes else 0.0
            if time.monotonic() - last > seconds:
                return
            assert time.monotonic() < end, "does not come to rest:\n" + "\n".join(
                f"  {one}" for one in changes[-40:]
            )
            time.sleep(0.2)

    def summary(self, namespace: str, since: float) -> str:
        """How often who changed what, in a line."""
        counted = Counter(
            f"{one.verb} {one.kind}" + f" by {one.manager}" * bool(one.manager)
            for one in self.of(namespace, since)
            if one.manager != "etcompile-e2e"
        )
        return ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))

    def _follow(self, resource: Resource) -> None:
        while True:
            try:
                listing = self._cluster.list(resource, None)
                for one in listing.items:
                    self._managed[one["metadata"]["uid"]] = _managers(one)
                for event in self._cluster.watch(resource, listing.resource_version, None):
                    if event.type in ("ADDED", "MODIFIED", "DELETED"):
                        self._record(event.type, resource.kind, event.object)
            except ClusterError as error:
                if not error.expired:
                    return

    def _record(self, verb: str, kind: str, value: Object) -> None:
        metadata = value["metadata"]
        uid, managers = metadata["uid"], _managers(value)
        before = self._managed.get(uid, [])
        new = [one["manager"] for one in managers if one not in before]
        self._managed[uid] = managers
        change = Change(
            time.monotonic(),
            verb,
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            uid,
            "" if verb == "DELETED" else "+".join(sorted(set(new))),
        )
        with self._lock:
            self._all.append(change)


def _managers(value: Object) -> list[Object]:
    return value["metadata"].get("managedFields") or []
