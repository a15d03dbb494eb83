"""A plan as one page: its turns, and each object's change to unfold.

For a reviewer who opens a file: without scripts everything can still be read and unfolded; the
script only searches and filters.
"""

from collections import Counter
from typing import Any

from etcompile.diagnostics.redaction import redacted
from etcompile.pages import page as webpage
from etcompile.plan.schedule import turns
from etcompile.plan.show.groups import MARKS, Shown, gist, refusals, shown, side, summary
from etcompile.plan.show.lines import Line, Yaml, limited, lines
from etcompile.plan.step import ACTIONS, Plan

_LONGEST = 3000
"""Lines of one thing to do."""
_MOST_IN_TURNS = 150
"""Things to do that can still be taken in at a glance."""
_SIGNS = {
    "-": ("gone", "- "),
    "+": ("new", "+ "),
    " ": ("same", "  "),
    "@": ("cut", "… "),
    "#": ("field", " "),
}
"""The class of a line, and what stands in front of it."""


def page(plan: Plan, yaml: Yaml) -> str:
    """The plan as an HTML document.

    Args:
        plan: The plan, whole.
        yaml: Writes a JSON value as YAML.
    """
    groups = shown(plan)
    steps = [_step(group, yaml) for group in groups]
    counts = Counter[str]()
    columns: dict[int, list[dict[str, Any]]] = {}
    order = turns(plan.steps) if len(groups) <= _MOST_IN_TURNS else None
    for group, step in zip(groups, steps, strict=True):
        counts[group.first.action] += len(group.steps)
        if order is not None:
            turn = max(order.get(member.id, 0) for member in group.steps)
            columns.setdefault(turn, []).append(step)
    return webpage(
        "plan.html.j2",
        title=f"Plan: {summary(plan)}",
        summary=summary(plan),
        against=side(plan),
        refusals=[*refusals(plan)],
        turns=[columns[turn] for turn in sorted(columns)],
        steps=steps,
        actions={action: counts[action] for action in ACTIONS if counts[action]},
        idle=_idle(plan),
    )


def _idle(plan: Plan) -> list[tuple[str, list[tuple[str, str]]]]:
    """The objects of which nothing is done, under their headings."""
    found = []
    for action, title in (("unmanaged", "Left alone"), ("unchanged", "Unchanged")):
        groups = [group for group in shown(plan, idle=True) if group.first.action == action]
        if groups:
            number = sum(len(group.steps) for group in groups)
            entries = [(group.title, ", ".join(group.reasons)) for group in groups]
            found.append((f"{title} ({number})", entries))
    return found


def _step(group: Shown, yaml: Yaml) -> dict[str, Any]:
    """What the page shows of steps that are alike."""
    step, count = group.first, len(group.steps)
    brief = "; ".join(group.reasons) or ", ".join(change.path for change in step.changes)
    if step.action == "create" and step.manifest:
        brief = gist(step.manifest) or brief
    more = f" and {len(step.after) - 3} more" if len(step.after) > 3 else ""
    text = [line for change in step.changes for line in lines(change, yaml)]
    if step.manifest is not None and step.action in ("create", "replace"):
        text.append(Line("#", "the object as it is made"))
        text += [Line("+", line) for line in redacted(yaml(step.manifest)).splitlines()]
    return {
        "number": group.number,
        "action": step.action,
        "mark": MARKS[step.action],
        "title": group.title,
        "names": " ".join(str(member.ref) for member in group.steps),
        "brief": brief,
        "job": step.job,
        "reasons": "; ".join(group.reasons),
        "after": ", ".join(step.after[:3]) + more,
        "alike": f"These {count} are alike but for their numbers; here is {step.ref.name}."
        if count > 1
        else "",
        "lines": [
            (_SIGNS[line.sign][0], _SIGNS[line.sign][1] + line.text)
            for line in limited(iter(text), _LONGEST)
        ],
        "is_hidden": step.action == "create" and not step.manifest,
        "origin": step.origin,
    }
