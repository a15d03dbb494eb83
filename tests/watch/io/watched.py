"""A namespace with jobs, whoever plays Git and the kubelets in it, and a watcher of it."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import specs
from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import compile  # noqa: A004
from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi import Cluster, ClusterError, Retries, connect
from etcompile.kubeapi.controller.lease import Lease
from etcompile.model import Settings
from etcompile.model.protocol import WATCHER
from etcompile.model.run_record import ReplicaRecord, RunRecord, read_record
from etcompile.watch.core.controller import Choices
from etcompile.watch.core.run import Timeouts
from etcompile.watch.watcher import watcher

QUICK = Timeouts(
    settle=0.3, prune=0.6, verdict=1.5, backoff=0.2, longest=1.0, forget=600, overlap=0.5, drain=0.5
)
ONCE = Retries(attempts=1)
LEASE = 3.0


def eventually(
    check: Callable[[], Any], seconds: float = 15.0, why: str = "", *, pause: float = 0.02
) -> Any:
    """What `check` returns once it is true; fails the test if that takes too long."""
    end = time.monotonic() + seconds
    while not (result := check()):
        if time.monotonic() > end:
            raise AssertionError(why or f"not within {seconds} s")
        time.sleep(pause)
    return result


ALWAYS = {"restartPolicy": "Always"}


def training_job(name: str = "bert", workers: int = 2, **spec: Any) -> dict[str, Any]:
    """An elastic job of et-operator, whose failed workers are replaced."""
    role = spec.pop("worker", {})
    job = specs.training_job(name, replicas=workers, **spec)
    specs.worker(job).update({"restartPolicy": "OnFailure", **role})
    return job


def job_map(place: "Place", name: str, job: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": place.namespace, "labels": {"etcompile.dev/job": job}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def is_ready(pod: dict) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


class Place:
    """A namespace, its jobs, and who plays the kubelets of its Pods."""

    def __init__(self, plane, cluster: Cluster, namespace: str) -> None:
        self.plane = plane
        self.cluster = cluster
        self.namespace = namespace
        self._pods = cluster.resource("v1", "Pod")
        self._maps = cluster.resource("v1", "ConfigMap")
        self._stop = threading.Event()
        self.holding = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- what people and Git do ----------------------------------------------------------------

    def compiled(
        self, *documents: dict, profiles: tuple = (), marks: Any = None, **settings: Any
    ) -> list[dict]:
        options = Options(
            namespace=self.namespace, settings=Settings(profiles=profiles, **settings)
        )
        compilation = compile([*documents], options)
        assert compilation.ok, [one.message for one in compilation.diagnostics]
        objects = [json.loads(json.dumps(value)) for value in compilation.objects]
        for value in objects:
            value["metadata"].setdefault("namespace", self.namespace)
            if marks:
                marks(value)
        return objects

    def submit(self, *documents: dict, **options: Any) -> list[dict]:
        """Creates what documents compile to, Pods last."""
        objects = self.compiled(*documents, **options)
        for value in objects:
            self.cluster.create(value)
        return objects

    def begin(self, workers: int = 2, worker: Any = (), **options: Any) -> list[dict]:
        """Starts kubelets and the job `bert`, and waits until all its workers are listed."""
        self.kubelets()
        objects = self.submit(training_job(workers=workers, worker=dict(worker)), **options)
        eventually(lambda: self.whole(workers), 60)
        return objects

    def let_go(self, name: str) -> None:
        """Takes the finalizers off a Pod that waits for somebody before it goes."""
        self.cluster.patch(self._pods, name, {"metadata": {"finalizers": None}})

    # ---- what kubelets do ----------------------------------------------------------------------

    def kubelets(self) -> None:
        """Makes every Pod Running and Ready as soon as it is there."""
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def _play(self) -> None:
        listing = self.cluster.list(self._pods, self.namespace)
        for pod in listing.items:
            self._started(pod)
        with contextlib.suppress(ClusterError):
            for event in self.cluster.watch(self._pods, listing.resource_version, self.namespace):
                if self._stop.is_set():
                    return
                if event.type in ("ADDED", "MODIFIED"):
                    self._started(event.object)

    def _started(self, pod: dict) -> None:
        while self.holding.is_set():
            time.sleep(0.01)
        if (pod.get("status") or {}).get("phase") == "Pending":
            # Only what is still as it was seen: what has failed meanwhile does not run again.
            version = pod["metadata"]["resourceVersion"]
            self.becomes(pod["metadata"]["name"], "Running", version=version)

    def becomes(
        self,
        name: str,
        phase: str,
        code: int | None = None,
        reason: str = "",
        since: str = "",
        *,
        uid: str = "",
        version: str = "",
    ) -> bool:
        """Writes the status of a Pod, as its kubelet would; false if that Pod is not there."""
        now = since or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = "True" if phase == "Running" else "False"
        status: dict[str, Any] = {
            "phase": phase,
            "reason": reason or None,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
        }
        if code is not None:
            main = {"name": "main", "restartCount": 0, "ready": False, "image": "i", "imageID": ""}
            status["containerStatuses"] = [{**main, "state": {"terminated": {"exitCode": code}}}]
        pinned = {"uid": uid, "resourceVersion": version}
        change = {"metadata": {k: v for k, v in pinned.items() if v}, "status": status}
        try:
            self.cluster.patch(self._pods, name, change, self.namespace, subresource="status")
        except ClusterError:
            return False
        return True

    def fails(self, name: str, code: int = 1) -> None:
        self.becomes(name, "Failed", code)

    def replaces(self, name: str, *, seconds: float = 15.0) -> None:
        uid = self.uid(name)
        self.fails(name)
        eventually(lambda: self.uid(name) not in ("", uid), seconds, f"{name} stays away")

    # ---- what tests ask ------------------------------------------------------------------------

    def pods(self) -> dict[str, dict]:
        listed = self.cluster.list(self._pods, self.namespace)
        return {pod["metadata"]["name"]: pod for pod in listed.items}

    def pod(self, name: str) -> dict | None:
        return self.cluster.get(self._pods, name, self.namespace)

    def uid(self, name: str) -> str:
        pod = self.pod(name)
        return pod["metadata"]["uid"] if pod else ""

    def data(self, name: str) -> dict[str, str]:
        """The data of a ConfigMap; empty if there is none."""
        config_map = self.cluster.get(self._maps, name, self.namespace)
        return (config_map or {}).get("data") or {}

    def hosts(self, job: str = "bert") -> list[str]:
        lines = self.data(f"{job}-etcompile-hosts").get("hostfile", "").split()
        return [line.split(":")[0] for line in lines]

    def whole(self, count: int) -> bool:
        """Whether the live list of `bert` has so many hosts: those that are Ready, in order."""
        hosts = [host.split(".")[0] for host in self.hosts()]
        return len(hosts) == count and hosts == self.ready()

    def phase(self, job: str = "bert") -> str:
        return self.data(f"{job}-etcompile-status").get("phase", "")

    def record(self, job: str = "bert") -> dict[str, Any]:
        """The run record; empty if there is none."""
        return json.loads(self.data(f"{job}-etcompile-status").get("record", "{}"))

    def run_record(self, job: str = "bert") -> RunRecord | None:
        return read_record(self.data(f"{job}-etcompile-status"))

    def replica(self, role: str, number: int, job: str = "bert") -> ReplicaRecord:
        record = self.run_record(job)
        assert record is not None
        return record.replica((role, number))

    def events(self) -> list[dict]:
        return self.cluster.list(self.cluster.resource("v1", "Event"), self.namespace).items

    def events_of(self, reason: str, name: str = "") -> list[dict]:
        """The Events of a reason so far, about the object of a name.

        A watcher writes them beside its work: wait for those that have to come.
        """
        return [
            event
            for event in self.events()
            if event["reason"] == reason and name in ("", event["involvedObject"]["name"])
        ]

    def ready(self, role: str = "worker", job: str = "") -> list[str]:
        """The names of the Pods of a role that are Ready, in the order of their numbers."""
        pods = [
            pod
            for pod in self.pods().values()
            if pod["metadata"]["labels"].get("etcompile.dev/role") == role
            and job in ("", pod["metadata"]["labels"].get("etcompile.dev/job"))
            and is_ready(pod)
        ]
        pods.sort(key=lambda pod: int(pod["metadata"]["labels"]["etcompile.dev/index"]))
        return [pod["metadata"]["name"] for pod in pods]

    def writes(self, user: str = "") -> list[tuple[str, str, str]]:
        """Verb, resource and name of each write so far, of a user whose name has this in it."""
        return [
            (event["verb"], event["objectRef"]["resource"], event["objectRef"].get("name", ""))
            for event in self.plane.writes(self.namespace)
            if user in event["user"]["username"]
        ]

    def close(self) -> None:
        self._stop.set()


def pods(place: Place) -> Any:
    return place.cluster.resource("v1", "Pod")


def maps(place: Place) -> Any:
    return place.cluster.resource("v1", "ConfigMap")


def create_pod(place: Place, name: str, image: str = "i", **metadata: Any) -> None:
    metadata = {"name": name, "namespace": place.namespace, **metadata}
    spec = {"containers": [{"name": "main", "image": image}]}
    place.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def created_pods(place: Place) -> list[str]:
    return [name for verb, kind, name in place.writes(NAME) if (verb, kind) == ("create", "pods")]


class Running:
    """A watcher in this process."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        *,
        leads: bool,
        timeouts: Timeouts,
        more: Iterable[str] = (),
        lease: float = LEASE,
    ) -> None:
        self.cluster = connect(kubeconfig=kubeconfig, namespace=namespace, retries=ONCE, timeout=5)
        self.leading = None
        identity = f"test-{os.getpid()}-{id(self)}"
        if leads:
            electing = connect(kubeconfig=kubeconfig, namespace=namespace, retries=ONCE, timeout=2)
            self.leading = Lease(electing, namespace, NAME, identity, WATCHER, lease)
        choices = Choices((namespace, *more), timeouts=timeouts)
        self.watcher = watcher(self.cluster, choices, identity=identity, leading=self.leading)
        self._ended = threading.Event()
        self._electing = None

    def start(self) -> "Running":
        """Starts it, and waits until it knows everything."""
        self.begin()
        eventually(lambda: self.watcher.ready()[0])
        return self

    def begin(self) -> None:
        self.watcher.start()
        if self.leading:
            self._electing = threading.Thread(
                target=self.leading.run, args=(self._ended,), daemon=True
            )
            self._electing.start()

    def stop(self) -> None:
        self.watcher.stop()
        self._ended.set()
        if self._electing:
            self._electing.join(5)
        self.cluster.close()

    def value(self, name: str, **labels: str) -> float:
        return self.watcher.metrics.registry.get_sample_value(name, labels) or 0.0
