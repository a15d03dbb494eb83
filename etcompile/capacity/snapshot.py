"""Make a snapshot of a cluster's capacity, which Git can hold.

Equal nodes become one group. A snapshot names no Pods, images or nodes. It names the jobs that
etcompile runs, because their usage is free for them when they are checked again. It never reports
more free capacity than exists: if there are too many different nodes, their usage is rounded up.

The structs define the file format, with amounts as quantities.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Required, TypedDict

import msgspec
from msgspec import Meta, Struct, structs

from etcompile.k8s import pods as pod_status
from etcompile.k8s.objects import Object, labels_of
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import requested, written
from etcompile.model.protocol import JOB_LABEL

HOSTNAME = "kubernetes.io/hostname"
DURING_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
STAYS = 2**31 - 1
"""The priority of Pods that no priority preempts: those of DaemonSets and of nodes."""
KINDS = {
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
    "ResourceQuota": "",
    "LimitRange": "",
    "LocalQueue": "kueue.x-k8s.io",
    "ClusterQueue": "kueue.x-k8s.io",
    "ResourceFlavor": "kueue.x-k8s.io",
    "Cohort": "kueue.x-k8s.io",
}
"""The API groups of the other objects of a snapshot, by kind."""
_OTHERS = ("spec", "value", "globalDefault", "overhead", "scheduling")
_MOST_STATES = 500
"""Over all groups, so that a snapshot of 5,000 nodes has less than 200 kB."""

Quantity = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?(m|[kKMGTPE]i?)?$")]
Port = tuple[str, str, int]
"""Protocol, address and number of a port of the host."""
Taint = tuple[str, str, str]
"""Key, value and effect."""


class _Part(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


class Use(_Part, frozen=True):
    """What Pods of one priority use on a node."""

    requests: dict[str, Quantity]  # the sum, with `pods`
    priority: int = 0
    host_ports: tuple[Port, ...] = ()
    job: str = ""  # the job of etcompile that owns the Pods, `namespace/name`; "" for all others


class State(_Part, frozen=True):
    """The number of nodes of a group with the same usage."""

    count: Annotated[int, Meta(ge=0)]
    used: tuple[Use, ...] = ()

    def used_by(self, counts: Callable[[Use], bool]) -> tuple[Counter[str], frozenset[Port]]:
        total, uses = Counter[str](), [*filter(counts, self.used)]
        for use in uses:
            total.update(units_of(use.requests))
        return total, frozenset(port for use in uses for port in use.host_ports)


class Group(_Part, frozen=True):
    """Nodes that are equal apart from their usage."""

    allocatable: dict[str, Quantity]
    states: tuple[State, ...]
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


class Other(TypedDict, total=False):
    """Another object of the cluster, with the relevant fields."""

    metadata: Required[dict[Literal["name", "namespace"], str]]
    spec: dict[str, Any]
    status: dict[str, Any]
    value: int
    globalDefault: bool
    overhead: dict[str, Any]
    scheduling: dict[str, Any]


class Snapshot(_Part, frozen=True, tag_field="kind", tag="CapacitySnapshot"):
    """The capacity of a cluster, and its usage."""

    nodes: tuple[Group, ...]
    api_version: Literal["etcompile.dev/v1alpha1"] = "etcompile.dev/v1alpha1"
    time: str = ""  # when it was read, RFC 3339; "" if unknown
    rounded: bool = False
    unique_labels: tuple[str, ...] = ()  # labels left out, because they differ from node to node
    pod_labels: dict[str, tuple[str, ...]] = {}  # keys of labels of running Pods, by namespace
    # Required anti-affinity terms of running Pods, with `namespace` and `job`.
    anti_affinity: tuple[dict[str, Any], ...] = ()
    objects: dict[str, tuple[Other, ...]] = {}  # of the `KINDS`

    def of_kind(self, kind: str) -> dict[str, Object]:
        """Return the other objects of a kind by name, or by `namespace/name`."""
        of_kind = ((value["metadata"], value) for value in self.objects.get(kind, ()))
        return {f"{m.get('namespace', '')}/{m.get('name')}".lstrip("/"): v for m, v in of_kind}

    @property
    def uses(self) -> list[tuple[Use, int]]:
        return [(use, s.count) for group in self.nodes for s in group.states for use in s.used]


def of_objects(
    nodes: Iterable[Object],
    pods: Iterable[Object] = (),
    others: Mapping[str, Collection[Object]] | None = None,
    *,
    time: str = "",
    is_portable: bool = True,
) -> Snapshot:
    """Return the snapshot of a cluster.

    Args:
        pods: Pods without a node, and Pods that have ended, use nothing.
        others: By kind.
        is_portable: Leave out labels that distinguish single nodes.
    """
    nodes = list(nodes)
    by_node: dict[str, list[Object]] = defaultdict(list)
    labels: dict[str, set[str]] = defaultdict(set)
    terms: dict[str, dict[str, Any]] = {}
    for pod in pods:
        metadata, spec = pod["metadata"], pod["spec"]
        if not spec.get("nodeName") or pod_status.has_ended(pod):
            continue
        by_node[spec["nodeName"]].append(pod)
        labels[metadata["namespace"]].update(metadata.get("labels") or ())
        affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get(DURING_SCHEDULING) or ():
            required = {"namespace": metadata["namespace"], "job": job_of(pod), "term": term}
            terms[repr(required)] = required
    unique = _unique(nodes) if is_portable else set()
    groups: dict[str, tuple[Group, dict[str, State]]] = {}
    for node in nodes:
        sums: dict[tuple[int, str], tuple[Counter[str], set[Port]]]
        sums = defaultdict(lambda: (Counter(), set()))
        for pod in by_node[node["metadata"]["name"]]:
            owners = pod["metadata"].get("ownerReferences") or ()
            stays = any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)
            priority = STAYS if stays else pod["spec"].get("priority") or 0
            amounts, ports = sums[priority, job_of(pod)]
            amounts.update({**units_of(requested(pod["spec"])), "pods": 1})
            ports |= ports_of(pod["spec"])
        group = _group(node, unique)
        used = tuple(
            Use(quantities(amounts), priority, tuple(sorted(ports)), job)
            for (priority, job), (amounts, ports) in sorted(sums.items())
        )
        _, states = groups.setdefault(repr(group), (group, {}))
        before = states.get(repr(used), State(0))
        states[repr(used)] = State(before.count + 1, used)
    objects = {
        kind: tuple(sorted(map(_trimmed, values), key=repr))
        for kind, values in sorted((others or {}).items())
        if values
    }
    return Snapshot(
        nodes=tuple(
            structs.replace(group, states=tuple(state for _, state in sorted(states.items())))
            for _, (group, states) in sorted(groups.items())
        ),
        time=time,
        unique_labels=tuple(sorted(unique)),
        pod_labels={namespace: tuple(sorted(keys)) for namespace, keys in sorted(labels.items())},
        anti_affinity=tuple(required for _, required in sorted(terms.items())),
        objects=objects,
    )


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    count = sum(len(group.states) for group in snapshot.nodes)
    if count > _MOST_STATES:
        nodes = tuple(
            _rounded(g, -(-_MOST_STATES * len(g.states) // count)) for g in snapshot.nodes
        )
        snapshot = structs.replace(snapshot, nodes=nodes, rounded=True)
    result: dict[str, Any] = msgspec.to_builtins(snapshot)
    return {"apiVersion": snapshot.api_version, **result}


def of_document(document: Any) -> Snapshot:
    return msgspec.convert(document, Snapshot)


def job_of(pod: Object) -> str:
    """Return the job of etcompile that owns a Pod, `namespace/name`; "" if none does."""
    job = labels_of(pod).get(JOB_LABEL)
    return f"{pod['metadata'].get('namespace')}/{job}" if job else ""


def units_of(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Count quantities as the scheduler does: thousandths of a CPU or whole units, rounded up."""
    return {name: _units(amount, name == "cpu") for name, amount in amounts.items()}


@functools.lru_cache(maxsize=65536)  # a cluster is read once for each priority
def _units(amount: Any, is_cpu: bool) -> int:  # noqa: FBT001 - a key of the cache
    value = number(amount) or Decimal(0)
    return int(-(-(value * 1000 if is_cpu else value) // 1))


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return written({k: Decimal(v) / 1000 if k == "cpu" else Decimal(v) for k, v in amounts.items()})


def taint_of(taint: Mapping[str, Any]) -> Taint:
    return taint["key"], taint.get("value") or "", taint["effect"]


def ports_of(spec: Mapping[str, Any]) -> frozenset[Port]:
    starting = spec.get("initContainers") or ()
    sidecars = [each for each in starting if each.get("restartPolicy") == "Always"]
    ports = [p for c in (*spec["containers"], *sidecars) for p in c.get("ports") or ()]
    numbers = [p.get("hostPort") or (spec.get("hostNetwork") and p["containerPort"]) for p in ports]
    return frozenset(
        (port.get("protocol") or "TCP", port.get("hostIP") or "", number)
        for port, number in zip(ports, numbers, strict=True)
        if number
    )


def _unique(nodes: Sequence[Object]) -> set[str]:
    """Return the labels that distinguish single nodes, which most selectors do not use."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for key, value in labels_of(node).items():
            values[key][value] += 1
    many = (key for key, counts in values.items() if len(counts) > max(20, counts.total() // 2))
    return {HOSTNAME, *many}


def _group(node: Object, unique: Collection[str]) -> Group:
    spec, labels = node.get("spec") or {}, labels_of(node)
    taints = {*map(taint_of, spec.get("taints") or ())}
    if spec.get("unschedulable"):
        taints.add(("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    shared = {key: value for key, value in sorted(labels.items()) if key not in unique}
    if HOSTNAME in labels:
        shared.setdefault(HOSTNAME, "")  # only its presence counts
    amounts = units_of((node.get("status") or {}).get("allocatable") or {})
    return Group(quantities(amounts), (), shared, tuple(sorted(taints)))


def _trimmed(value: Object) -> Other:
    metadata, status = value["metadata"], value.get("status") or {}
    counted = {f: status[f] for f in ("hard", "used", "flavorsReservation") if f in status}
    fields = {
        "metadata": {k: v for k, v in metadata.items() if k in ("namespace", "name")},
        **({"status": counted} if counted else {}),
        **{f: value[f] for f in _OTHERS if f in value},
    }
    return msgspec.convert(fields, Other)


def _rounded(group: Group, most: int) -> Group:
    """Reduce the states of a group by taking the maximum of similar states.

    For each priority, the usage of its Pods and all higher ones together is at most that of one
    node.
    """
    has = units_of(group.allocatable)

    def place(state: State) -> tuple[int, ...]:
        """Sort states with as many devices, similar CPUs and similar memory together."""
        used, _ = state.used_by(lambda _: True)
        devices = [used[name] for name in sorted(has) if "/" in name]
        return (*devices, 8 * used["cpu"] // (has.get("cpu") or 1), used["memory"])

    def above(lowest: int) -> Callable[[Use], bool]:
        return lambda use: use.priority >= lowest

    ordered, states = sorted(group.states, key=place), []
    size = -(-len(ordered) // most)
    for near in (ordered[start : start + size] for start in range(0, len(ordered), size)):
        merged, below = [], Counter[str]()
        for lowest in sorted({use.priority for s in near for use in s.used}, reverse=True):
            uses = [s.used_by(above(lowest)) for s in near]
            upto, ports = Counter[str](), frozenset[Port]().union(*(ports for _, ports in uses))
            for used, _ in uses:
                upto |= used
            merged.append(Use(quantities(upto - below), lowest, tuple(sorted(ports))))
            below = upto
        states.append(State(sum(state.count for state in near), tuple(merged)))
    return structs.replace(group, states=tuple(states))
