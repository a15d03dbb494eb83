"""Build a graph of which compiled objects need which.

An object waits for all earlier waves, for what its spec names, and a gated Pod for other Pods.
The graph is built without a cluster: a review can draw it, and a deadlock is reported before a job
runs into it. `bundled` makes it small enough for a page: a thousand workers become one node. `tree`
draws it for a terminal, `mermaid` as a flowchart for a comment on GitHub.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from msgspec import Struct, structs

from etcompile.diagnostics.message_text import printable
from etcompile.k8s.objects import Object, wave
from etcompile.k8s.references import RBAC, Reference, controlled_secret, references
from etcompile.plan.step import Declared, ObjectKey, reference

_T = TypeVar("_T")
GATE = "waits for"
SELECTED = "is found by"

_CLUSTER_SCOPED = frozenset({("ClusterRole", RBAC), ("ClusterSecretStore", "external-secrets.io")})
_NUMBERED = re.compile(r"(.*-)(0|[1-9][0-9]*)", re.DOTALL)
_FEW = 3
"""Up to so many numbered objects are shown one by one."""
_RUNS = 3
"""Up to so many runs of numbers are written out."""


class Node(Struct, frozen=True):
    """An object, or several that differ in their number only.

    Args:
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
        source: The index of the needing object in `Graph.nodes`.
        target: The index of the needed one.
        how: What the needing object does with the other: `mounts`, `waits for`.
        binds: It waits until the other exists; else it only has to do with it.
    """

    source: int
    target: int
    how: str
    binds: bool


class Graph(Struct, frozen=True):
    """Objects and what they need.

    Args:
        nodes: The objects, job by job, in the order in which they are applied; those that are
            not in the output come last.
        edges: By source. That an object waits for all earlier waves needs no edge.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph(groups: Iterable[Declared]) -> Graph:
    objects: list[Object] = []
    nodes: list[Node] = []
    gates: list[tuple[int, str]] = []
    for group in groups:
        for value in group.objects:
            ref = reference(value)
            if ref.kind in ("Pod", "Job"):
                gates += [(len(nodes), host) for host in group.waits.get(ref.name, ())]
            objects.append(value)
            nodes.append(
                Node(ref.kind, (ref.name,), ref.namespace, ref.group, group.job, wave(value))
            )
    places = {
        (node.group, node.kind, node.namespace or "default", node.names[0]): place
        for place, node in enumerate(nodes)
    }
    edges = [
        Edge(pod, target, GATE, binds=True)
        for pod, host in gates
        if (target := places.get(("", "Pod", nodes[pod].namespace or "default", host))) is not None
    ]
    edges += _named(objects, nodes, places)
    edges += _selected(objects, nodes)
    edges.sort(key=lambda edge: edge.source)
    return Graph(tuple(nodes), tuple(edges))


def _named(
    objects: Sequence[Object], nodes: list[Node], places: dict[ObjectKey, int]
) -> Iterator[Edge]:
    """Yield what objects name in their specs. Add nodes for what is not in the output."""
    makers = {
        (nodes[place].namespace or "default", secret): place
        for place, value in enumerate(objects)
        if (secret := controlled_secret(value))
    }
    # A role's Pods share one spec: it need not be read once for each of them.
    known: dict[int, tuple[Reference, ...]] = {}
    for source, value in enumerate(objects):
        spec = id(value.get("spec")) if value["kind"] == "Pod" else id(value)
        if spec not in known:
            known[spec] = references(value)
        for named in known[spec]:
            in_cluster = (named.kind, named.group) in _CLUSTER_SCOPED
            namespace = "" if in_cluster else named.namespace or nodes[source].namespace
            key = named.group, named.kind, namespace or "default", named.name
            target = places.get(key)
            if target is None and named.kind == "Secret":
                target = makers.get((namespace or "default", named.name))
            if target is None:
                if named.optional:
                    continue
                target = places[key] = len(nodes)
                job = nodes[source].job
                nodes.append(Node(named.kind, (named.name,), namespace, named.group, job, None))
            yield Edge(source, target, named.how, named.binds)


def _selected(objects: Sequence[Object], nodes: Sequence[Node]) -> Iterator[Edge]:
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
        candidates = [pods.get((namespace, *label), []) for label in selector.items()]
        for pod in min(candidates, key=len, default=[]):
            if selector.items() <= labels[pod].items():
                yield Edge(pod, place, SELECTED, binds=False)


def deadlock(graph: Graph) -> str | None:
    """Return objects that wait for each other, as a sentence; None if there are none.

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


# Many nodes to one --------------------------------------------------------------------------------


def bundled(graph: Graph) -> Graph:
    """Merge numbered objects of the same shape into one node.

    They are of one job, kind and wave, their names differ in the last number, and they need the
    same, up to such a number. Three of them stay single nodes.
    """
    needs: dict[int, set[tuple[str, str, str]]] = defaultdict(set)
    for edge in graph.edges:
        target = graph.nodes[edge.target]
        needs[edge.source].add((edge.how, target.kind, split(target.names[0])[0]))
    groups: dict[object, list[int]] = defaultdict(list)
    for place, node in enumerate(graph.nodes):
        stem, number = split(node.names[0])
        shape = (node.kind, node.group, node.namespace, node.job, node.wave)
        alone = place if number is None else None
        groups[(alone, stem, shape, frozenset(needs[place]))].append(place)
    bundles = sorted(bundles_of(groups.values()), key=lambda bundle: bundle[0])
    new = {place: number for number, bundle in enumerate(bundles) for place in bundle}
    nodes = tuple(
        structs.replace(
            graph.nodes[bundle[0]], names=tuple(graph.nodes[place].names[0] for place in bundle)
        )
        for bundle in bundles
    )
    edges = dict.fromkeys(
        Edge(new[edge.source], new[edge.target], edge.how, edge.binds) for edge in graph.edges
    )
    return Graph(nodes, tuple(edge for edge in edges if edge.source != edge.target))


def bundles_of(groups: Iterable[list[_T]]) -> list[list[_T]]:
    return [
        bundle
        for group in groups
        for bundle in ([group] if len(group) > _FEW else [[item] for item in group])
    ]


def split(text: str) -> tuple[str, str | None]:
    match = _NUMBERED.fullmatch(text)
    return (match[1], match[2]) if match else (text, None)


def joined(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    runs: list[tuple[int, int]] = []
    for number in sorted(int(number) for _, number in map(split, names) if number):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    if len(runs) > _RUNS:
        runs = [(runs[0][0], runs[-1][1])]
    return split(names[0])[0] + ", ".join(
        f"{first} … {last}" if last - first > 1 else ", ".join(map(str, range(first, last + 1)))
        for first, last in runs
    )


def counted(kind: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return kind
    plural = re.sub(r"([^aeiou])y$", r"\1ie", kind)
    plural += "es" if plural.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{len(names)} {plural}"


def label(kind: str, names: Sequence[str]) -> str:
    several = f" ({counted(kind, names)})" if len(names) > 1 else ""
    return f"{kind} {joined(names)}{several}"


# Drawings ---------------------------------------------------------------------------------------

_ARROWS = ("==>", "-->", "-.->")
"""The arrows of gates, of other needs and of selections, which are listed in this order."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ,.…_/:()\-]")


def tree(graph: Graph) -> str:
    by_source: dict[int, list[Edge]] = defaultdict(list)
    for _, need in _needs(graph):
        by_source[need.source].append(need)
    lines: list[str] = []
    for heading, waves in _jobs(graph).items():
        size = sum(len(graph.nodes[place].names) for inside in waves.values() for place in inside)
        lines.append(f"{heading} ({size} object{'' if size == 1 else 's'})")
        for (number, inside), stem, below in _branches([*waves.items()]):
            lines.append(f"{stem}wave {number}")
            for place, twig, deeper in _branches(inside):
                node = graph.nodes[place]
                lines.append(f"{below}{twig}{label(node.kind, node.names)}")
                for need, leaf, _ in _branches(by_source[place]):
                    target = graph.nodes[need.target]
                    words = f"{need.how} {label(target.kind, target.names)}"
                    words += " (not in this output)" if target.wave is None else ""
                    lines.append(f"{below}{deeper}{leaf}{words}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _branches(values: Sequence[_T]) -> Iterator[tuple[_T, str, str]]:
    for number, value in enumerate(values, start=1):
        last = number == len(values)
        yield value, "└─ " if last else "├─ ", "   " if last else "│  "


def mermaid(graph: Graph) -> str:
    """Draw the graph as a flowchart: arrows lead to what is needed, waves go to the right."""

    def escaped(text: str) -> str:
        return _NOT_PLAIN.sub(lambda match: f"#{ord(match.group())};", text)

    def box(place: int, node: Node) -> str:
        kind, name = counted(node.kind, node.names), joined(node.names)
        return f'n{place}["{escaped(kind)}<br/>{escaped(name)}"]'

    lines = ["flowchart RL"]
    for number, (heading, waves) in enumerate(_jobs(graph).items()):
        lines.append(f'  subgraph j{number}["{escaped(heading)}"]')
        for rank, (turn, places) in enumerate(waves.items()):
            lines.append(f'    subgraph j{number}w{rank}["wave {turn}"]')
            lines += [f"      {box(place, graph.nodes[place])}" for place in places]
            lines.append("    end")
        lines.append("  end")
        lines += [
            f"  j{number}w{rank} -->|after| j{number}w{rank - 1}" for rank in range(1, len(waves))
        ]
    outside = [place for place, node in enumerate(graph.nodes) if node.wave is None]
    lines += [f"  {box(place, graph.nodes[place])}:::outside" for place in outside]
    lines += [
        f'  n{need.source} {_ARROWS[style]}|"{escaped(need.how)}"| n{need.target}'
        for style, need in _needs(graph)
    ]
    if outside:
        lines.append("  classDef outside stroke-dasharray:4")
    return "\n".join(lines) + "\n"


FORMS = {"tree": tree, "mermaid": mermaid}
"""The forms by name."""


def _needs(graph: Graph) -> list[tuple[int, Edge]]:
    """Return what each object needs of each other one, with the number of its arrow."""
    reasons: dict[tuple[int, int], dict[str, bool]] = defaultdict(dict)
    for edge in graph.edges:
        reasons[edge.source, edge.target][edge.how] = edge.binds
    needs = [
        (
            0 if GATE in hows else 2 if [*hows] == [SELECTED] else 1,
            Edge(source, target, ", ".join(hows), any(hows.values())),
        )
        for (source, target), hows in reasons.items()
    ]
    return sorted(needs, key=lambda need: (need[1].source, need[0], need[1].target))


def _jobs(graph: Graph) -> dict[str, dict[int, list[int]]]:
    """Return the indexes of the objects by job and wave, the waves in order."""
    jobs: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, node in enumerate(graph.nodes):
        if node.wave is not None:
            jobs[f"job {node.job}" if node.job else "other objects"][node.wave].append(place)
    return {heading: dict(sorted(waves.items())) for heading, waves in jobs.items()}
