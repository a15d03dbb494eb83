"""Compiled objects to a graph of what waits for what.

An object waits for all earlier waves, for what its spec names, and a gated Pod for other Pods.
The graph is built without a cluster, so it can be drawn in a review, and a deadlock is found
before anybody meets it.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct, field

from etcompile.k8s.objects import Object
from etcompile.k8s.references import RBAC, Reference, references, secret_made_by

_Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name."""

_CLUSTER_SCOPED = frozenset({("ClusterRole", RBAC), ("ClusterSecretStore", "external-secrets.io")})


class Group(Struct, frozen=True):
    """The objects of one job, or those that belong to none.

    Args:
        title: The job as people call it, `nlp/bert`; None for other objects.
        objects: Kubernetes objects, in the order in which they are applied.
        waits: The names of Pods (or of the Jobs that make them) that wait, each with those of the
            Pods it waits for.
    """

    title: str | None
    objects: Sequence[Object]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Node(Struct, frozen=True):
    """An object, or several that differ in their number only.

    Args:
        names: Its name, or all their names.
        namespace: Its namespace; empty if it names none.
        group: Its API group.
        job: The title of its job; None if it belongs to none.
        wave: When it is applied; None for an object that is named but not in the output.
    """

    kind: str
    names: tuple[str, ...]
    namespace: str
    group: str
    job: str | None
    wave: int | None

    def __str__(self) -> str:
        return f"{self.kind} {self.names[0]}"


class Edge(Struct, frozen=True):
    """One object that needs another.

    Args:
        source: The place of the needing object in `Graph.nodes`.
        target: The place of the needed one.
        how: What the needing object does with the other: `mounts`, `waits for`.
        binds: It waits until the other is there; else it only has to do with it.
    """

    source: int
    target: int
    how: str
    binds: bool


class Graph(Struct, frozen=True):
    """Objects and what waits for what.

    Args:
        nodes: The objects, job by job, in the order in which they are applied; those that are
            not in the output come last.
        edges: What needs what, by source. That an object waits for all earlier waves goes
            without an edge.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


GATE = "waits for"
FOUND = "is found by"


def graph(groups: Iterable[Group], wave: Callable[[Object], int]) -> Graph:
    """The graph of compiled objects.

    Args:
        groups: The objects, by the job that they belong to.
        wave: The wave of an object (`etcompile.emit.wave`).
    """
    objects: list[Object] = []
    nodes: list[Node] = []
    gates: list[tuple[int, Iterable[str]]] = []
    for group in groups:
        for value in group.objects:
            node = _node(value, group.title, wave(value))
            waits = node.kind in ("Pod", "Job")
            if waits and (hosts := group.waits.get(node.names[0])):
                gates.append((len(nodes), hosts))
            objects.append(value)
            nodes.append(node)
    places = {
        (node.group, node.kind, node.namespace or "default", node.names[0]): place
        for place, node in enumerate(nodes)
    }
    edges = [
        Edge(pod, target, GATE, binds=True)
        for pod, hosts in gates
        for host in hosts
        if (target := places.get(("", "Pod", nodes[pod].namespace or "default", host))) is not None
    ]
    edges += _named(objects, nodes, places)
    edges += _selected(objects, nodes)
    edges.sort(key=lambda edge: edge.source)
    return Graph(tuple(nodes), tuple(edges))


def deadlock(graph: Graph) -> str | None:
    """Objects that wait for each other, told as a sentence; None if there are none.

    Waves only ever wait downwards. So a ring either has an object that needs one of a later
    wave, or stays within one wave.
    """
    nodes = graph.nodes
    ahead: dict[tuple[int, int], Edge] = {}
    for edge in graph.edges:
        early, late = nodes[edge.source].wave, nodes[edge.target].wave
        if not edge.binds or early is None or late is None or early > late:
            continue
        if early < late:
            return (
                f"{nodes[edge.source]} {edge.how} {nodes[edge.target]}, which is in wave {late}"
                f" and so waits for {nodes[edge.source]} in wave {early}"
            )
        ahead.setdefault((edge.source, edge.target), edge)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for needing, needed in ahead:
        sorter.add(needing, needed)
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib names them from what is needed to what needs it.
        ring = [*reversed(error.args[1])]
        first, *others = [ahead[pair] for pair in itertools.pairwise(ring)]
        words = f"{nodes[first.source]} {first.how} {nodes[first.target]}"
        return words + "".join(f", which {edge.how} {nodes[edge.target]}" for edge in others)
    return None


def _node(value: Object, job: str | None, wave: int) -> Node:
    metadata = value["metadata"]
    return Node(
        kind=value["kind"],
        names=(metadata.get("name") or metadata.get("generateName") or "",),
        namespace=metadata.get("namespace") or "",
        group=value["apiVersion"].rpartition("/")[0],
        job=job,
        wave=wave,
    )


def _named(
    objects: Sequence[Object], nodes: list[Node], places: dict[_Identity, int]
) -> Iterator[Edge]:
    """What objects name in their specs. Adds nodes for what is not in the output."""
    made_by = {
        (nodes[place].namespace or "default", secret): place
        for place, value in enumerate(objects)
        if (secret := secret_made_by(value))
    }
    # A role's Pods share one spec: it need not be read once for each of them.
    known: dict[int, tuple[Reference, ...]] = {}
    for source, value in enumerate(objects):
        spec = id(value.get("spec")) if value["kind"] == "Pod" else id(value)
        if spec not in known:
            known[spec] = references(value)
        for named in known[spec]:
            cluster = (named.kind, named.group) in _CLUSTER_SCOPED
            namespace = "" if cluster else named.namespace or nodes[source].namespace
            identity = named.group, named.kind, namespace or "default", named.name
            target = places.get(identity)
            if target is None and named.kind == "Secret":
                target = made_by.get((namespace or "default", named.name))
            if target is None:
                if named.optional:
                    continue
                target = places[identity] = len(nodes)
                job = nodes[source].job
                nodes.append(Node(named.kind, (named.name,), namespace, named.group, job, None))
            yield Edge(source, target, named.how, named.binds)


def _selected(objects: Sequence[Object], nodes: Sequence[Node]) -> Iterator[Edge]:
    """Which Pods a Service finds. They do not wait for it, but nobody reaches them without."""
    pods: dict[tuple[str, str, object], list[int]] = defaultdict(list)
    labels: dict[int, Mapping[str, Any]] = {}
    for place, value in enumerate(objects):
        if value["kind"] in ("Pod", "Job"):
            pod = value if value["kind"] == "Pod" else value["spec"]["template"]
            labels[place] = (pod.get("metadata") or {}).get("labels") or {}
            for label in labels[place].items():
                pods[(nodes[place].namespace or "default", *label)].append(place)
    for place, value in enumerate(objects):
        if value["kind"] != "Service" or nodes[place].group:
            continue
        selector = (value.get("spec") or {}).get("selector") or {}
        namespace = nodes[place].namespace or "default"
        found = [pods.get((namespace, *label), []) for label in selector.items()]
        for pod in min(found, key=len, default=[]):
            if selector.items() <= labels[pod].items():
                yield Edge(pod, place, FOUND, binds=False)
