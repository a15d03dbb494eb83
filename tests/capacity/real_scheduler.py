"""What the real kube-scheduler does with jobs: an API server, the scheduler, and nodes as objects.

Cases share the cluster a few at a time. A label keeps their nodes apart: each Pod of a job selects
those of its case, which the prediction does not see. Nothing runs on the nodes.
"""

import copy
import re
import time
import urllib.error
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
import yaml
from random_clusters import PRIORITY_CLASSES, RUNTIME_CLASSES, Case, Object

from controlplane.server import ADMIN_TOKEN, ControlPlane, free_ports, start

FLAGS = ("--disable-admission-plugins=TaintNodesByCondition",)
"""Of the API server: nothing here would remove the taint of a node that is new."""

CASE = "tests/case"
"""The label of a node that says which case it belongs to."""


@dataclass
class Truth:
    """What became of a job: the node of each Pod, or why it has none.

    Attributes:
        cluster: What the API server had before the job, by kind.
    """

    cluster: dict[str, list[Object]] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def fits(self) -> bool:
        return not self.waiting and not self.refused

    def describe(self) -> str:
        if self.fits:
            return f"all of its {len(self.nodes)} Pods have nodes"
        why = self.refused or f"{len(self.waiting)} Pods wait: {min(self.waiting.values())}"
        return f"{len(self.nodes)} Pods have nodes, {why}"


class RefusedError(Exception):
    """The API server refuses an object; the message is its answer."""


class Scheduling:
    """A control plane with a scheduler that never preempts.

    Attributes:
        kinds: What a snapshot reads, apart from what all cases share.
    """

    kinds: tuple[tuple[str, str], ...] = (
        *(("v1", kind) for kind in ("Node", "Pod", "ResourceQuota", "LimitRange")),
    )

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._port = free_ports(1)[0]
        self._pool = urllib3.PoolManager(ca_certs=str(plane.authority.file), retries=False)
        certificate, key = plane.authority.server("scheduler")
        config = folder / "scheduler.yaml"
        config.write_text(yaml.safe_dump(configuration(plane.kubeconfig(token=ADMIN_TOKEN))))
        command = [
            *(plane.binaries / "kube-scheduler", f"--config={config}"),
            *("--bind-address=127.0.0.1", f"--secure-port={self._port}"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"),
            "--authorization-always-allow-paths=/metrics",
        ]
        for value in (*PRIORITY_CLASSES, *RUNTIME_CLASSES):
            self._create(value)
        self._process = start(folder / "scheduler.log", *command)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def judge(self, cases: Sequence[Case]) -> list[Truth]:
        """What becomes of the jobs of these cases, at the same time."""
        with ThreadPoolExecutor(6) as threads:
            [*threads.map(self._populate, cases)]
            self._wait_until_known(cases)
            truths = self._read(cases)
            [*threads.map(self._apply, cases, truths)]
            refused = zip(cases, truths, strict=True)
            pods = self._settle({case.namespace for case, truth in refused if truth.refused})
            for case, truth in zip(cases, truths, strict=True):
                others = {pod["metadata"]["name"] for pod in case.others}
                for pod in pods.get(case.namespace, ()):
                    if pod["metadata"]["name"] in others:
                        continue
                    name, spec = pod["metadata"]["name"], pod["spec"]
                    if "nodeName" in spec:
                        truth.nodes[name] = spec["nodeName"]
                    else:
                        truth.waiting[name] = reason(pod)
            [*threads.map(self._remove, cases)]
        return truths

    def _create(self, value: Object) -> None:
        try:
            self.plane.ask("POST", path_of(value), value)
        except urllib.error.HTTPError as error:
            raise RefusedError(error.read().decode()) from error

    def _populate(self, case: Case) -> None:
        for namespace in case.namespaces:
            self._create(named("Namespace", namespace))
            self._create(named("ServiceAccount", "default", namespace))
        for value in case.policies:
            self._create(value)
            if value["kind"] == "ResourceQuota":
                hard = value["spec"]["hard"]
                status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
                self.plane.set_status(f"{path_of(value)}/{value['metadata']['name']}", status)
        for node in case.nodes:
            value = copy.deepcopy(node)
            value["metadata"]["labels"][CASE] = case.namespace
            self._create(value)
        for pod in case.others:
            self._create(pod)
            if phase := pod["status"].get("phase"):
                self.plane.set_status(f"{path_of(pod)}/{pod['metadata']['name']}", {"phase": phase})
            if pod["metadata"].get("finalizers"):
                self.plane.ask("DELETE", f"{path_of(pod)}/{pod['metadata']['name']}")

    def _read(self, cases: Sequence[Case]) -> list[Truth]:
        """The clusters of the cases as the API server shows them."""
        places = {name: case.namespace for case in cases for name in case.namespaces}
        items: dict[str, dict[str, list[Object]]] = {}
        for version, kind in self.kinds:
            listed = self.plane.ask("GET", path_of({**named(kind, ""), "apiVersion": version}))
            for item in listed["items"]:
                metadata = item["metadata"]
                label = metadata.get("labels", {}).get(CASE)
                place = places.get(metadata.get("namespace"), label)
                items.setdefault(str(place), {}).setdefault(kind, []).append(item)
        return [Truth(items.get(case.namespace, {})) for case in cases]

    def _apply(self, case: Case, truth: Truth) -> None:
        try:
            for value in copy.deepcopy(case.applied):
                if value["kind"] == "Pod":
                    value["spec"].setdefault("nodeSelector", {})[CASE] = case.namespace
                self._create(value)
        except RefusedError as error:
            truth.refused = str(error)

    def _remove(self, case: Case) -> None:
        at_once = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for pod in case.others:
            if pod["metadata"].get("finalizers"):
                path = f"{path_of(pod)}/{pod['metadata']['name']}"
                change = {"metadata": {"finalizers": None}}
                self.plane.ask("PATCH", path, change)
        for namespace in case.namespaces:
            self.plane.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods", at_once)
        selector = f"labelSelector={CASE}%3D{case.namespace}"
        self.plane.ask("DELETE", f"/api/v1/nodes?{selector}", at_once)

    # ---- the scheduler's own view ----------------------------------------------------------------

    def _gauges(self, metric: str, label: str) -> dict[str, int]:
        answer = self._pool.request("GET", f"https://127.0.0.1:{self._port}/metrics")
        rows = re.findall(rf'(?m)^{metric}{{{label}="(\w+)"}} (\S+)', answer.data.decode())
        return {name: int(float(value)) for name, value in rows}

    def _wait_until_known(self, cases: Sequence[Case], seconds: float = 60) -> None:
        """Waits until the scheduler knows all that the job's Pods must meet."""
        nodes = sum(len(case.nodes) for case in cases)
        pods = sum(len(case.running) for case in cases)
        end, sizes = time.monotonic() + seconds, {}
        while time.monotonic() < end:
            try:
                sizes = self._gauges("scheduler_cache_size", "type")
            except urllib3.exceptions.HTTPError:
                sizes = {}  # it starts
            if (sizes.get("nodes"), sizes.get("pods")) == (nodes, pods):
                return
            time.sleep(0.05)
        raise AssertionError(f"the scheduler knows {sizes}, not {nodes} nodes and {pods} Pods")

    def _settle(self, refused: AbstractSet[str], seconds: float = 120) -> dict[str, list[Object]]:
        """The Pods by namespace, once the scheduler has nothing left to try.

        Args:
            refused: The namespaces of jobs that are not whole.
        """
        end, before = time.monotonic() + seconds, None
        while time.monotonic() < end:
            queues = self._gauges("scheduler_pending_pods", "queue")
            items = self.plane.ask("GET", "/api/v1/pods")["items"]
            schedulable = [
                pod for pod in items if pod["spec"]["schedulerName"] == "default-scheduler"
            ]
            waits = [pod for pod in schedulable if "nodeName" not in pod["spec"]]
            idle = queues.get("unschedulable", 0) + queues.get("gated", 0)
            rested = queues.get("active") == queues.get("backoff") == 0 and idle == len(waits)
            rested = rested and self._is_decided(items, refused)
            now = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in items}
            if rested and all(map(reason, waits)) and now == before:
                by_namespace: dict[str, list[Object]] = {}
                for pod in items:
                    by_namespace.setdefault(pod["metadata"]["namespace"], []).append(pod)
                return by_namespace
            before = now
            time.sleep(0.2)
        raise AssertionError(f"the scheduler does not come to rest: {queues}")

    def _is_decided(self, pods: list[Object], refused: AbstractSet[str]) -> bool:
        """Whether nobody but the scheduler has to decide about these Pods."""
        return bool(pods or refused)


def configuration(kubeconfig: Path) -> Object:
    """The default scheduler's, as fast as it can be and without preemption."""
    disabled = {"disabled": [{"name": "DefaultPreemption"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 2000, "burst": 4000},
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"postFilter": disabled}}],
    }


def reason(pod: Object) -> str:
    """Why the scheduler has no node for a Pod; empty if it has not said so."""
    conditions: Iterable[Object] = pod.get("status", {}).get("conditions", ())
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason"))
    return ""


def named(kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def path_of(value: Object) -> str:
    version, plural = value["apiVersion"], f"{value['kind'].lower()}s"
    plural = re.sub("sss$", "sses", re.sub("ys$", "ies", plural))
    namespace = value["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
