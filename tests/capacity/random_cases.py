"""Random clusters, what runs on them, and a job that fits about every second time, often barely."""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import etcompile
from etcompile import Options, Settings
from specs import elastic_job, kubeflow_job, training_job

Object = dict[str, Any]

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
HOST, MODEL = "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
GPU, NIC = "nvidia.com/gpu", "example.com/nic"
TAINTS = (
    {"key": GPU, "value": "present", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "research", "effect": "NoSchedule"},
    {"key": "spot", "effect": "NoExecute"},
    {"key": "slow", "value": "disk", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
)
SHAPES = ((4, 16, 0), (8, 32, 0), (16, 64, 0), (32, 128, 0), (16, 64, 1), (32, 128, 4), (96, 768, 8))
"""CPUs, GiB and GPUs of a node."""

PRIORITY_CLASSES = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    for name, value in (("urgent", 1000), ("batch", -10))
)
RUNTIME_CLASSES = tuple(
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "runc",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
        **more,
    }
    for name, more in (
        ("sandboxed", {}),
        (
            "sandboxed-gpu",
            {"scheduling": {"nodeSelector": {"gpus": "yes"}, "tolerations": [{"key": GPU}]}},
        ),
    )
)
for _class in RUNTIME_CLASSES:
    for _toleration in _class.get("scheduling", {}).get("tolerations", ()):
        _toleration["operator"] = "Exists"
PRIORITIES = {"urgent": 1000, "batch": -10, "": 0}


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
    """The Pods that the Job controller creates."""
    template = copy.deepcopy(job["spec"]["template"])
    metadata = {**template.get("metadata", {}), "namespace": job["metadata"]["namespace"]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "spec": copy.deepcopy(template["spec"])}
        | {"metadata": {**metadata, "name": f"{job['metadata']['name']}-{number}"}}
        for number in range(job["spec"].get("parallelism", 1))
    ]


def cases(first: int, count: int) -> Iterator[Case]:
    """Cases from a seed on."""
    return (case(seed) for seed in range(first, first + count))


def case(seed: int, settings: Settings | None = None) -> Case:
    """The case of a seed; a job that etcompile refuses is drawn again."""
    for attempt in range(100):
        chance = random.Random(f"{seed}/{attempt}")
        drawn = Case(seed, settings=settings or Settings())
        Cluster(chance, drawn).fill()
        if Jobs(chance, drawn).declare():
            return drawn
    raise AssertionError(f"no job of seed {seed} compiles")


# ---- clusters --------------------------------------------------------------------------------


class Cluster:
    """Draws nodes in groups, and Pods of others on them."""

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
            room = free(node, self.case.others)
            if room["pods"] < 1 or chance.random() > fullness:
                break
            requests = {}
            for name in ("cpu", "memory", GPU, NIC, "ephemeral-storage"):
                most = int(room.get(name, 0) * chance.choice((0.25, 0.5, fullness)))
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
                first["resources"] = {"requests": {"cpu": spelled("cpu", room["cpu"] // 2)}}
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


# ---- jobs ------------------------------------------------------------------------------------


class Jobs:
    """Draws a job for a cluster."""

    def __init__(self, chance: random.Random, case: Case) -> None:
        self.chance, self.case = chance, case

    def declare(self) -> bool:
        """Puts a job into the case; False if there is none that etcompile accepts."""
        document = self._document()
        self.case.document = document
        spec = next(
            (spec for _ in range(9) if any(self._eligible(spec := self._constraints()))),
            self._constraints(),
        )
        same = self.chance.random() < 0.3
        request = self._request(self._eligible(spec))
        for role, replica in roles(document):
            leads = role.lower() not in ("worker", "ps") or (role == "PS" and not same)
            template = replica["template"]
            own = self._small(request) if leads and not same else request
            self._shape(template, own, leads=leads)
            template["spec"] |= copy.deepcopy(spec)
        if self.chance.random() < 0.06:
            self._policy()
        return self.compile()

    def compile(self) -> bool:
        metadata = self.case.document["metadata"]
        metadata.pop("namespace", None)
        if self.case.settings.gang == "kueue":
            metadata["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
        options = Options(namespace=self.case.namespace, settings=self.case.settings)
        compilation = etcompile.compile([self.case.document], options)
        self.case.objects = [json.loads(json.dumps(value)) for value in compilation.objects]
        return compilation.ok

    def _document(self) -> Object:
        """A job of some kind with one replica of each type."""
        chance = self.chance
        kind = chance.choice(
            ("PyTorchJob", "PyTorchJob", "TFJob", "TrainingJob", "MPIJob", "MPIJob v2")
            + ("XGBoostJob", "PaddleJob", "JAXJob", "ElasticJob", "PyTorchJob of workers")
        )
        if kind == "TrainingJob":
            return training_job(replicas=1)
        if kind.startswith("MPIJob"):
            return mpi_job(v2=kind.endswith("v2"))
        if kind == "ElasticJob":
            return elastic_job({"worker": 1})
        types = {"Worker": 1}
        if kind == "TFJob":
            types |= {"PS": 1} if chance.random() < 0.6 else {}
            types |= {"Chief": 1} if chance.random() < 0.5 else {}
        elif kind in ("PyTorchJob", "XGBoostJob"):
            types["Master"] = 1
        return kubeflow_job(kind.split()[0], types)

    def _eligible(self, spec: Object) -> list[Object]:
        """The nodes that a Pod may use by its tolerations and node selector, roughly."""
        tolerated = {toleration.get("key") for toleration in spec["tolerations"]}
        pool = spec.get("nodeSelector", {}).get("pool")

        def admits(node: Object) -> bool:
            taints = [t["key"] for t in node["spec"]["taints"] if t["effect"].startswith("No")]
            return pool in (None, node["metadata"]["labels"]["pool"]) and (
                None in tolerated or tolerated.issuperset(taints)
            )

        return [node for node in self.case.nodes if admits(node)]

    def _request(self, nodes: list[Object]) -> dict[str, int]:
        """What a worker requests, so that a few fit; sets how many there are."""
        chance = self.chance
        rooms = [free(node, self.case.others) for node in nodes or self.case.nodes]
        rooms = [room for room in rooms if room["cpu"] >= 100 and room["pods"] >= 1] or rooms
        room, share = chance.choice(rooms), chance.choice((1, 1, 2, 2, 3, 4, 6))
        request = {}
        for name in ("cpu", "memory"):
            part = max(room[name] // share, 0)
            if name == "memory" and chance.random() < 0.5:
                part //= 4
            request[name] = part if chance.random() < 0.4 else rounded(chance, name, part)
        for name in (GPU, NIC):
            if room.get(name, 0) >= share and chance.random() < 0.7:
                request[name] = room[name] // share
        for name in ("ephemeral-storage", "hugepages-2Mi"):
            if room.get(name, 0) > 0 and chance.random() < 0.1:
                request[name] = rounded(chance, name, room[name] // share)
        if chance.random() < 0.04:
            request["cpu"] *= 3
        request = {name: amount for name, amount in request.items() if amount > 0}
        slots = 0
        for room in rooms:
            fits = [room.get(name, 0) // amount for name, amount in request.items()]
            slots += max(0, min([*fits, room["pods"]]))
        if self.case.settings.gang == "kueue":
            slots //= 2
        count = max(1, min(20, slots + chance.choice((-3, -2, -1, -1, 0, 0, 1))))
        if chance.random() < 0.3:
            count = chance.randint(1, count)
        for role, replica in roles(self.case.document):
            if role.lower() == "worker":
                replica["replicas"] = count
        return request

    def _small(self, request: dict[str, int]) -> dict[str, int]:
        divisor = self.chance.choice((1, 2, 4, 8))
        few = {name: amount // divisor for name, amount in request.items() if "/" not in name}
        return {name: amount for name, amount in few.items() if amount > 0}

    def _shape(self, template: Object, request: dict[str, int], *, leads: bool) -> None:
        chance, spec = self.chance, template["spec"]
        main = spec["containers"][0]
        template.setdefault("metadata", {}).setdefault("labels", {})["team"] = "vision"
        parts = dict(request)
        if chance.random() < 0.12 and parts.get("cpu", 0) > 400:
            sidecar: Object = {"name": "sidecar", "image": "example.com/s:1"}
            sidecar["resources"] = {"requests": {"cpu": "200m"}}
            if chance.random() < 0.6:
                sidecar["restartPolicy"] = "Always"
                spec.setdefault("initContainers", []).append(sidecar)
            else:
                spec["containers"].append(sidecar)
            if chance.random() < 0.8:
                parts["cpu"] -= 200
        if chance.random() < 0.12:
            first: Object = {"name": "first", "image": "example.com/i:1"}
            more = int(parts.get("cpu", 1000) * chance.choice((0.5, 1, 1.2)))
            first["resources"] = {"requests": {"cpu": f"{more}m"}}
            spec.setdefault("initContainers", []).append(first)
        texts = {name: spelled(name, amount) for name, amount in parts.items()}
        bound = {name: text for name, text in texts.items() if "/" in name or "huge" in name}
        if bound and "cpu" not in texts and "memory" not in texts:
            texts["cpu"] = "10m"
        if chance.random() < 0.2:
            main["resources"] = {"limits": texts}
        else:
            main["resources"] = {"requests": texts, **({"limits": bound} if bound else {})}
        if chance.random() < 0.05 and not leads:
            port = {"containerPort": 7000, "hostPort": chance.choice((8080, 7000))}
            if chance.random() < 0.3:
                port["hostIP"] = chance.choice(("10.0.0.1", "10.0.0.2"))
            main.setdefault("ports", []).append(port)
        elif chance.random() < 0.02:
            spec["hostNetwork"] = True
        if chance.random() < 0.05:
            spec["runtimeClassName"] = chance.choice(("sandboxed", "sandboxed", "sandboxed-gpu"))

    def _constraints(self) -> Object:
        """Where all Pods of the job may run, and how they relate to each other."""
        chance, spec = self.chance, {}
        taints = [t for node in self.case.nodes for t in node["spec"]["taints"]]
        spec["tolerations"] = [
            {"key": taint["key"], "operator": "Exists"}
            for taint in TAINTS[:4]
            if taint in taints and chance.random() < 0.75
        ]
        if taints and chance.random() < 0.1:
            spec["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
        if chance.random() < 0.06:
            spec["tolerations"] = [{**taint, "operator": "Equal"} for taint in TAINTS[:2]]
        if chance.random() < 0.15:
            spec["nodeSelector"] = {"pool": f"pool-{chance.randint(0, 2)}"}
        affinity: Object = {}
        if chance.random() < 0.2:
            affinity["nodeAffinity"] = self._node_affinity()
        pick = chance.random()
        key = chance.choice((HOST, HOST, ZONE, RACK, "pool"))
        if pick < 0.08:
            affinity["podAntiAffinity"] = required([term(key, "team")])
        elif pick < 0.12:
            affinity["podAffinity"] = required([term(chance.choice((ZONE, RACK, "pool")), "team")])
        elif pick < 0.15:
            weighted = {"weight": 100, "podAffinityTerm": term(key, "team")}
            kind = chance.choice(("podAffinity", "podAntiAffinity"))
            affinity[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
        elif pick < 0.155:
            affinity["podAffinity"] = required([term(ZONE, "app")])
        elif pick < 0.26:
            spec["topologySpreadConstraints"] = self._spread()
        if affinity:
            spec["affinity"] = affinity
        if chance.random() < 0.1:
            spec["priorityClassName"] = chance.choice(("urgent", "batch"))
        if chance.random() < 0.01:
            spec["schedulerName"] = "elsewhere"
        return spec

    def _node_affinity(self) -> Object:
        chance = self.chance

        def expression() -> Object:
            return chance.choice(
                (
                    {"key": ZONE, "operator": "In", "values": ["a", "b"]},
                    {"key": ZONE, "operator": "NotIn", "values": ["a"]},
                    {"key": "gpus", "operator": "Exists"},
                    {"key": "gpus", "operator": "DoesNotExist"},
                    {"key": "generation", "operator": "Gt", "values": ["0"]},
                    {"key": "generation", "operator": "Lt", "values": ["2"]},
                    {"key": MODEL, "operator": "In", "values": ["m16.64", "m32.128", "m8.32"]},
                )
            )

        def terms() -> list[Object]:
            many = range(chance.choice((1, 1, 2)))
            return [{"matchExpressions": [expression() for _ in many]} for _ in many]

        if chance.random() < 0.3:
            preferred = [{"weight": chance.randint(1, 100), "preference": terms()[0]}]
            return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        node_terms = {"nodeSelectorTerms": terms()}
        return {"requiredDuringSchedulingIgnoredDuringExecution": node_terms}

    def _spread(self) -> list[Object]:
        chance = self.chance
        found = []
        for key in chance.sample((HOST, ZONE, RACK), chance.choice((1, 1, 2))):
            one: Object = {
                "topologyKey": key,
                "maxSkew": chance.choice((1, 1, 2)),
                "whenUnsatisfiable": chance.choice(("DoNotSchedule",) * 3 + ("ScheduleAnyway",)),
                "labelSelector": {"matchLabels": {"team": "vision"}},
            }
            if one["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.15:
                one["minDomains"] = chance.choice((2, 3))
            if chance.random() < 0.2:
                one["nodeTaintsPolicy"] = "Honor"
            found.append(one)
        return found

    def _policy(self) -> None:
        """A rule of the namespace."""
        chance, namespace = self.chance, self.case.namespace
        self.case.others = [
            pod for pod in self.case.others if pod["metadata"]["namespace"] != namespace
        ]
        kind = chance.choice(("ResourceQuota", "ResourceQuota", "LimitRange"))
        if kind == "LimitRange":
            limit = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}
            if chance.random() < 0.5:
                limit["max"] = {"memory": chance.choice(("1Gi", "64Gi"))}
                limit["default"] |= {"memory": "1Gi"}
            spec: Object = {"limits": [limit]}
        else:
            total: dict[str, int] = {}
            for _, replica in roles(self.case.document):
                for container in replica["template"]["spec"]["containers"]:
                    resources = container["resources"]
                    requests = resources.get("requests") or resources.get("limits", {})
                    for name, text in requests.items():
                        all_of_it = amount(name, text) * replica.get("replicas", 1)
                        total[name] = total.get(name, 0) + all_of_it
            name = chance.choice(sorted(set(total) & {"cpu", "memory", GPU}) or ["pods"])
            least = total.get(name, 5) // (1000 if name == "cpu" else 1)
            least += chance.choice((-1, 0, 1, 100))
            key = "pods" if name == "pods" else f"requests.{name}"
            spec = {"hard": {key: str(max(0, least))}}
        policy = {"apiVersion": "v1", "kind": kind, "spec": spec}
        self.case.policies = [policy | {"metadata": {"name": "rule", "namespace": namespace}}]


def roles(document: Object) -> Iterator[tuple[str, Object]]:
    """The replica types of a job by name."""
    spec = document["spec"]
    for key in spec:
        if key.lower().endswith("replicaspecs"):
            yield from spec[key].items()


def mpi_job(*, v2: bool) -> Object:
    """An MPIJob of the MPI Operator, or of the Training Operator."""
    container = {"name": "mpi", "image": "example.com/mpi:1"}
    launcher = {**container, "command": ["mpirun", "-np", "2", "train"]}
    types = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1" if v2 else "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "mnist"},
        "spec": {"mpiReplicaSpecs": types},
    }


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
    """A quantity of a resource."""
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
