"""What every form of a graph shows: the nodes of each job, and what each node needs.

A node may need another for several reasons; they are listed together.
"""

from collections import defaultdict
from typing import Literal

from msgspec import Struct

from etcompile.plan.graph import FOUND, GATE, Graph, Node

Style = Literal["gate", "need", "found"]


class Need(Struct, frozen=True):
    """One node that needs another, for whatever reasons.

    Args:
        source: The place of the needing node.
        target: The place of the needed one.
        how: All reasons: `mounts, reads`.
        style: A gate is waited for; what is found is only reached through; else it is needed.
    """

    source: int
    target: int
    how: str
    style: Style


def needs(graph: Graph) -> tuple[Need, ...]:
    """The edges of a graph with those of a pair taken together, gates first."""
    reasons: dict[tuple[int, int], list[str]] = defaultdict(list)
    for edge in graph.edges:
        told = reasons[edge.source, edge.target]
        if edge.how not in told:
            told.append(edge.how)
    made = [
        Need(source, target, ", ".join(told), _style(told))
        for (source, target), told in reasons.items()
    ]
    ranks: tuple[Style, ...] = ("gate", "need", "found")
    return tuple(sorted(made, key=lambda need: (need.source, ranks.index(need.style), need.target)))


def jobs(graph: Graph) -> dict[str | None, list[int]]:
    """The nodes that are in the output, by the title of their job; None for other objects."""
    found: dict[str | None, list[int]] = defaultdict(list)
    for place, node in enumerate(graph.nodes):
        if node.wave is not None:
            found[node.job].append(place)
    return found


def heading(job: str | None) -> str:
    """What stands above the nodes of a job."""
    return f"job {job}" if job else "other objects"


def size(nodes: list[Node]) -> str:
    """How many objects there are: `1 object`, `12 objects`."""
    number = sum(len(node.names) for node in nodes)
    return f"{number} object" + ("" if number == 1 else "s")


def _style(told: list[str]) -> Style:
    if GATE in told:
        return "gate"
    return "found" if told == [FOUND] else "need"
