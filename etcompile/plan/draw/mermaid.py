"""A graph as a Mermaid flowchart, which GitHub and GitLab draw in a comment or a README.

Only the plainest grammar is used: numbered ids, quoted labels, entities for whatever Mermaid
could take for its own.
"""

import re

from etcompile.plan.bundles import count, name
from etcompile.plan.draw.needs import heading, jobs, needs
from etcompile.plan.graph import Graph, Node

_ARROWS = {"gate": "==>", "need": "-->", "found": "-.->"}
_PLAIN = re.compile(r"[^A-Za-z0-9 ,.…_/:()\-]")


def mermaid(graph: Graph) -> str:
    """The graph as a flowchart: an arrow leads to what is needed, waves go to the right."""
    lines = ["flowchart RL"]
    for number, (job, places) in enumerate(jobs(graph).items()):
        lines.append(f'  subgraph j{number}["{_text(heading(job))}"]')
        waves = sorted({graph.nodes[place].wave or 0 for place in places})
        for rank, wave in enumerate(waves):
            lines.append(f'    subgraph j{number}w{rank}["wave {wave}"]')
            lines += [
                f"      {_node(place, graph.nodes[place])}"
                for place in places
                if graph.nodes[place].wave == wave
            ]
            lines.append("    end")
        lines.append("  end")
        lines += [
            f"  j{number}w{rank} -->|after| j{number}w{rank - 1}" for rank in range(1, len(waves))
        ]
    outside = [place for place, node in enumerate(graph.nodes) if node.wave is None]
    lines += [f"  {_node(place, graph.nodes[place])}:::outside" for place in outside]
    lines += [
        f'  n{need.source} {_ARROWS[need.style]}|"{_text(need.how)}"| n{need.target}'
        for need in needs(graph)
    ]
    if outside:
        lines.append("  classDef outside stroke-dasharray:4")
    return "\n".join(lines) + "\n"


def _node(place: int, node: Node) -> str:
    return f'n{place}["{_text(count(node.kind, node.names))}<br/>{_text(name(node.names))}"]'


def _text(text: str) -> str:
    return _PLAIN.sub(lambda match: f"#{ord(match.group())};", text)
