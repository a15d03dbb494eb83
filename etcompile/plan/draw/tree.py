"""A graph as a tree for a terminal: jobs, waves, objects, and below each what it needs."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from etcompile.plan.bundles import label
from etcompile.plan.draw.needs import Need, heading, jobs, needs, size
from etcompile.plan.graph import Graph

_T = TypeVar("_T")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def tree(graph: Graph) -> str:
    """The graph as lines of text, in the order in which objects are applied."""
    by_source: dict[int, list[Need]] = defaultdict(list)
    for need in needs(graph):
        by_source[need.source].append(need)
    lines: list[str] = []
    for job, places in jobs(graph).items():
        lines.append(f"{heading(job)} ({size([graph.nodes[place] for place in places])})")
        waves = sorted({graph.nodes[place].wave or 0 for place in places})
        for wave, stem, below in _branches(waves):
            lines.append(f"{stem}wave {wave}")
            inside = [place for place in places if graph.nodes[place].wave == wave]
            for place, twig, deeper in _branches(inside):
                node = graph.nodes[place]
                lines.append(f"{below}{twig}{label(node.kind, node.names)}")
                for need, leaf, _ in _branches(by_source[place]):
                    lines.append(f"{below}{deeper}{leaf}{_need_line(graph, need)}")
    return "".join(_UNPRINTABLE.sub("\ufffd", line) + "\n" for line in lines)


def _need_line(graph: Graph, need: Need) -> str:
    target = graph.nodes[need.target]
    where = " (not in this output)" if target.wave is None else ""
    return f"{need.how} {label(target.kind, target.names)}{where}"


def _branches(values: Sequence[_T]) -> Iterator[tuple[_T, str, str]]:
    """The values, each with what stands before it and before what is below it."""
    for number, value in enumerate(values, start=1):
        last = number == len(values)
        yield value, "└─ " if last else "├─ ", "   " if last else "│  "
