"""A plan as one page that needs nothing else: its turns, and each object's change to unfold.

For a reviewer who opens a file: no address is loaded, and without scripts everything can still be
read and unfolded; the script only searches and filters.
"""

from collections.abc import Iterator

from etcompile.diagnostics.redaction import redacted
from etcompile.plan.schedule import turns
from etcompile.plan.show.alike import MARKS, Shown, gist, refusals, shown, side, summary
from etcompile.plan.show.dress import SCRIPT, STYLE
from etcompile.plan.show.lines import Line, Yaml, limited, lines
from etcompile.plan.step import ACTIONS, Plan
from etcompile.webpage import document, escaped

_LONGEST = 3000
"""Lines of one thing to do."""
_MOST_IN_TURNS = 150
"""Things to do that can still be taken in at a glance."""
_CLASSES = {"-": "gone", "+": "new", " ": "same", "@": "cut", "#": "field"}


def page(plan: Plan, yaml: Yaml, *, version: str = "") -> str:
    """The plan as an HTML document.

    Args:
        plan: The plan, whole.
        yaml: Writes a JSON value as YAML.
        version: The version of etcompile, for the foot of the page.
    """
    title = f"Plan: {summary(plan)}"
    found = document(title, _body(plan, yaml), style=STYLE, version=version, script=SCRIPT)
    return "\n".join(found) + "\n"


def _body(plan: Plan, yaml: Yaml) -> Iterator[str]:
    groups, idle = shown(plan), shown(plan, idle=True)
    yield "<header><h1>Plan</h1>"
    yield f'<p class="summary">{escaped(summary(plan))}</p>'
    yield f'<p class="against">compared with {escaped(side(plan))}</p></header>'
    for words in refusals(plan):
        yield f'<p class="refused"><strong>Refused as it is.</strong> {escaped(words)}.</p>'
    yield "<main>"
    if 0 < len(groups) <= _MOST_IN_TURNS:
        yield from _turns(plan, groups)
    yield "<section><h2>What is done</h2>"
    if groups:
        yield from _controls(groups)
        yield '<div id="steps">'
        for group in groups:
            yield from _group(group, yaml)
        yield '</div><p id="none" hidden>Nothing here has all of these words.</p>'
    else:
        yield "<p>Nothing: there are no differences.</p>"
    yield "</section>"
    for action, title in (("unmanaged", "Left alone"), ("unchanged", "Unchanged")):
        found = [group for group in idle if group.first.action == action]
        if found:
            number = sum(len(group.steps) for group in found)
            yield f'<details class="idle"><summary><h2>{title} ({number})</h2></summary><ul>'
            for group in found:
                why = f' <span class="why">{escaped(", ".join(group.reasons))}</span>'
                yield f"<li>{escaped(group.title)}{why if group.reasons else ''}</li>"
            yield "</ul></details>"
    yield "</main>"


def _turns(plan: Plan, groups: list[Shown]) -> Iterator[str]:
    """A column for each turn: what stands in one can be done at once."""
    order = turns(plan.steps)
    columns: dict[int, list[Shown]] = {}
    for group in groups:
        turn = max(order.get(step.id, 0) for step in group.steps)
        columns.setdefault(turn, []).append(group)
    yield '<details class="turns" open><summary><h2>In which order</h2></summary>'
    yield '<ol tabindex="0">'
    for turn in sorted(columns):
        yield f"<li><h3>turn {turn + 1}</h3>"
        for group in columns[turn]:
            action = group.first.action
            yield f'<a class="box {action}" href="#step-{group.number}">'
            yield f"<b>{escaped(MARKS[action])}</b> {escaped(group.title)}</a>"
        yield "</li>"
    yield "</ol></details>"


def _controls(groups: list[Shown]) -> Iterator[str]:
    yield '<form id="controls" role="search">'
    yield '<input id="search" type="search" placeholder="Search names, fields, values ( / )"'
    yield ' aria-label="Search" autocomplete="off" spellcheck="false">'
    there = {group.first.action for group in groups}
    for action in ACTIONS:
        if action in there:
            count = sum(len(group.steps) for group in groups if group.first.action == action)
            yield (
                f'<label class="chip {action}"><input type="checkbox" name="action"'
                f' value="{action}" checked>{action} {count}</label>'
            )
    yield '<span class="fold"><button type="button" id="unfold">Unfold all</button>'
    yield '<button type="button" id="fold">Fold all</button></span>'
    yield '<output id="count" aria-live="polite"></output></form>'


def _group(group: Shown, yaml: Yaml) -> Iterator[str]:
    step = group.first
    names = " ".join(str(member.ref) for member in group.steps)
    yield (
        f'<details class="step" id="step-{group.number}" data-action="{step.action}"'
        f' data-names="{escaped(names)}">'
    )
    job = f'<span class="job">{escaped(step.job)}</span>' if step.job else ""
    brief = "; ".join(group.reasons) or ", ".join(change.path for change in step.changes)
    if step.action == "create" and step.manifest:
        brief = gist(step.manifest) or brief
    yield (
        f'<summary><span class="number">{group.number}</span>'
        f'<span class="action {step.action}"><b>{escaped(MARKS[step.action])}</b>'
        f" {step.action}</span>"
        f'<span class="object">{escaped(group.title)}</span>'
        f'<span class="brief">{escaped(brief)}</span>{job}</summary>'
    )
    yield '<div class="inside">'
    if group.reasons:
        yield f'<p class="why">{escaped("; ".join(group.reasons))}</p>'
    if step.after:
        names = ", ".join(step.after[:3])
        more = f" and {len(step.after) - 3} more" if len(step.after) > 3 else ""
        yield f'<p class="after">after: {escaped(names)}{more}</p>'
    if len(group.steps) > 1:
        words = (
            f"These {len(group.steps)} are alike but for their numbers; here is {step.ref.name}."
        )
        yield f'<p class="names">{escaped(words)}</p>'
    found = [line for change in step.changes for line in lines(change, yaml)]
    if step.manifest is not None and step.action in ("create", "replace"):
        sign: Line = Line("#", "the object as it is made")
        found += [sign, *(Line("+", text) for text in redacted(yaml(step.manifest)).splitlines())]
    if found:
        yield '<pre class="diff">' + "".join(map(_line, limited(iter(found), _LONGEST))) + "</pre>"
    elif not step.manifest and step.action == "create":
        yield "<p>Its values are not shown: it is a Secret.</p>"
    if step.origin:
        yield f'<p class="origin">from {escaped(step.origin)}</p>'
    yield "</div></details>"


def _line(line: Line) -> str:
    sign = "…" if line.sign == "@" else "" if line.sign == "#" else line.sign
    return f'<span class="{_CLASSES[line.sign]}">{sign} {escaped(line.text)}\n</span>'
