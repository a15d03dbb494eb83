"""Random clusters, and what runs on them."""

import copy
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from etcompile import Settings

Object = dict[str, Any]

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
HOST, MODEL = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
GPU, NIC = "nvidia.com/gpu", "example.com/nic"
_CLASSES = yaml.safe_load(Path(__file__).with_name("classes.yaml").read_text("utf-8"))
TAINTS = tuple(_CLASSES["taints"])
PRIORITY_CLASSES = tuple(_CLASSES["priority"])
RUNTIME_CLASSES = tuple(_CLASSES["runtime"])
SHAPES = (
    (4, 16, 0),
    (8, 32, 0),
    (16, 64, 0),
    (32, 128, 0),
    (16, 64, 1),
    (32, 128, 4),
    (96, 768, 8),
)
"""CPUs, GiB and GPUs of a node."""


@dataclass
class Case:
    """A cluster and a job.

    Attributes:
        running: The Pods of others that take from a node.
        queues: What Kueue needs, and Workloads of others that it has admitted.
        applied: The objects of the job that a scheduler sees, in the order of their creation.
    """

    seed: int
    nodes: list[Object] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    policies: list[Object] = field(default_factory=list)
    document: Object = field(default_factory=dict)
    objects: list[Object] = field(default_factory=list)
    queues: list[Object] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    name: str = ""

    @property
    def namespace(self) -> str:
        return self.name or f"case-{self.seed}"

    @property
    def namespaces(self) -> tuple[str, str]:
        return self.namespace, f"{self.namespace}-others"

    @property
    def running(self) -> list[Object]:
        return [pod for pod in self.others if pod["status"].get("phase") != "Succeeded"]

    @property
    def applied(self) -> list[Object]:
        kinds = ("ServiceAccount", "Service", "Pod")
        plain = [value for value in self.objects if value["kind"] in kinds]
        later = [pod for value in self.objects if value["kind"] == "Job" for pod in pods_of(value)]
        return plain + later

    def empty(self) -> "Case":
        """The same cluster with nothing on it but DaemonSets."""
        daemons = [pod for pod in self.others if pod["metadata"].get("ownerReferences")]
        case = copy.deepcopy(replace(self, others=daemons, name=f"{self.namespace}-empty"))
        for value in (*case.others, *case.policies, *case.objects, *case.nodes):
            metadata = value["metadata"]
            if value["kind"] == "Node":
                metadata["name"] = f"{metadata['name']}-empty"
            elif metadata["namespace"] == self.namespace:
                metadata["namespace"] = case.namespace
            else:
                metadata["namespace"] = f"{case.namespace}-others"
            if "nodeName" in value.get("spec", {}):
                value["spec"]["nodeName"] += "-empty"
        return case


def pods_of(job: Object) -> list[Object]:
    template = copy.deepcopy(job["spec"]["template"])
    metadata = {**template.get("metadata", {}), "namespace": job["metadata"]["namespace"]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "spec": copy.deepcopy(template["spec"])}
        | {"metadata": {**metadata, "name": f"{job['metadata']['name']}-{number}"}}
        for number in range(job["spec"].get("parallelism", 1))
    ]


class Cluster:
    def __init__(self, chance: random.Random, case: Case) -> None:
        self.chance, self.case = chance, case
        self.total = min(60, 1 + int(chance.expovariate(1 / 12)))
        self.groups = min(self.total, chance.choice((1, 1, 2, 2, 3, 4, 6)))
        self.zones = chance.choice((("",), ("a",), ("a", "b"), ("a", "b", "c")))
        self.fullness = chance.choice((0, 0.3, 0.6, 0.9, 1))
        if case.settings.gang == "kueue":
            self.fullness /= 4  # the queue is what decides, most times

    def fill(self) -> None:
        sizes = [self.total // self.groups] * self.groups
        sizes[0] += self.total - sum(sizes)
        for group, size in enumerate(sizes):
            self._group(group, size)
        daemon = self.chance.random() < 0.5
        for node in self.case.nodes:
            self._load(node, daemon=daemon)
        if self.case.others and self.chance.random() < 0.02:
            pod = self.chance.choice(self.case.others)  # keeps the job's Pods away from its rack
            pod["metadata"]["namespace"] = self.case.namespace
            pod["spec"]["affinity"] = {"podAntiAffinity": required([term(RACK, "team")])}

    def _group(self, group: int, size: int) -> None:
        chance = self.chance
        cpus, memory, gpus = chance.choice(SHAPES)
        allocatable = {
            "cpu": f"{cpus * 1000 - chance.choice((0, 80, 210))}m",
            "memory": f"{memory * 1048576 - chance.choice((0, 262144, 1003517))}Ki",
            "ephemeral-storage": f"{chance.choice((50, 100, 500))}Gi",
            "pods": str(chance.choice((3, 5, 8, 29, 110, 110))),
        }
        if gpus:
            allocatable[GPU] = str(gpus)
        if chance.random() < 0.25:
            allocatable[NIC] = chance.choice(("1", "2", "4"))
        if chance.random() < 0.15:
            allocatable["hugepages-2Mi"] = chance.choice(("512Mi", "2Gi"))
        labels = {"pool": f"pool-{group}", MODEL: f"m{cpus}.{memory}", "generation": str(group)}
        if gpus:
            labels["gpus"] = "yes"
        taints = [taint for taint in TAINTS[:4] if chance.random() < 0.12]
        if gpus and chance.random() < 0.5:
            taints = [TAINTS[0], *taints]
        zone = chance.choice((*self.zones, "each", "each"))
        if chance.random() < 0.03:
            zone = ""  # a zone that nobody knows, beside zones that have names
        for _ in range(size):
            number = len(self.case.nodes)
            name = f"n{self.case.seed}-{number}"
            place = zone if zone != "each" else self.zones[number % len(self.zones)]
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {**labels, HOST: name}},
                "spec": {"taints": [dict(taint) for taint in taints]},
                "status": {"allocatable": dict(allocatable), "capacity": dict(allocatable)},
            }
            if place:
                node["metadata"]["labels"] |= {ZONE: place, RACK: f"{place}{number % 2}"}
            if chance.random() < 0.05:
                node["spec"]["unschedulable"] = True
                cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
                node["spec"]["taints"].append(cordon)
            if chance.random() < 0.04:
                node["spec"]["taints"] += [dict(taint) for taint in TAINTS[4:]]
            if chance.random() < 0.1:
                smaller = number_of(allocatable["cpu"]) * chance.choice((5, 7)) // 8
                node["status"]["allocatable"]["cpu"] = f"{smaller}m"
            unique(node["spec"]["taints"])
            self.case.nodes.append(node)

    def _load(self, node: Object, *, daemon: bool) -> None:
        chance, allocatable = self.chance, node["status"]["allocatable"]
        if daemon:
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
            pod = self._other(node, {"cpu": "100m", "memory": "200Mi"})
            pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        fullness = self.fullness * chance.choice((0.5, 1, 1))
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            space = free(node, self.case.others)
            if space["pods"] < 1 or chance.random() > fullness:
                break
            requests = {}
            for name in ("cpu", "memory", GPU, NIC, "ephemeral-storage"):
                most = int(space.get(name, 0) * chance.choice((0.25, 0.5, fullness)))
                if most > 0 and chance.random() < (0.9 if name in ("cpu", "memory") else 0.4):
                    requests[name] = spelled(name, rounded(chance, name, most))
            pod = self._other(node, requests)
            for key in ("batch", "urgent"):
                if chance.random() < 0.2:
                    pod["spec"]["priorityClassName"] = key
            if chance.random() < 0.1:
                port = {"containerPort": 80, "hostPort": chance.choice((8080, 9090))}
                pod["spec"]["containers"][0]["ports"] = [port]
                if chance.random() < 0.3:
                    port |= {"hostIP": "10.0.0.1"}
            if chance.random() < 0.05:
                pod["metadata"]["finalizers"] = ["tests/terminating"]
            elif chance.random() < 0.05:
                pod["status"]["phase"] = "Succeeded"
            elif chance.random() < 0.1:
                pod["status"]["phase"] = "Running"
            if chance.random() < 0.1:
                first = {"name": "first", "image": "example.com/a:1"}
                first["resources"] = {"requests": {"cpu": spelled("cpu", space["cpu"] // 2)}}
                pod["spec"]["initContainers"] = [first]
        assert "pods" in allocatable

    def _other(self, node: Object, requests: dict[str, str]) -> Object:
        chance, name = self.chance, f"other-{len(self.case.others)}"
        apart = chance.random() < 0.9
        resources: Object = {"requests": requests}
        # Extended resources need limits, too.
        limits = {key: value for key, value in requests.items() if "/" in key}
        if limits:
            resources["limits"] = limits
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.case.namespaces[1 if apart else 0],
                "labels": {"app": chance.choice(("web", "cache"))},
            },
            "spec": {
                "nodeName": node["metadata"]["name"],
                "containers": [{"name": "c", "image": "example.com/a:1", "resources": resources}],
            },
            "status": {},
        }
        self.case.others.append(pod)
        return pod


def unique(taints: list[Object]) -> None:
    """Leaves one taint of each key and effect."""
    by_key = {(taint["key"], taint["effect"]): taint for taint in taints}
    taints[:] = by_key.values()


def term(key: str, label: str) -> Object:
    """A term of Pod affinity: Pods of the team, or of the app called cache."""
    value = {"team": "vision", "app": "cache"}[label]
    return {"topologyKey": key, "labelSelector": {"matchLabels": {label: value}}}


def required(terms: list[Object]) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


# ---- amounts: CPUs in thousandths, the rest in bytes or pieces -------------------------------


_UNITS = {"m": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def number_of(text: str) -> int:
    """A quantity of the few forms that are drawn here: thousandths without a binary unit."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text) * 1000


def amount(name: str, text: str) -> int:
    if name == "cpu" or text.endswith(("Ki", "Mi", "Gi")):
        return number_of(text)
    return int(text)


def spelled(name: str, value: int) -> str:
    """An amount as it is written; the inverse of `amount`."""
    if name == "cpu":
        return f"{value}m"
    if name == "memory" and value % 1024 == 0:
        return f"{value // 1024}Ki"
    return str(value)


def rounded(chance: random.Random, name: str, value: int) -> int:
    """An amount as people choose it, and no more."""
    step = {"cpu": 250, "memory": 2**28, "ephemeral-storage": 2**30, "hugepages-2Mi": 2**21}
    step_size = step.get(name, 1)
    return max(value // step_size * step_size, min(value, step_size))


def free(node: Object, others: list[Object]) -> dict[str, int]:
    """Roughly what is left on a node, to draw a job of about that size."""
    allocatable = node["status"]["allocatable"]
    left = {name: amount(name, text) for name, text in allocatable.items()}
    for pod in others:
        if pod["spec"]["nodeName"] == node["metadata"]["name"]:
            left["pods"] -= 1
            for container in pod["spec"]["containers"]:
                for name, text in container["resources"]["requests"].items():
                    left[name] = left.get(name, 0) - amount(name, text)
    return left
