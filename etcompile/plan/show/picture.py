"""A plan to a picture of it: what is done about each object, after what.

Drawn as compiled objects are (`etcompile.plan.draw`), with turns for columns: everything in one can
be done at once.
"""

from etcompile.plan.draw.svg import Words, svg
from etcompile.plan.graph import GATE, Edge, Graph, Node
from etcompile.plan.schedule import turns
from etcompile.plan.show.alike import shown
from etcompile.plan.step import Plan

_WORDS = Words(
    title="The plan",
    band="turn",
    thing="step",
    arrows=(("gate", "waits until that is over"), ("need", "comes after")),
    note="turns go from left to right",
)
_MOST = 150
"""Boxes that still make a picture."""


def picture(plan: Plan) -> str | None:
    """The plan as an SVG document; None if nothing is to be done or it is too much to see."""
    groups = shown(plan)
    if not groups or len(groups) > _MOST:
        return None
    places = {step.id: place for place, group in enumerate(groups) for step in group.steps}
    order = turns(plan.steps)
    nodes = [
        Node(
            group.first.ref.kind,
            tuple(step.ref.name for step in group.steps),
            group.first.ref.namespace,
            group.first.ref.group,
            group.first.job,
            1 + max(order.get(step.id, 0) for step in group.steps),
            group.first.action,
        )
        for group in groups
    ]
    edges = dict.fromkeys(
        Edge(place, places[name], _how(groups[places[name]].first.until), binds=True)
        for place, group in enumerate(groups)
        for step in group.steps
        for name in step.after
        if places.get(name, place) != place
    )
    return svg(Graph(tuple(nodes), tuple(edges)), _WORDS)


def _how(until: str | None) -> str:
    return GATE if until else "comes after"
