"""A graph to text: a tree for a terminal, or a flowchart of Mermaid.

Both show the jobs, in them the waves, in these the objects, and what each object needs. GitHub and
GitLab draw Mermaid in a comment or a README. Only its plainest grammar is used: numbered ids,
quoted labels, entities for whatever Mermaid could take for its own.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from etcompile.plan.needs import GATE, SELECTED, Graph, Node, counted, joined, label

_T = TypeVar("_T")
_Style = Literal["gate", "need", "selected"]
_ARROWS: dict[_Style, str] = {"gate": "==>", "need": "-->", "selected": "-.->"}
"""The arrow of each style; on an object, edges are listed in this order."""
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ,.…_/:()\-]")


class _Need(Struct, frozen=True):
    """One node that needs another, with all reasons in `how`: `mounts, reads`."""

    source: int
    target: int
    how: str
    style: _Style


def tree(graph: Graph) -> str:
    """The graph as lines of text, in the order in which objects are applied."""
    by_source: dict[int, list[_Need]] = defaultdict(list)
    for need in _needs(graph):
        by_source[need.source].append(need)
    lines: list[str] = []
    for job, places in _jobs(graph).items():
        size = sum(len(graph.nodes[place].names) for place in places)
        lines.append(f"{_heading(job)} ({size} object{'' if size == 1 else 's'})")
        waves = sorted({graph.nodes[place].wave or 0 for place in places})
        for wave, stem, below in _branches(waves):
            lines.append(f"{stem}wave {wave}")
            inside = [place for place in places if graph.nodes[place].wave == wave]
            for place, twig, deeper in _branches(inside):
                node = graph.nodes[place]
                lines.append(f"{below}{twig}{label(node.kind, node.names)}")
                for need, leaf, _ in _branches(by_source[place]):
                    target = graph.nodes[need.target]
                    words = f"{need.how} {label(target.kind, target.names)}"
                    words += " (not in this output)" if target.wave is None else ""
                    lines.append(f"{below}{deeper}{leaf}{words}")
    return "".join(_UNPRINTABLE.sub("\ufffd", line) + "\n" for line in lines)


def _branches(values: Sequence[_T]) -> Iterator[tuple[_T, str, str]]:
    """The values, each with what stands before it and before what is below it."""
    for number, value in enumerate(values, start=1):
        last = number == len(values)
        yield value, "└─ " if last else "├─ ", "   " if last else "│  "


def mermaid(graph: Graph) -> str:
    """The graph as a flowchart: an arrow leads to what is needed, waves go to the right."""
    lines = ["flowchart RL"]
    for number, (job, places) in enumerate(_jobs(graph).items()):
        lines.append(f'  subgraph j{number}["{_escaped(_heading(job))}"]')
        waves = sorted({graph.nodes[place].wave or 0 for place in places})
        for rank, wave in enumerate(waves):
            lines.append(f'    subgraph j{number}w{rank}["wave {wave}"]')
            lines += [
                f"      {_box(place, graph.nodes[place])}"
                for place in places
                if graph.nodes[place].wave == wave
            ]
            lines.append("    end")
        lines.append("  end")
        lines += [
            f"  j{number}w{rank} -->|after| j{number}w{rank - 1}" for rank in range(1, len(waves))
        ]
    outside = [place for place, node in enumerate(graph.nodes) if node.wave is None]
    lines += [f"  {_box(place, graph.nodes[place])}:::outside" for place in outside]
    lines += [
        f'  n{need.source} {_ARROWS[need.style]}|"{_escaped(need.how)}"| n{need.target}'
        for need in _needs(graph)
    ]
    if outside:
        lines.append("  classDef outside stroke-dasharray:4")
    return "\n".join(lines) + "\n"


def _box(place: int, node: Node) -> str:
    kind, name = counted(node.kind, node.names), joined(node.names)
    return f'n{place}["{_escaped(kind)}<br/>{_escaped(name)}"]'


def _escaped(text: str) -> str:
    return _NOT_PLAIN.sub(lambda match: f"#{ord(match.group())};", text)


FORMS = {"tree": tree, "mermaid": mermaid}
"""The forms by name."""


def _needs(graph: Graph) -> list[_Need]:
    """The edges of a graph, those between the same two nodes as one; gates come first."""
    reasons: dict[tuple[int, int], list[str]] = defaultdict(list)
    for edge in graph.edges:
        if edge.how not in reasons[edge.source, edge.target]:
            reasons[edge.source, edge.target].append(edge.how)
    needs: list[_Need] = []
    for (source, target), hows in reasons.items():
        style: _Style = "gate" if GATE in hows else "selected" if hows == [SELECTED] else "need"
        needs.append(_Need(source, target, ", ".join(hows), style))
    order = [*_ARROWS]
    return sorted(needs, key=lambda need: (need.source, order.index(need.style), need.target))


def _jobs(graph: Graph) -> dict[str | None, list[int]]:
    """The nodes that are in the output, by the title of their job; None for other objects."""
    jobs: dict[str | None, list[int]] = defaultdict(list)
    for place, node in enumerate(graph.nodes):
        if node.wave is not None:
            jobs[node.job].append(place)
    return jobs


def _heading(job: str | None) -> str:
    return f"job {job}" if job else "other objects"
