"""A job for a random cluster: it fits about every second time, often barely, and barely not."""

import copy
import json
import random
from collections.abc import Iterator

from random_clusters import (
    GPU,
    HOST,
    MODEL,
    NIC,
    RACK,
    TAINTS,
    ZONE,
    Case,
    Cluster,
    Object,
    amount,
    free,
    required,
    rounded,
    spelled,
    term,
)

import etcompile
from etcompile import Options, Settings
from specs import elastic_job, kubeflow_job, mpi_job, training_job


def case(seed: int, settings: Settings | None = None) -> Case:
    """The case of a seed; a job that etcompile refuses is drawn again."""
    for attempt in range(100):
        chance = random.Random(f"{seed}/{attempt}")
        drawn = Case(seed, settings=settings or Settings())
        Cluster(chance, drawn).fill()
        if Jobs(chance, drawn).declare():
            return drawn
    raise AssertionError(f"no job of seed {seed} compiles")


class Jobs:
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
            role_request = self._small(request) if leads and not same else request
            self._shape(template, role_request, leads=leads)
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
            (
                *("PyTorchJob", "PyTorchJob", "TFJob", "TrainingJob", "MPIJob", "MPIJob v2"),
                *("XGBoostJob", "PaddleJob", "JAXJob", "ElasticJob", "PyTorchJob of workers"),
            )
        )
        if kind == "TrainingJob":
            return training_job(replicas=1)
        if kind.startswith("MPIJob"):
            return mpi_job("v2beta1" if kind.endswith("v2") else "v1")
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
        rooms = [space for space in rooms if space["cpu"] >= 100 and space["pods"] >= 1] or rooms
        space, share = chance.choice(rooms), chance.choice((1, 1, 2, 2, 3, 4, 6))
        request = {}
        for name in ("cpu", "memory"):
            part = max(space[name] // share, 0)
            if name == "memory" and chance.random() < 0.5:
                part //= 4
            request[name] = part if chance.random() < 0.4 else rounded(chance, name, part)
        for name in (GPU, NIC):
            if space.get(name, 0) >= share and chance.random() < 0.7:
                request[name] = space[name] // share
        for name in ("ephemeral-storage", "hugepages-2Mi"):
            if space.get(name, 0) > 0 and chance.random() < 0.1:
                request[name] = rounded(chance, name, space[name] // share)
        if chance.random() < 0.04:
            request["cpu"] *= 3
        request = {name: amount for name, amount in request.items() if amount > 0}
        slots = 0
        for space in rooms:
            fits = [space.get(name, 0) // amount for name, amount in request.items()]
            slots += max(0, min([*fits, space["pods"]]))
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
        key = chance.choice((*(HOST,) * 15, ZONE))
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
        constraints = []
        for key in chance.sample((HOST, ZONE, RACK), chance.choice((1, 1, 2))):
            one: Object = {
                "topologyKey": key,
                "maxSkew": chance.choice((1, 1, 2)),
                "whenUnsatisfiable": chance.choice(("DoNotSchedule",) * 3 + ("ScheduleAnyway",)),
                "labelSelector": {"matchLabels": {"team": "vision"}},
            }
            if one["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.04:
                one["minDomains"] = chance.choice((2, 3))
            if chance.random() < 0.04:
                one["nodeTaintsPolicy"] = "Honor"
            constraints.append(one)
        return constraints

    def _policy(self) -> None:
        chance, namespace = self.chance, self.case.namespace
        self.case.others = [
            pod for pod in self.case.others if pod["metadata"]["namespace"] != namespace
        ]
        kind = chance.choice((*("ResourceQuota",) * 7, "LimitRange"))
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
    spec = document["spec"]
    for key in spec:
        if key.lower().endswith("replicaspecs"):
            yield from spec[key].items()
