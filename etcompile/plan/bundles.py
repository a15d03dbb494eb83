"""A graph to one that fits on a page: many alike become one.

A thousand workers are one worker, a thousand times, and so are their Services.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import structs

from etcompile.plan.graph import Edge, Graph

_NUMBERED = re.compile(r"(.*-)(0|[1-9][0-9]*)", re.DOTALL)
_FEW = 3
"""So many alike are still shown one by one."""
_RUNS = 3
"""So many runs of numbers are written out."""


def bundled(graph: Graph) -> Graph:
    """The graph with numbered objects that are alike taken together.

    Alike are objects of one job, kind and wave whose names differ in the last number, and
    which need the same, up to such a number. Three of them stay apart.
    """
    needs: dict[int, set[tuple[str, str, str]]] = defaultdict(set)
    for edge in graph.edges:
        target = graph.nodes[edge.target]
        needs[edge.source].add((edge.how, target.kind, split(target.names[0])[0]))
    alike: dict[object, list[int]] = defaultdict(list)
    for place, node in enumerate(graph.nodes):
        stem, number = split(node.names[0])
        likeness = (node.kind, node.group, node.namespace, node.job, node.wave)
        alone = place if number is None else None
        alike[(alone, stem, likeness, frozenset(needs[place]))].append(place)
    bundles = [
        bundle
        for places in alike.values()
        for bundle in ([places] if len(places) > _FEW else [[place] for place in places])
    ]
    bundles.sort(key=lambda bundle: bundle[0])
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


def name(names: Sequence[str]) -> str:
    """A name, or those of a bundle: `mnist-worker-0 … 99`."""
    if len(names) == 1:
        return names[0]
    runs = _runs(int(number) for _, number in map(split, names) if number)
    if len(runs) > _RUNS:
        runs = [(runs[0][0], runs[-1][1])]
    return split(names[0])[0] + ", ".join(
        f"{first} … {last}" if last - first > 1 else ", ".join(map(str, range(first, last + 1)))
        for first, last in runs
    )


def count(kind: str, names: Sequence[str]) -> str:
    """A kind with how many there are: `Pod`, `100 Pods`."""
    if len(names) == 1:
        return kind
    plural = re.sub(r"([^aeiou])y$", r"\1ie", kind)
    plural += "es" if plural.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{len(names)} {plural}"


def label(kind: str, names: Sequence[str]) -> str:
    """Kind and name in one line: `Pod mnist-worker-0 … 99 (100 Pods)`."""
    several = f" ({count(kind, names)})" if len(names) > 1 else ""
    return f"{kind} {name(names)}{several}"


def split(text: str) -> tuple[str, str | None]:
    """A name without its last number, and that number: `mnist-worker-`, `12`."""
    found = _NUMBERED.fullmatch(text)
    return (found[1], found[2]) if found else (text, None)


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
