"""A graph as an SVG picture, without Graphviz or a browser.

A panel for each job and whatever it needs, with a band for each wave: time goes to the right,
arrows lead to the left, to what is waited for. The colours follow the reader's light or dark
page. Numbers are whole, so that the same graph is the same bytes everywhere.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from msgspec import Struct

from etcompile.plan.bundles import count, label, name
from etcompile.plan.draw.layers import depths, layout
from etcompile.plan.draw.needs import Need, heading, jobs, needs, size
from etcompile.plan.graph import Graph, Node

_LETTER = 7.3
"""Width of a letter of a name; the font has one width for all of them."""
_LONGEST = 44
"""Letters of a name; the whole name is in the box's tooltip."""
_NARROWEST = 132
_BOX = 42
_LANE = 8
_GAP = 18
_BETWEEN = 76
"""Between two columns of boxes: room for the arrows to turn."""
_MARGIN = 24
_TITLE = 34
_BAND = 28
_LEGEND = 44


class Words(Struct, frozen=True):
    """What a picture says of itself.

    Args:
        title: What it shows.
        band: What the columns are: `wave` and a number.
        thing: What its boxes are.
        arrows: The arrows of its legend, by style.
        note: What else the legend says.
    """

    title: str = "What waits for what"
    band: str = "wave"
    thing: str = "object"
    arrows: tuple[tuple[str, str], ...] = (
        ("gate", "waits until ready"),
        ("need", "needs"),
        ("found", "is found by"),
    )
    note: str = "each wave waits for those to its left"


_STYLE = """\
text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.page { fill: #ffffff }
.title { font-size: 15px; font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.name { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.band { fill: #f6f8fa; stroke: #d1d9e0 }
.box { fill: #ffffff; stroke: #818b98 }
.pod { fill: #ddf4ff; stroke: #0969da }
.outside { fill: none; stroke: #818b98; stroke-dasharray: 5 4 }
.edge { fill: none; stroke: #818b98; stroke-width: 1.3 }
.gate { stroke: #bc4c00; stroke-width: 2 }
.found { stroke: #8250df; stroke-dasharray: 2 4 }
.head { fill: #818b98 }
.gate-head { fill: #bc4c00 }
.found-head { fill: #8250df }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .page { fill: #0d1117 }
  .small { fill: #9198a1 }
  .band { fill: #151b23; stroke: #3d444d }
  .box { fill: #212830; stroke: #656c76 }
  .pod { fill: #121d2f; stroke: #4493f8 }
  .outside { fill: none; stroke: #9198a1 }
  .edge { stroke: #9198a1 }
  .gate { stroke: #f0883e }
  .found { stroke: #ab7df8 }
  .head { fill: #9198a1 }
  .gate-head { fill: #f0883e }
  .found-head { fill: #ab7df8 }
}
"""

_HEADS = (("need", "head"), ("gate", "gate-head"), ("found", "found-head"))
# What XML 1.0 has no way to write, and marks that turn the direction of a line.
_UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class _Panel(Struct, frozen=True):
    """A drawn job: its lines, and how much room they take."""

    lines: tuple[str, ...]
    width: int
    height: int


def svg(graph: Graph, words: Words | None = None) -> str:
    """The graph as an SVG document.

    Args:
        graph: What is drawn, a panel for each of its jobs.
        words: What the picture says of itself; that of a graph of waves if None.
    """
    words = words or Words()
    everything = needs(graph)
    panels: list[tuple[str, _Panel]] = []
    for job, places in jobs(graph).items():
        inside = set(places)
        arrows = [arrow for arrow in everything if arrow.source in inside]
        # What another job or nobody here makes is drawn beside those that need it.
        boxes = list(dict.fromkeys((*places, *sorted(arrow.target for arrow in arrows))))
        panel = _panel(graph, boxes, arrows, words)
        title = f"{heading(job)} · {size([graph.nodes[place] for place in places], words.thing)}"
        panels.append((title, panel))
    width = max([480, *(panel.width for _, panel in panels)]) + 2 * _MARGIN
    body: list[str] = []
    top = _MARGIN
    for title, panel in panels:
        body.append(f'<g transform="translate({_MARGIN} {top})">')
        body.append(f'<text class="title" y="16">{_text(title)}</text>')
        body.append(f'<g transform="translate(0 {_TITLE})">')
        body += [*panel.lines, "</g>", "</g>"]
        top += _TITLE + panel.height + _MARGIN
    body += _legend(_MARGIN, top + 4, words)
    height = top + _LEGEND
    frame = f'width="{width}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} viewBox="0 0 {width} {height}">',
        f"<title>{_text(words.title)}</title>",
        f"<style>\n{_STYLE}</style>",
        "<defs>",
        *(
            f'<marker id="{style}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
            f' markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path class="{css}" d="M0 0 8 4 0 8z"/></marker>'
            for style, css in _HEADS
        ),
        "</defs>",
        f'<rect class="page" {frame}/>',
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _panel(graph: Graph, boxes: Sequence[int], arrows: Sequence[Need], words: Words) -> _Panel:
    nodes = {box: graph.nodes[box] for box in boxes}
    columns = _columns(nodes, arrows)
    order = sorted(set(columns.values()))
    pairs = [(arrow.source, arrow.target) for arrow in arrows]
    placed = layout(columns, pairs, box=_BOX, lane=_LANE, gap=_GAP)
    widths = {
        column: max(_width(nodes[box]) for box in boxes if columns[box] == column)
        for column in order
    }
    lefts: dict[int, int] = {}
    left = _GAP
    for column in order:
        lefts[column] = left
        left += widths[column] + _BETWEEN
    lines = [*_bands(nodes, columns, lefts, widths, placed.height, words.band)]

    def at(height: float) -> int:
        return round(_BAND + _GAP / 2 + height)

    drawn: set[tuple[str, int, int]] = set()
    for arrow in arrows:
        start, end = columns[arrow.source], columns[arrow.target]
        stops = [(lefts[start], at(placed.centres[arrow.source]))]
        joins = False
        for column in range(start - 1, end, -1):
            lane = at(placed.lanes[arrow.target, column])
            stops.append((lefts[column] + widths[column], lane))
            # The rest of the way is one line for all: dots drawn twice would be a dash.
            if joins := (arrow.style, arrow.target, column) in drawn:
                break
            drawn.add((arrow.style, arrow.target, column))
            stops.append((lefts[column], lane))
        else:
            right = lefts[end] + widths[end] + _sheets(nodes[arrow.target])[0]
            stops.append((right, at(placed.centres[arrow.target])))
        lines.append(_arrow(stops, arrow, nodes, headless=joins))
    for box, node in nodes.items():
        column = columns[box]
        top = at(placed.centres[box]) - _BOX // 2
        lines += _box(node, lefts[column], top, widths[column])
    return _Panel(tuple(lines), left - _BETWEEN + _GAP, _BAND + _GAP + round(placed.height))


def _columns(nodes: dict[int, Node], arrows: Sequence[Need]) -> dict[int, int]:
    """The column of each node: by wave, and inside a wave by what it waits for."""
    places: dict[int, tuple[bool, int, int]] = {}
    for wave in {node.wave for node in nodes.values()}:
        alike = [box for box, node in nodes.items() if node.wave == wave]
        steps = depths(alike, [(arrow.source, arrow.target) for arrow in arrows])
        places |= {box: (wave is not None, wave or 0, steps[box]) for box in alike}
    numbers = {place: number for number, place in enumerate(sorted(set(places.values())))}
    return {box: numbers[places[box]] for box in nodes}


def _bands(
    nodes: dict[int, Node],
    columns: dict[int, int],
    lefts: dict[int, int],
    widths: dict[int, int],
    height: float,
    band: str,
) -> Iterator[str]:
    """A band behind each wave, with its number; and one behind what is not in the output."""
    bands: dict[int | None, list[int]] = {}
    for box, node in nodes.items():
        bands.setdefault(node.wave, []).append(columns[box])
    for wave, inside in bands.items():
        left, right = min(inside), max(inside)
        x = lefts[left] - _GAP
        width = lefts[right] + widths[right] + _GAP - x
        title = "not in this output" if wave is None else f"{band} {wave}"
        tall = _BAND + _GAP + round(height)
        yield f'<rect class="band" x="{x}" width="{width}" height="{tall}" rx="8"/>'
        yield f'<text class="small" x="{x + 12}" y="19">{title}</text>'


def _box(node: Node, x: int, y: int, width: int) -> Iterator[str]:
    style = "outside" if node.wave is None else "box pod" if node.kind == "Pod" else "box"
    kind = _short(f"{node.mark} {count(node)}" if node.mark else count(node))
    if node.mark:
        style = f"box do-{node.mark}"
    full = f"{label(node)}, namespace {node.namespace}" if node.namespace else label(node)
    yield f"<g><title>{_text(full)}</title>"
    for shift in _sheets(node):
        corner = f'x="{x + shift}" y="{y + shift}"'
        yield f'<rect class="{style}" {corner} width="{width}" height="{_BOX}" rx="6"/>'
    yield f'<text class="small" x="{x + 10}" y="{y + 16}">{_text(kind)}</text>'
    yield f'<text class="name" x="{x + 10}" y="{y + 33}">{_text(_short(name(node)))}</text></g>'


def _sheets(node: Node) -> tuple[int, ...]:
    """How far the sheets of a box are moved, the hindmost first: several objects are two."""
    return (4, 0) if len(node.names) > 1 else (0,)


def _arrow(
    stops: Sequence[tuple[int, int]], need: Need, nodes: dict[int, Node], *, headless: bool
) -> str:
    """A line from the needing box to the needed one, straight in lanes, curved between."""
    path = "M{} {}".format(*stops[0])
    for number, ((x, y), (to, height)) in enumerate(pairwise(stops)):
        if number % 2:
            path += f"H{to}"
        else:
            turn = round((x + to) / 2)
            path += f"C{turn} {y} {turn} {height} {to} {height}"
    told = f"{label(nodes[need.source])} {need.how} {label(nodes[need.target])}"
    head = "" if headless else f' marker-end="url(#{need.style})"'
    return f'<path class="edge {need.style}" d="{path}"{head}><title>{_text(told)}</title></path>'


def _legend(x: int, y: int, says: Words) -> Iterator[str]:
    for style, words in says.arrows:
        yield (
            f'<path class="edge {style}" d="M{x + 34} {y}H{x}" marker-end="url(#{style})"/>'
            f'<text class="small" x="{x + 42}" y="{y + 4}">{words}</text>'
        )
        x += 60 + 6 * len(words)
    yield f'<text class="small" x="{x}" y="{y + 4}">{_text(says.note)}</text>'


def _width(node: Node) -> int:
    letters = max(len(_short(name(node))), len(_short(f"{node.mark} {count(node)}")))
    return max(_NARROWEST, round(letters * _LETTER) + 20)


def _short(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def _text(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text), {'"': "&quot;"})
