"""Objects of a cluster to a snapshot of its capacity, to a document that Git can hold, and back.

Nodes that are equal become one group. A snapshot names no Pods, images or nodes, except the jobs
that etcompile runs, because what they use is theirs when they are checked again. It never says that
more is free than is: where there are too many different nodes, what they use is rounded up.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct, structs

from etcompile.capacity.packing import Kind, Node
from etcompile.capacity.pod_needs import HOSTNAME, NODE_NAME, Port, Units, ports_of, units
from etcompile.k8s import pods as pod_status
from etcompile.k8s.objects import Object
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import total_usage
from etcompile.k8s.requests import requested, written
from etcompile.model.protocol import JOB_LABEL

API_VERSION = "etcompile.dev/v1alpha1"
KIND = "CapacitySnapshot"
_UNSCHEDULABLE = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
_MOST_STATES = 1_200
_STEPS = (0, 256, 128, 64, 32, 16)
"""What nodes use is rounded up to such a part of what they have; 0 for not at all."""
_EXTRAS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "priorityClasses": (("value",), ("globalDefault",), ("preemptionPolicy",)),
    "runtimeClasses": (("overhead",), ("scheduling",)),
    "limitRanges": (("spec",),),
    "resourceQuotas": (("spec",), ("status", "hard"), ("status", "used")),
    "localQueues": (("spec", "clusterQueue"), ("spec", "stopPolicy")),
    "clusterQueues": (("spec",), ("status", "flavorsReservation")),
    "resourceFlavors": (("spec",),),
    "cohorts": (("spec",),),
}
"""The fields that are kept of other objects, beside their names."""


class Use(Struct, frozen=True):
    """What Pods of one priority use on a node.

    Args:
        priority: Their priority.
        amounts: The sum of their requests, with `pods`.
        ports: The ports of the host that they take.
        job: The job of etcompile whose Pods they are, `namespace/name`; "" for all others.
        stays: They are of a DaemonSet or of the node itself.
    """

    priority: int
    amounts: tuple[tuple[str, int], ...]
    ports: frozenset[Port] = frozenset()
    job: str = ""
    stays: bool = False


State = tuple[Use, ...]


class Group(Struct, frozen=True):
    """Nodes that have the same, and how many of them are in which state."""

    kind: Kind
    states: Mapping[State, int]


class Snapshot(Struct, frozen=True):
    """What a cluster has, and what uses it.

    Args:
        taken: When, RFC 3339; "" if that is not known.
        groups: Its nodes.
        unique: Labels of nodes that are left out, because they differ from node to node.
        pod_labels: By namespace, the keys of the labels of Pods that run.
        anti_affinity: Required anti-affinity terms of Pods that run, with `namespace` and `job`.
        extras: Other objects by kind, with the fields that matter here.
    """

    taken: str = ""
    groups: tuple[Group, ...] = ()
    unique: frozenset[str] = frozenset({HOSTNAME, NODE_NAME})
    pod_labels: Mapping[str, Collection[str]] = {}
    anti_affinity: tuple[Mapping[str, Any], ...] = ()
    extras: Mapping[str, tuple[Object, ...]] = {}

    def nodes(self, counts: Callable[[Use], bool]) -> list[Node]:
        """The nodes with what is used by some of the Pods that run.

        Args:
            counts: Whether what some Pods use counts.
        """
        result = []
        for group in self.groups:
            states: Counter[tuple[frozenset[tuple[str, int]], frozenset[Port]]] = Counter()
            for state, count in group.states.items():
                used = [use for use in state if counts(use)]
                amounts = _sum(dict(use.amounts) for use in used)
                ports = frozenset(port for use in used for port in use.ports)
                states[frozenset(amounts.items()), ports] += count
            result += [
                Node(group.kind, dict(amounts), ports, count)
                for (amounts, ports), count in states.items()
            ]
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
        pods: Its Pods; those that are on no node, or have ended, use nothing.
        others: Other objects by kind: `resourceQuotas`, `limitRanges`, `priorityClasses`,
            `runtimeClasses`, and those of Kueue: `localQueues`, `clusterQueues`,
            `resourceFlavors`, `cohorts`.
        taken: When they were read, RFC 3339.
        keep: Labels of nodes to keep though they differ from node to node; `metadata.name` for
            the names of nodes.
    """
    nodes = list(nodes)
    present = [p for p in pods if p["spec"].get("nodeName") and not pod_status.has_ended(p)]
    by_node: dict[str, list[Object]] = defaultdict(list)
    labels: dict[str, set[str]] = defaultdict(set)
    for pod in present:
        by_node[pod["spec"]["nodeName"]].append(pod)
        labels[pod["metadata"]["namespace"]].update(pod["metadata"].get("labels") or ())
    unique = _unique(nodes) - set(keep)
    groups: dict[str, tuple[Kind, Counter[State]]] = {}
    for node in nodes:
        kind = _kind(node, unique)
        _, states = groups.setdefault(repr(kind), (kind, Counter()))
        states[_state(by_node.get(node["metadata"]["name"], ()))] += 1
    extras = {
        name: tuple(_trimmed(value, fields) for value in (others or {}).get(name, ()))
        for name, fields in _EXTRAS.items()
    }
    for quota in extras["resourceQuotas"]:
        namespace = quota["metadata"]["namespace"]
        quota["status"]["jobs"] = _usage_by_job(present, namespace, quota["spec"])
    return Snapshot(
        taken,
        tuple(
            Group(kind, dict(sorted(s.items(), key=repr)))
            for _, (kind, s) in sorted(groups.items())
        ),
        unique,
        {namespace: sorted(keys) for namespace, keys in sorted(labels.items())},
        _anti_affinity(present),
        extras,
    )


def job_of(pod: Object) -> str:
    """The job of etcompile that a Pod belongs to, `namespace/name`; "" if it does not."""
    job = (pod["metadata"].get("labels") or {}).get(JOB_LABEL)
    return f"{pod['metadata'].get('namespace')}/{job}" if job else ""


def _unique(nodes: Sequence[Object]) -> frozenset[str]:
    """The labels that tell nodes from each other, and are of no use to most selectors."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for key, value in (node["metadata"].get("labels") or {}).items():
            values[key][value] += 1
    unique = {key for key, counts in values.items() if len(counts) > max(20, counts.total() // 2)}
    return frozenset({HOSTNAME, NODE_NAME, *unique})


def _kind(node: Object, unique: Collection[str]) -> Kind:
    spec, metadata = node.get("spec") or {}, node["metadata"]
    labels = {**(metadata.get("labels") or {}), NODE_NAME: metadata["name"]}
    taints = {(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()}
    if spec.get("unschedulable"):
        taints.add(_UNSCHEDULABLE)
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return Kind(
        dict(sorted(units_of(amounts).items())),
        # It is enough to know that a node has a name of its own.
        {
            k: v if k not in unique else ""
            for k, v in sorted(labels.items())
            if k not in unique or k == HOSTNAME
        },
        tuple(sorted(taints)),
    )


def _state(pods: Iterable[Object]) -> State:
    """What Pods use on a node, by priority and job."""
    amounts: dict[tuple[int, str, bool], Counter[str]] = defaultdict(Counter)
    ports: dict[tuple[int, str, bool], set[Port]] = defaultdict(set)
    for pod in pods:
        spec = pod["spec"]
        owners = pod["metadata"].get("ownerReferences") or ()
        stays = any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)
        key = spec.get("priority") or 0, job_of(pod), stays
        amounts[key].update({**units(requested(spec)), "pods": 1})
        ports[key] |= ports_of(spec)
    return tuple(
        Use(
            priority,
            tuple((k, v) for k, v in sorted(amount.items()) if v),
            frozenset(ports[key]),
            job,
            stays,
        )
        for key, amount in sorted(amounts.items())
        for priority, job, stays in [key]
    )


def _anti_affinity(pods: Iterable[Object]) -> tuple[Mapping[str, Any], ...]:
    """The terms by which Pods that run keep others away from them, each of them once."""
    terms = {}
    for pod in pods:
        affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            own = {"namespace": pod["metadata"]["namespace"], "job": job_of(pod), "term": term}
            terms[repr(own)] = own
    return tuple(terms[key] for key in sorted(terms))


def _usage_by_job(pods: Iterable[Object], namespace: str, spec: Object) -> dict[str, Any]:
    """What the jobs of a namespace use of a quota."""
    by_job: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if pod["metadata"]["namespace"] == namespace and (job := job_of(pod)):
            by_job[job].append({"apiVersion": "v1", "kind": "Pod", **pod})
    return {job: written(total_usage(own, spec)) for job, own in sorted(by_job.items())}


def _trimmed(value: Object, fields: Iterable[Sequence[str]]) -> dict[str, Any]:
    """An object with some of its fields, and its name and namespace."""
    metadata = value["metadata"]
    result: dict[str, Any] = {
        "metadata": {k: metadata[k] for k in ("namespace", "name") if metadata.get(k)}
    }
    for path in fields:
        source, target = value, result
        for step in path[:-1]:
            source, target = source.get(step) or {}, target.setdefault(step, {})
        if source.get(path[-1]) is not None:
            target[path[-1]] = source[path[-1]]
    return result


def _sum(several: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for amounts in several:
        total.update(amounts)
    return total


def units_of(amounts: Mapping[str, Any]) -> Units:
    """Quantities as the scheduler counts them."""
    return units({name: number(amount) or Decimal(0) for name, amount in amounts.items()})


# As a document ---------------------------------------------------------------------------------


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON values; equal snapshots give equal text."""
    step = next(
        s
        for s in _STEPS
        if sum(len(_rounded(g, s)) for g in snapshot.groups) <= _MOST_STATES or s == _STEPS[-1]
    )
    groups = [_group(group.kind, _rounded(group, step)) for group in snapshot.groups]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "taken": snapshot.taken,
        **({"roundedTo": f"1/{step}"} if step else {}),
        "nodes": sorted(groups, key=repr),
        "uniqueLabels": sorted(snapshot.unique),
        "podLabels": {namespace: [*keys] for namespace, keys in snapshot.pod_labels.items()},
        "antiAffinity": [*snapshot.anti_affinity],
        **{name: sorted(values, key=repr) for name, values in snapshot.extras.items() if values},
    }


def of_document(document: Mapping[str, Any]) -> Snapshot:
    """The snapshot that a document holds.

    Raises:
        ValueError: The document is none; the path of what is wrong, and what is wrong with it.
    """
    return Snapshot(
        document.get("taken") or "",
        tuple(_group_of(group) for group in document["nodes"]),
        frozenset(document["uniqueLabels"]),
        document.get("podLabels") or {},
        tuple(document.get("antiAffinity") or ()),
        {name: tuple(document.get(name) or ()) for name in _EXTRAS},
    )


def _rounded(group: Group, part: int) -> Mapping[State, int]:
    """The states of a group, where what is used is rounded up to a part of what a node has."""
    if not part:
        return group.states
    steps = {
        name: -(-group.kind.allocatable.get(name, 0) // part) or 1
        for name in ("cpu", "memory", "ephemeral-storage", "pods")
    }
    states: Counter[State] = Counter()
    for state, count in group.states.items():
        rounded = tuple(
            structs.replace(
                use,
                amounts=tuple((k, -(-v // (to := steps.get(k, 1))) * to) for k, v in use.amounts),
            )
            for use in state
        )
        states[rounded] += count
    return states


def _group(kind: Kind, states: Mapping[State, int]) -> dict[str, Any]:
    """Nodes of a kind as JSON values: a line for each state, with the number of nodes in it."""
    lines = sorted(
        (" | ".join([str(count), *map(_line, state)]) for state, count in states.items())
    )
    return {
        "count": sum(states.values()),
        "allocatable": quantities(kind.allocatable),
        "labels": dict(kind.labels),
        "taints": [f"{key}={value}:{effect}" for key, value, effect in kind.taints],
        "used": lines,
    }


def _group_of(value: Mapping[str, Any]) -> Group:
    taints = tuple(_split_taint(taint) for taint in value.get("taints") or ())
    kind = Kind(units_of(value["allocatable"]), value.get("labels") or {}, taints)
    states: Counter[State] = Counter()
    for line in value["used"]:
        count, *uses = line.split(" | ")
        states[tuple(map(_use, uses))] += int(count)
    return Group(kind, dict(states))


def _line(use: Use) -> str:
    """What some Pods use, in words that `_use` reads: `1000 job=nlp/bert cpu=500m pods=2`."""
    words = [
        str(use.priority),
        *(["stays"] if use.stays else []),
        *([f"job={use.job}"] if use.job else []),
    ]
    words += [f"{name}={amount}" for name, amount in quantities(dict(use.amounts)).items()]
    return " ".join([*words, *(f"port={':'.join(map(str, port))}" for port in sorted(use.ports))])


def _use(line: str) -> Use:
    priority, *words = line.split()
    pairs = [word.partition("=") for word in words if word != "stays"]
    ports = (value.split(":") for name, _, value in pairs if name == "port")
    amounts = {name: value for name, _, value in pairs if name not in ("port", "job")}
    return Use(
        int(priority),
        tuple(units_of(amounts).items()),
        frozenset((protocol, address, int(port)) for protocol, address, port in ports),
        next((value for name, _, value in pairs if name == "job"), ""),
        "stays" in words,
    )


def _split_taint(taint: str) -> tuple[str, str, str]:
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    return key, value, effect


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """The same as quantities, without those that are zero."""
    return written({k: Decimal(v) / 1000 if k == "cpu" else Decimal(v) for k, v in amounts.items()})
