"""Nodes and kubelets that a test plays, in any cluster: Pods are bound, run, fail and end as told.

The Pods of a test name a scheduler that does not exist, so that nobody else places them; this one
does, on nodes of its own that it keeps alive. Everything else is the cluster's: a Pod that is
deleted gets its time to end, `kubectl drain` drains, the Job controller makes Pods. What a
container would do at the end of a run, its wrapper script does: those scripts are really run in
tests/scripts.
"""

import calendar
import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any

from etcompile.kubeapi import Cluster, ClusterError

SCHEDULER = "etcompile-e2e"
"""The `schedulerName` of Pods that are played here."""
_HASH = "etcompile.dev/spec-hash"
_LABEL = {"etcompile.dev/e2e": "true"}
_PLAYER = "etcompile-e2e"
_STOPPING = 1.5
"""Seconds that a Pod takes to end when it is told to."""
_RESIDENT = ("until-done.sh", "worker.sh")

Object = dict[str, Any]


class Nodes:
    """The nodes, and all kubelets on them.

    Attributes:
        started: Names of the Pods that began to train, by namespace; one that finds its run done
            does not.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods = cluster.resource("v1", "Pod")
        self._maps = cluster.resource("v1", "ConfigMap")
        self._nodes = cluster.resource("v1", "Node")
        self._claims = cluster.resource("v1", "PersistentVolumeClaim")
        self._volumes = cluster.resource("v1", "PersistentVolume")
        self._leases = cluster.resource("coordination.k8s.io/v1", "Lease")
        self._names: dict[str, list[str]] = {}
        self._stop = threading.Event()
        self._ending: dict[str, float] = {}
        self.started: dict[str, list[str]] = {}
        self._threads = [threading.Thread(target=self._play, daemon=True)]
        self._threads.append(threading.Thread(target=self._live, daemon=True))

    def start(self, node: str, *namespaces: str) -> None:
        """Makes a node for the Pods of these namespaces."""
        for namespace in namespaces:
            self.add(namespace, node)
        for thread in self._threads:
            thread.start()

    def add(self, namespace: str, node: str) -> None:
        """Gives a namespace a node, or another one; Pods go to the first that takes any."""
        if not any(node in nodes for nodes in self._names.values()):
            with contextlib.suppress(ClusterError):
                self._cluster.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "metadata": {"name": node, "labels": _LABEL},
                    }
                )
            self._beat(node)
        self._names[namespace] = [*self._names.get(namespace, ()), node]

    def move(self, namespace: str, *nodes: str) -> None:
        """Gives a namespace nodes of its own, before it has Pods."""
        for node in nodes:
            self.add(namespace, node)
        self._names[namespace] = [*nodes]

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        for resource in (self._nodes, self._volumes):
            labels = ",".join(f"{key}={value}" for key, value in _LABEL.items())
            for one in self._cluster.list(resource, None, labels=labels).items:
                self._cluster.delete(resource, one["metadata"]["name"])

    # ---- what a test has happen ----------------------------------------------------------------

    def ends(self, namespace: str, name: str, code: int = 0) -> None:
        pod = self._cluster.get(self._pods, name, namespace)
        assert pod, f"there is no Pod {name}"
        self._end(pod, code)

    def finish(self, namespace: str) -> None:
        """The training of each Pod that trains comes to its good end."""
        for pod in self.running(namespace):
            if not _is_resident(pod):
                self._end(pod, 0)

    def running(self, namespace: str) -> list[Object]:
        listed = self._cluster.list(self._pods, namespace).items
        return [one for one in listed if _phase(one) == "Running"]

    # ---- what kubelets do by themselves --------------------------------------------------------

    def _play(self) -> None:
        while not self._stop.wait(0.25):
            with contextlib.suppress(ClusterError):
                fields = f"spec.schedulerName={SCHEDULER}"
                listed = self._cluster.list(self._pods, None, fields=fields).items
                ours = [one for one in listed if one["metadata"]["namespace"] in self._names]
                done = self._done(ours)
                for pod in ours:
                    with contextlib.suppress(ClusterError):
                        self._advance(pod, done)
            with contextlib.suppress(ClusterError):
                self._provision()

    def _advance(self, pod: Object, done: set[tuple[str, str]]) -> None:
        metadata = pod["metadata"]
        over = (metadata["namespace"], (metadata.get("annotations") or {}).get(_HASH, "")) in done
        if "deletionTimestamp" in metadata:
            self._stopped(pod)
        elif not pod["spec"].get("nodeName"):
            self._place(pod)
        elif _phase(pod) == "Pending":
            if over:
                self._end(pod, 0)
            else:
                self._began(pod)
        elif _phase(pod) == "Running" and over and _is_resident(pod):
            self._end(pod, 0)
        elif _phase(pod) == "Running" and "activeDeadlineSeconds" in pod["spec"]:
            started = pod["status"].get("startTime", "")
            if _seconds_since(started) > pod["spec"]["activeDeadlineSeconds"]:
                self._end(pod, 137, reason="DeadlineExceeded")

    def _place(self, pod: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        for node in self._names[namespace]:
            there = self._cluster.get(self._nodes, node)
            if there and not there["spec"].get("unschedulable"):
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                metadata = {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
                self._cluster.create({**binding, "target": target})
                return

    def _began(self, pod: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.started.setdefault(namespace, []).append(name)
        now = _now()
        states = [
            {
                **_container(one),
                "ready": True,
                "started": True,
                "state": {"running": {"startedAt": now}},
            }
            for one in pod["spec"]["containers"]
        ]
        self._say(
            pod,
            {
                "phase": "Running",
                "startTime": now,
                "conditions": _conditions("True", now),
                "containerStatuses": states,
            },
        )

    def _end(self, pod: Object, code: int, reason: str = "") -> None:
        now = _now()
        ended = {"exitCode": code, "finishedAt": now, "reason": "Error" if code else "Completed"}
        states = [
            {**_container(one), "ready": False, "state": {"terminated": ended}}
            for one in pod["spec"]["containers"]
        ]
        self._say(
            pod,
            {
                "phase": "Failed" if code else "Succeeded",
                "reason": reason or None,
                "startTime": pod["status"].get("startTime") or now,
                "conditions": _conditions("False", now),
                "containerStatuses": states,
            },
        )

    def _stopped(self, pod: Object) -> None:
        """A Pod that is told to stop takes a moment, fails as on kubelets since 1.27, and goes."""
        uid = pod["metadata"]["uid"]
        if time.monotonic() < self._ending.setdefault(uid, time.monotonic() + _STOPPING):
            return
        if _phase(pod) in ("Pending", "Running"):
            self._end(pod, 137)
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self._cluster.delete(self._pods, name, namespace, uid=uid, grace=0)

    def _say(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        change = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._cluster.patch(
            self._pods,
            metadata["name"],
            change,
            metadata["namespace"],
            subresource="status",
            field_manager=_PLAYER,
        )

    def _done(self, pods: Iterable[Object]) -> set[tuple[str, str]]:
        done_runs = set()
        for namespace in {one["metadata"]["namespace"] for one in pods}:
            for one in self._cluster.list(self._maps, namespace, labels="etcompile.dev/job").items:
                if (done := (one.get("data") or {}).get("done")) is not None:
                    done_runs.add((namespace, done.strip()))
        return done_runs

    def _provision(self) -> None:
        """A volume for each claim: not every cluster has somebody who makes them."""
        for claim in self._cluster.list(self._claims, None).items:
            namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
            if namespace not in self._names or (claim.get("status") or {}).get("phase") == "Bound":
                continue
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{namespace}-{name}", "labels": _LABEL},
                "spec": {
                    "accessModes": claim["spec"]["accessModes"],
                    "capacity": claim["spec"]["resources"]["requests"],
                    "storageClassName": claim["spec"].get("storageClassName", ""),
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"name": name, "namespace": namespace},
                    "hostPath": {"path": "/tmp/etcompile-e2e"},
                },
            }
            with contextlib.suppress(ClusterError):
                self._cluster.create(volume)

    def _live(self) -> None:
        while not self._stop.wait(8):
            for node in {node for nodes in self._names.values() for node in nodes}:
                with contextlib.suppress(ClusterError):
                    self._beat(node)

    def _beat(self, node: str) -> None:
        now = _now()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Played",
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        capacity = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
        status = {"conditions": [ready], "capacity": capacity, "allocatable": capacity}
        self._cluster.patch(self._nodes, node, {"status": status}, subresource="status")


def _is_resident(pod: Object) -> bool:
    """Whether it serves until the run is done, by the script that its command begins with."""
    words = [word for one in pod["spec"]["containers"] for word in one.get("command") or ()]
    return any(word.endswith(_RESIDENT) for word in words)


def _container(container: Object) -> Object:
    return {"name": container["name"], "image": "i", "imageID": "", "restartCount": 0}


def _conditions(ready: str, now: str) -> list[Object]:
    kinds = {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": ready,
        "Ready": ready,
    }
    return [
        {"type": kind, "status": status, "lastTransitionTime": now}
        for kind, status in kinds.items()
    ]


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _seconds_since(moment: str) -> float:
    return time.time() - calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ"))
