"""A random case behind a random queue of Kueue: flavors, quotas, borrowing, other Workloads."""

import random

from random_cases import case
from random_clusters import GPU, NIC, Case, Object, amount, spelled

from etcompile import Settings

SETTINGS = Settings(gang="kueue", run="one")


def queued_case(seed: int) -> Case:
    """The case of a seed, whose job is in the LocalQueue `research`."""
    drawn = case(seed, SETTINGS)
    QueueDrawing(random.Random(f"queues/{seed}"), drawn).draw()
    return drawn


class QueueDrawing:
    def __init__(self, chance: random.Random, case: Case) -> None:
        self.chance, self.case = chance, case
        self.sums = requested(case)

    def draw(self) -> None:
        chance, case = self.chance, self.case
        pools = [node["metadata"]["labels"]["pool"] for node in case.nodes]
        names = [*dict.fromkeys(chance.choices(pools, k=chance.choice((1, 2, 4))))]
        if chance.random() < 0.5:
            names = [""]
        for name in names:
            case.queues.append(self._object("ResourceFlavor", f"{name}any", self._flavor(name)))
        cohort = chance.random() < 0.6
        covered = sorted({*self.sums, "cpu", "memory", *((GPU,) if chance.random() < 0.5 else ())})
        if chance.random() < 0.03:
            covered.remove(chance.choice(covered))
        if chance.random() < 0.15:
            covered.append("pods")
        used: list[Object] = []
        for owner in ("ours", *(("theirs", "also") if cohort else ())):
            quotas = {name: self._quotas(covered, len(names), owner) for name in names}
            self._queue(owner, quotas, covered, cohort=cohort)
            for name, quota in quotas.items():
                used += self._workloads(owner, name, quota)
        if cohort and chance.random() < 0.3:
            self._cohort(names, covered)
        case.queues += used

    def _flavor(self, pool: str) -> Object:
        """A pool of nodes, with the taints that all of them have."""
        chance = self.chance
        if not pool:
            return {}
        nodes = [n for n in self.case.nodes if n["metadata"]["labels"]["pool"] == pool]
        spec: Object = {"nodeLabels": {"pool": pool}}
        taints = [
            taint
            for taint in nodes[0]["spec"]["taints"]
            if all(taint in node["spec"]["taints"] for node in nodes)
            and taint["key"] != "node.kubernetes.io/unschedulable"
        ]
        if taints and chance.random() < 0.7:
            spec["nodeTaints"] = taints
        elif taints and chance.random() < 0.5:
            one = {"key": taints[0]["key"], "operator": "Exists"}
            spec["tolerations"] = [one]
        return spec

    def _quotas(self, covered: list[str], flavors: int, owner: str) -> dict[str, Object]:
        """Quotas of a flavor: enough for the job, or of one resource barely or not."""
        chance = self.chance
        scarce = chance.choice(covered) if chance.random() < 0.5 else ""
        share = chance.choice((1, 1, 1, flavors))
        quotas = {}
        for name in covered:
            whole = self.sums.get(name, 8)
            step = 250 if name == "cpu" else 1
            most = chance.choice((whole, whole * 2, whole * 3))
            if name == scarce:
                most = chance.choice((whole, whole - step, whole + step, whole // 2))
            if owner != "ours":
                most = chance.choice((whole // 4, whole // 2, whole))
            quotas[name] = {"nominalQuota": spelled(name, max(0, most // share))}
        return quotas

    def _queue(
        self, owner: str, quotas: dict[str, dict[str, Object]], covered: list[str], *, cohort: bool
    ) -> None:
        chance, case = self.chance, self.case
        if cohort:
            for quota in (one for flavor in quotas.values() for one in flavor.values()):
                for limit in ("borrowingLimit", "lendingLimit"):
                    if chance.random() < 0.1:
                        quota[limit] = quota["nominalQuota"]
        place = case.namespaces[owner != "ours"]

        def group(resources: list[str], flavors: list[str]) -> Object:
            rows = [
                {
                    "name": f"{name}any-{case.namespace}",
                    "resources": [{"name": one, **quotas[name][one]} for one in resources],
                }
                for name in flavors
            ]
            return {"coveredResources": resources, "flavors": rows}

        spec: Object = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place}},
            "resourceGroups": [group(covered, [*quotas])],
        }
        if cohort:
            spec["cohortName"] = f"cohort-{case.namespace}"
        if chance.random() < 0.05:
            spec["flavorFungibility"] = {"whenCanBorrow": "TryNextFlavor"}
        case.queues.append(self._object("ClusterQueue", owner, spec))
        local = {"clusterQueue": f"{owner}-{case.namespace}"}
        name = "research" if owner == "ours" else owner
        case.queues.append(self._object("LocalQueue", name, local, place))
        if owner == "ours":
            case.queues.append(self._object("LocalQueue", "before", local, place))

    def _cohort(self, names: list[str], covered: list[str]) -> None:
        """The cohort has a quota of its own, which all may borrow."""
        flavors = [
            {
                "name": f"{name}any-{self.case.namespace}",
                "resources": [
                    {"name": one, "nominalQuota": spelled(one, self.sums.get(one, 4) // 2)}
                    for one in covered
                ],
            }
            for name in names
        ]
        spec = {"resourceGroups": [{"coveredResources": covered, "flavors": flavors}]}
        self.case.queues.append(self._object("Cohort", "cohort", spec))

    def _workloads(self, owner: str, pool: str, quota: dict[str, Object]) -> list[Object]:
        """Workloads that are within the nominal quota of their queue."""
        chance, workloads = self.chance, []
        tolerations = [{"operator": "Exists"}]
        if owner == "ours" and self.case.policies:
            return []  # a LimitRange would refuse them
        for number in range(chance.choice((0, 0, 0, 1, 2))):
            parts = {
                name: amount(name, one["nominalQuota"]) // chance.choice((3, 4, 8))
                for name, one in quota.items()
                if name != "pods"
            }
            requests = {name: spelled(name, part) for name, part in parts.items() if part > 0}
            limits = {name: text for name, text in requests.items() if name in (GPU, NIC)}
            pages = {name: text for name, text in requests.items() if name.startswith("huge")}
            resources = {"requests": requests, "limits": {**limits, **pages}}
            pod: Object = {
                "containers": [{"name": "c", "image": "example.com/a:1", "resources": resources}],
                "restartPolicy": "Never",
                "tolerations": tolerations,
            }
            if pool:
                pod["nodeSelector"] = {"pool": pool}
            sets = [{"name": "main", "count": 1, "template": {"spec": pod}}]
            queue = "before" if owner == "ours" else owner
            name = f"{owner}-{pool or 'any'}-{number}"
            place = self.case.namespaces[owner != "ours"]
            if "pods" in quota and int(quota["pods"]["nominalQuota"]) < 2:
                continue
            workloads.append(
                self._object("Workload", name, {"queueName": queue, "podSets": sets}, place)
            )
        return workloads

    def _object(self, kind: str, name: str, spec: Object, namespace: str = "") -> Object:
        """An object of Kueue; one without a namespace has the case's name in its own."""
        labels = {"tests/case": self.case.namespace}
        metadata: Object = {"name": name, "labels": labels}
        if namespace:
            metadata["namespace"] = namespace
        else:
            metadata["name"] = f"{name}-{self.case.namespace}"
        version = "kueue.x-k8s.io/v1beta2"
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _lasting(spec: Object) -> list[Object]:
    sidecars = [c for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"]
    return [*spec["containers"], *sidecars]


def requested(case: Case) -> dict[str, int]:
    """What all containers of a job request, roughly what Kueue counts."""
    sums: dict[str, int] = {}
    for value in case.applied:
        if value["kind"] == "Pod":
            for container in _lasting(value["spec"]):
                resources = container.get("resources", {})
                requests = resources.get("requests") or resources.get("limits") or {}
                for name, text in requests.items():
                    sums[name] = sums.get(name, 0) + amount(name, str(text))
    return sums
