"""Objects of a cluster to a snapshot of its capacity, which Git can hold.

Nodes that are equal become one group. A snapshot names no Pods, images or nodes; it names the jobs
that etcompile runs, because what they use is theirs when they are checked again. It never says that
more is free than is: where there are too many different nodes, what they use is rounded up.

The structs are the form of the file: their fields are its fields, with amounts as quantities.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from etcompile.capacity.packing import Node
from etcompile.capacity.pod_needs import (
    DURING_SCHEDULING,
    HOSTNAME,
    NODE_NAME,
    ports_of,
    taint_of,
    units,
)
from etcompile.k8s import pods as pod_status
from etcompile.k8s.objects import Object
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import total_usage
from etcompile.k8s.requests import requested, written
from etcompile.model.protocol import JOB_LABEL

KIND = "CapacitySnapshot"
_MOST_STATES = 500
"""Of all groups together, so that a snapshot of 5,000 nodes has less than 200 kB."""
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints of nodes that are not ready now, under pressure or cordoned."""
_OTHERS = (
    *("priorityClasses", "runtimeClasses", "limitRanges", "resourceQuotas"),
    *("localQueues", "clusterQueues", "resourceFlavors", "cohorts"),
)
_FIELDS = ("spec", "value", "globalDefault", "overhead", "scheduling")


class Use(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What Pods of one priority use on a node.

    Args:
        requests: The sum of their requests, with `pods`.
        host_ports: The ports of the host that they take: protocol, address and number.
        job: The job of etcompile whose Pods they are, `namespace/name`; "" for all others.
        stays: They are of a DaemonSet or of the node itself.
    """

    requests: dict[str, str]
    priority: int = 0
    host_ports: tuple[tuple[str, str, int], ...] = ()
    job: str = ""
    stays: bool = False


class State(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How many nodes of a group are used in the same way."""

    count: int
    used: tuple[Use, ...] = ()


class Group(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Nodes that have the same."""

    allocatable: dict[str, str]
    states: tuple[State, ...]
    labels: dict[str, str] = {}
    taints: tuple[tuple[str, str, str], ...] = ()


class Snapshot(
    Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag=KIND,
):
    """What a cluster has, and what uses it.

    Args:
        taken: When, RFC 3339; "" if that is not known.
        unique_labels: Labels of nodes that are left out, because they differ from node to node.
        pod_labels: By namespace, the keys of the labels of Pods that run.
        anti_affinity: Required anti-affinity terms of Pods that run, with `namespace` and `job`.
    """

    nodes: tuple[Group, ...]
    api_version: Literal["etcompile.dev/v1alpha1"] = "etcompile.dev/v1alpha1"
    taken: str = ""
    rounded: bool = False
    unique_labels: tuple[str, ...] = (HOSTNAME, NODE_NAME)
    pod_labels: dict[str, tuple[str, ...]] = {}
    anti_affinity: tuple[dict[str, Any], ...] = ()
    priority_classes: tuple[dict[str, Any], ...] = ()
    runtime_classes: tuple[dict[str, Any], ...] = ()
    limit_ranges: tuple[dict[str, Any], ...] = ()
    resource_quotas: tuple[dict[str, Any], ...] = ()
    local_queues: tuple[dict[str, Any], ...] = ()
    cluster_queues: tuple[dict[str, Any], ...] = ()
    resource_flavors: tuple[dict[str, Any], ...] = ()
    cohorts: tuple[dict[str, Any], ...] = ()

    @property
    def uses(self) -> list[tuple[Use, int]]:
        """All uses, each with the number of nodes."""
        return [(use, s.count) for group in self.nodes for s in group.states for use in s.used]

    def packing_nodes(self, counts: Callable[[Use], bool], *, healthy: bool = False) -> list[Node]:
        """The nodes with what is used by those Pods that count; `healthy`: as if all were ready."""
        result = []
        for group in self.nodes:
            lasting = tuple(t for t in group.taints if not (healthy and t[0].startswith(_PASSING)))
            has = units_of(group.allocatable)
            for state in group.states:
                used: Counter[str] = Counter()
                for use in filter(counts, state.used):
                    used.update(units_of(use.requests))
                ports = frozenset(
                    port for use in state.used if counts(use) for port in use.host_ports
                )
                result.append(Node(has, group.labels, lasting, used, ports, state.count))
        return result


def of_objects(
    nodes: Iterable[Object],
    pods: Iterable[Object] = (),
    others: Mapping[str, Iterable[Object]] | None = None,
    *,
    taken: str = "",
    keep: Collection[str] = (),
) -> Snapshot:
    """The snapshot of a cluster.

    Args:
        pods: Those that are on no node, or have ended, use nothing.
        others: Other objects by kind: `resourceQuotas`, `limitRanges`, `priorityClasses`,
            `runtimeClasses`, and those of Kueue: `localQueues`, `clusterQueues`,
            `resourceFlavors`, `cohorts`.
        taken: When they were read, RFC 3339.
        keep: Labels of nodes to keep though they differ from node to node; `metadata.name` for
            the names of nodes.
    """
    nodes = list(nodes)
    running = [p for p in pods if p["spec"].get("nodeName") and not pod_status.has_ended(p)]
    by_node: dict[str, list[Object]] = defaultdict(list)
    labels: dict[str, set[str]] = defaultdict(set)
    terms: dict[str, dict[str, Any]] = {}
    for pod in running:
        metadata, spec = pod["metadata"], pod["spec"]
        by_node[spec["nodeName"]].append(pod)
        labels[metadata["namespace"]].update(metadata.get("labels") or ())
        affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get(DURING_SCHEDULING) or ():
            own = {"namespace": metadata["namespace"], "job": job_of(pod), "term": term}
            terms[repr(own)] = own
    unique = _unique(nodes) - {*keep}
    groups: dict[str, Group] = {}
    states: dict[str, Counter[str]] = defaultdict(Counter)
    uses: dict[str, tuple[Use, ...]] = {}
    for node in nodes:
        group = _group(node, unique)
        used = _uses(by_node[node["metadata"]["name"]])
        groups[repr(group)], uses[repr(used)] = group, used
        states[repr(group)][repr(used)] += 1
    extras: dict[str, Any] = {
        kind: tuple(sorted(map(_trimmed, (others or {}).get(kind, ())), key=repr))
        for kind in _OTHERS
    }
    for quota in extras["resourceQuotas"]:
        own_pods: dict[str, list[Object]] = defaultdict(list)
        for pod in running:
            if pod["metadata"]["namespace"] == quota["metadata"]["namespace"] and job_of(pod):
                own_pods[job_of(pod)].append({"apiVersion": "v1", "kind": "Pod", **pod})
        usage = {j: written(total_usage(own, quota["spec"])) for j, own in sorted(own_pods.items())}
        quota["status"]["jobs"] = usage
    return Snapshot(
        nodes=tuple(
            structs.replace(
                group, states=tuple(State(n, uses[key]) for key, n in sorted(states[name].items()))
            )
            for name, group in sorted(groups.items())
        ),
        taken=taken,
        unique_labels=tuple(sorted(unique)),
        pod_labels={namespace: tuple(sorted(keys)) for namespace, keys in sorted(labels.items())},
        anti_affinity=tuple(own for _, own in sorted(terms.items())),
        **{"".join(f"_{c.lower()}" if c.isupper() else c for c in k): v for k, v in extras.items()},
    )


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON values; equal snapshots give equal text."""
    number = sum(len(group.states) for group in snapshot.nodes)
    if number > _MOST_STATES:
        nodes = tuple(
            _merged(g, -(-_MOST_STATES * len(g.states) // number)) for g in snapshot.nodes
        )
        snapshot = structs.replace(snapshot, nodes=nodes, rounded=True)
    result: dict[str, Any] = msgspec.to_builtins(snapshot)
    return {"apiVersion": snapshot.api_version, **result}


def of_document(document: Any) -> Snapshot:
    """The snapshot that JSON values hold; a msgspec.ValidationError says what is wrong where."""
    return msgspec.convert(document, Snapshot)


def job_of(pod: Object) -> str:
    """The job of etcompile that a Pod belongs to, `namespace/name`; "" if it does not."""
    job = (pod["metadata"].get("labels") or {}).get(JOB_LABEL)
    return f"{pod['metadata'].get('namespace')}/{job}" if job else ""


def units_of(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Quantities as the scheduler counts them."""
    return units({name: number(amount) or Decimal(0) for name, amount in amounts.items()})


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """The same as quantities, without those that are zero."""
    return written({k: Decimal(v) / 1000 if k == "cpu" else Decimal(v) for k, v in amounts.items()})


def _unique(nodes: Sequence[Object]) -> set[str]:
    """The labels that tell nodes from each other, and are of no use to most selectors."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for key, value in (node["metadata"].get("labels") or {}).items():
            values[key][value] += 1
    many = (key for key, counts in values.items() if len(counts) > max(20, counts.total() // 2))
    return {HOSTNAME, NODE_NAME, *many}


def _group(node: Object, unique: Collection[str]) -> Group:
    spec, metadata = node.get("spec") or {}, node["metadata"]
    taints = {*map(taint_of, spec.get("taints") or ())}
    if spec.get("unschedulable"):
        taints.add(("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    labels = {**(metadata.get("labels") or {}), NODE_NAME: metadata["name"]}
    labels = {key: value for key, value in sorted(labels.items()) if key not in unique}
    if HOSTNAME in (metadata.get("labels") or {}):
        labels.setdefault(HOSTNAME, "")  # it is enough to know that it has one
    amounts = units_of((node.get("status") or {}).get("allocatable") or {})
    return Group(quantities(amounts), (), labels, tuple(sorted(taints)))


def _uses(pods: Iterable[Object]) -> tuple[Use, ...]:
    """What Pods use on a node, by priority and job."""
    amounts: dict[tuple[int, str, bool], Counter[str]] = defaultdict(Counter)
    ports: dict[tuple[int, str, bool], set[tuple[str, str, int]]] = defaultdict(set)
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        stays = any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)
        key = pod["spec"].get("priority") or 0, job_of(pod), stays
        amounts[key].update({**units(requested(pod["spec"])), "pods": 1})
        ports[key] |= ports_of(pod["spec"])
    return tuple(
        Use(quantities(amounts[key]), key[0], tuple(sorted(ports[key])), key[1], key[2])
        for key in sorted(amounts)
    )


def _trimmed(value: Object) -> dict[str, Any]:
    """An object with the fields that matter here, and its name and namespace."""
    status = value.get("status") or {}
    return {
        "metadata": {k: v for k, v in value["metadata"].items() if k in ("namespace", "name")},
        "status": {f: status[f] for f in ("hard", "used", "flavorsReservation") if f in status},
        **{f: value[f] for f in _FIELDS if f in value},
    }


def _merged(group: Group, most: int) -> Group:
    """A group with few states: of states that are near each other, the most that one of them uses.

    How much Pods of some priority and all higher ones use together is what stays true: the sum of
    all is no more than the most that one node uses.
    """
    has = units_of(group.allocatable)

    def place(state: State) -> tuple[Any, ...]:
        """States that use as many devices, about as many CPUs, and as much memory are near."""
        used = Counter[str]()
        for use in state.used:
            used.update(units_of(use.requests))
        devices = [used[name] for name in sorted(has) if "/" in name]
        return (*devices, 8 * used["cpu"] // (has.get("cpu") or 1), used["memory"], used["cpu"])

    ordered, states = sorted(group.states, key=place), []
    size = -(-len(ordered) // most)
    for start in range(0, len(ordered), size):
        near = ordered[start : start + size]
        keys = sorted({(not u.stays, -u.priority) for s in near for u in s.used})
        used, below = [], Counter[str]()
        for key in keys:
            upto, ports = Counter[str](), set()
            for state in near:
                higher = [u for u in state.used if (not u.stays, -u.priority) <= key]
                own = Counter[str]()
                for use in higher:
                    own.update(units_of(use.requests))
                    ports |= {*use.host_ports}
                upto |= own
            requests = quantities(upto - below)
            used.append(Use(requests, -key[1], tuple(sorted(ports)), stays=not key[0]))
            below = upto
        states.append(State(sum(state.count for state in near), tuple(used)))
    return structs.replace(group, states=tuple(states))
