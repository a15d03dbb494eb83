"""A job, in a queue of Kueue or not, a watcher that supervises it, and what disturbs it."""

import contextlib
import copy
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queueing import Cluster, Queues

import etcompile
from etcompile import Options, Settings
from specs import kubeflow_job
from waiting import eventually

PATIENCE = 180.0
"""How long a job may take to be whole again, in seconds; the machine does other things, too."""

Pod = dict[str, Any]


def until(check: Callable[[], Any], describe: Callable[[], str], seconds: float = PATIENCE) -> None:
    """Waits until something holds of a job, and else fails with a description of the job."""
    eventually(check, seconds, describe, pause=0.1)


def asking(document: dict[str, Any], cpus: int = 1) -> dict[str, Any]:
    """The document with CPUs for each of its containers."""
    document = copy.deepcopy(document)
    requests = {"requests": {"cpu": str(cpus)}}

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for container in value.get("containers", ()):
                container.setdefault("resources", {}).update(requests)
            for child in value.values():
                visit(child)
        elif isinstance(value, list):
            for child in value:
                visit(child)

    visit(document)
    if document["kind"] == "TrainJob":
        document["spec"]["trainer"]["resourcesPerNode"] = requests
    return document


def kubeflow(kind: str, **types: int) -> dict[str, Any]:
    """A job of the Training Operator whose replicas come back after a failure."""
    return kubeflow_job(kind, types, "ExitCode")


class WatchedJob:
    """A job that is declared in Git, in a namespace of its own.

    Args:
        heals: Argo CD creates again what is missing.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        document: dict[str, Any],
        folder: Path,
        settings: Settings,
        *,
        heals: bool = False,
    ) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.name = document["metadata"]["name"]
        document["metadata"].pop("namespace", None)
        self.namespace = namespace
        self.document = document
        self.folder = folder
        self.settings = settings
        options = Options(namespace=namespace, settings=settings)
        compilation = etcompile.compile([document], options)
        assert compilation.ok, compilation.diagnostics
        self.declared = [json.loads(json.dumps(value)) for value in compilation.objects]
        self.size = sum(value["kind"] in ("Pod", "Job") for value in self.declared)
        self._log = (folder / f"{self.namespace}-watcher.log").open("ab")
        self._watcher = subprocess.Popen(
            [sys.executable, "-m", "etcompile", "watch", "-n", self.namespace],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=self._log,
            stderr=self._log,
        )
        self._closed = threading.Event()
        self._healing = threading.Thread(target=self._heal, daemon=True)
        try:
            self.sync()
        except BaseException:
            self.close()
            raise
        if heals:
            self._healing.start()

    def _heal(self) -> None:
        while not self._closed.wait(0.5):
            with contextlib.suppress(AssertionError):
                self.sync()

    def close(self) -> None:
        self._closed.set()
        if self._healing.is_alive():
            self._healing.join()
        self._watcher.kill()
        self._watcher.wait()
        self._log.close()
        for kind, version in {(value["kind"], value["apiVersion"]) for value in self.declared}:
            if kind in ("Pod", "Job", "PodGroup", "Workload"):
                self.plane.ask("DELETE", self.path(kind, version))
        for pod in self.pods():  # the next job needs the nodes, and Kueue may hold some for ever
            path = self.path("Pod", name=pod["metadata"]["name"])
            change = {"metadata": {"finalizers": None}}
            with contextlib.suppress(urllib.error.HTTPError):
                self.plane.ask("PATCH", path, change)

    def sync(self) -> None:
        """Creates what Git declares and is not there, as the self-healing of Argo CD does."""
        for value in self.declared:
            path = self.path(value["kind"], value["apiVersion"])
            try:
                self.plane.ask("POST", path, value)
            except urllib.error.HTTPError as error:
                if error.code != 409:
                    raise AssertionError(error.read().decode()) from error

    def path(self, kind: str, version: str = "v1", name: str = "") -> str:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = f"{kind.lower()}s"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    # ---- what is there ---------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        items: list[Pod] = self.plane.ask("GET", self.path("Pod"))["items"]
        return items

    def running(self) -> list[Pod]:
        """Its Pods that run and are to go on."""
        return [
            pod
            for pod in self.pods()
            if pod["metadata"].get("labels", {}).get("etcompile.dev/job") == self.name
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def runs(self, pod: Pod) -> bool:
        """Whether that very Pod still runs and is to go on."""
        return pod["metadata"]["uid"] in {other["metadata"]["uid"] for other in self.running()}

    def is_whole(self) -> bool:
        """Whether each of its replicas has one Pod that runs."""
        places = [
            (pod["metadata"]["labels"]["etcompile.dev/role"], pod["spec"].get("hostname"))
            for pod in self.running()
        ]
        return len(places) == len(set(places)) == self.size

    def wait_until_whole(self) -> None:
        until(self.is_whole, self.describe)

    def wait_until_supervised(self) -> None:
        """Waits for the first record of the run: what goes before it, no watcher brings back."""
        self.wait_until_whole()
        until(lambda: self.phase() == "Running", self.describe)

    def describe(self) -> str:
        """What a person would look at."""
        lines = []
        for pod in self.pods():
            metadata = pod["metadata"]
            gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
            facts = (
                pod["status"].get("phase"),
                "terminating" if "deletionTimestamp" in metadata else "",
                pod["spec"].get("nodeName", ""),
                " ".join(gates),
                " ".join(metadata.get("finalizers", ())),
                metadata["labels"].get("kueue.x-k8s.io/pod-group-name", ""),
            )
            lines.append(f"{metadata['name']}: {', '.join(map(str, filter(None, facts)))}")
        lines += Path(self._log.name).read_text(errors="replace").splitlines()[-12:]
        return "\n".join(lines)

    def etcompile(self, *words: str) -> None:
        """Run a command of etcompile in the folder and the namespace of the job."""
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", *words, "-n", self.namespace],
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.describe()

    # ---- what happens to it ----------------------------------------------------------------------

    def exit(self, pod: Pod, code: int) -> None:
        self.annotate(pod, {"tests/exits": str(code)})

    def delete(self, pod: Pod, code: int) -> None:
        """Somebody deletes a Pod, whose program ends with this code."""
        self.annotate(pod, {"tests/on-term": str(code)})
        self.plane.ask("DELETE", self.path("Pod", name=pod["metadata"]["name"]))

    def complete(self) -> None:
        for pod in self.running():
            self.exit(pod, 0)

    def annotate(self, pod: Pod, annotations: dict[str, str]) -> None:
        path = self.path("Pod", name=pod["metadata"]["name"])
        change = {"metadata": {"annotations": annotations}}
        self.plane.ask("PATCH", path, change)

    def phase(self) -> str:
        """The phase of the run in its record; "" before there is one."""
        return str(self._status().get("phase", ""))

    def failures(self) -> dict[str, int]:
        replaced: dict[str, int] = json.loads(self._status()["record"]).get("replaced", {})
        return replaced

    def _status(self) -> dict[str, str]:
        path = self.path("ConfigMap", name=f"{self.name}-etcompile-status")
        try:
            data: dict[str, str] = self.plane.ask("GET", path).get("data") or {}
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise
        return data


class QueuedJob(WatchedJob):
    """A job in a namespace with a queue.

    Args:
        cpus: What its queue may use.
    """

    def __init__(
        self,
        queues: Queues,
        document: dict[str, Any],
        folder: Path,
        *,
        gang: str = "kueue",
        heals: bool = False,
        cpus: int = 12,
        flavor: str = "any",
    ) -> None:
        self.queues = queues
        self._numbers = itertools.count()
        if gang == "kueue":
            labels = document["metadata"].setdefault("labels", {})
            labels["kueue.x-k8s.io/queue-name"] = "research"
            labels["kueue.x-k8s.io/priority-class"] = "low"
        settings = Settings(gang=gang, run="one", profiles=("argocd",) if heals else ())
        namespace = queues.queue(cpus, flavor)
        super().__init__(queues, namespace, document, folder, settings, heals=heals)

    def describe(self) -> str:
        lines = [super().describe()]
        for name, workload in self.queues.workloads(self.namespace).items():
            conditions = workload.get("status", {}).get("conditions", ())
            says = [
                c["type"] if c["status"] == "True" else f"not {c['type']}: {c['message']}"
                for c in conditions
            ]
            lines.append(f"workload {name}: {', '.join(says)}")
        return "\n".join(lines)

    def preempt(self, code: int) -> None:
        """Another workload, of a higher priority, needs the whole queue for a while."""
        for pod in self.running():
            self.annotate(pod, {"tests/on-term": str(code)})
        labels = {
            "kueue.x-k8s.io/queue-name": "research",
            "kueue.x-k8s.io/priority-class": "high",
        }
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        names = [f"urgent-{next(self._numbers)}" for _ in range(4)]
        for name in names:
            metadata = {"name": name, "labels": labels}
            body = {"metadata": metadata, "spec": {"containers": [container]}}
            self.plane.ask("POST", self.path("Pod"), body)
        until(lambda: not self.running(), self.describe)
        for name in names:
            self.exit(self.plane.ask("GET", self.path("Pod", name=name)), 0)

    def stop_queue(self) -> None:
        """The queue is drained, and opened again."""
        self.queues.drain(self.namespace)
        until(lambda: not self.running(), self.describe)
        self.queues.drain(self.namespace, back=True)

    def kill_node(self, pod: Pod) -> None:
        """The node of a Pod dies, and comes back when the job is whole."""
        node = pod["spec"]["nodeName"]
        self.queues.kill_node(node)
        try:
            until(lambda: not self.runs(pod), self.describe)
            # As the controller of a cloud does it; till then nobody knows what the Pods still do.
            self.plane.ask("DELETE", f"/api/v1/nodes/{node}")
            until(self.is_whole, self.describe, 150)
        finally:
            self.queues.add_node(node)
        until(lambda: self._end_what_should_be_gone(node), self.describe)

    def _end_what_should_be_gone(self, node: str) -> bool:
        """Ends Pods whose deletion was requested, as the kubelet of a node that is back does.

        kwok leaves those as they are that it saw before it saw their node, until they change.
        """
        left = [
            pod
            for pod in self.pods()
            if pod["spec"].get("nodeName") == node
            and "deletionTimestamp" in pod["metadata"]
            and pod["status"].get("phase") == "Running"
        ]
        for pod in left:
            changed = {"tests/exits": "143", "tests/told": str(time.monotonic())}
            with contextlib.suppress(urllib.error.HTTPError):
                self.annotate(pod, changed)
        return not left

    def disturb(self, chance: random.Random, kind: str, role: str | None = None) -> None:
        """One disturbance, until the job is whole again; of a Pod of a role, if one is named."""
        pods = self.running()
        if role is not None:
            pods = [pod for pod in pods if pod["metadata"]["labels"]["etcompile.dev/role"] == role]
        victim = chance.choice(pods)
        if kind == "kill":
            self.exit(victim, 137)
        elif kind == "delete":
            self.delete(victim, 143)
        elif kind == "exit 0 on TERM":
            self.delete(victim, 0)
        elif kind == "preemption":
            self.preempt(143)
        elif kind == "preemption, exit 0":
            self.preempt(0)
        elif kind == "drained queue":
            self.stop_queue()
        elif kind == "dead node":
            self.kill_node(victim)
        until(lambda: not self.runs(victim), self.describe)
        self.wait_until_whole()
        assert self.queues.excess(self.namespace) == [], self.describe()

    def is_finished(self) -> bool:
        """Whether Kueue holds no quota and no Pod for the job any more."""
        done = all(
            any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
            for workload in self.queues.workloads(self.namespace).values()
            if (conditions := workload.get("status", {}).get("conditions", ()))
        )
        return done and not any(pod["metadata"].get("finalizers") for pod in self.pods())
