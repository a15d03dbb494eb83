"""Present a plan as text for a terminal, as Markdown, or as a page.

Markdown is for a comment on a pull request, which has a limit (65,536 characters on GitHub), so
what does not fit is left out, and the text says so. The page can be read without scripts: these
only search and filter.
"""

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from etcompile import pages
from etcompile.diagnostics.message_text import excerpts, painted, printable
from etcompile.diagnostics.redaction import redacted
from etcompile.plan.groups import (
    STYLES,
    Line,
    Shown,
    Yaml,
    destroyed,
    gist,
    limited,
    lines,
    shown,
    side,
    summary,
    toll,
)
from etcompile.plan.schedule import turns
from etcompile.plan.step import ACTIONS, MISSING, RUN_AGAIN, Plan

# Text ---------------------------------------------------------------------------------------------

_MOST_LINES = 80
"""Lines of one thing to do: another form shows more."""
_MOST_LINES_OF_FIELD = 30
_WIDEST = 400
_SHORT = 110
"""Characters of a field and its two values that still fit in one line."""
_LINE_COLOURS = {"-": "31", "+": "32", "@": "36", "#": "1", " ": ""}


def text(plan: Plan, yaml: Yaml, *, color: bool) -> Iterator[str]:
    groups = shown(plan)
    width = len(str(len(groups)))
    job: str | None = ""
    for group in groups:
        if group.first.job != job:
            job = group.first.job
            yield painted(f"job {job}" if job else "other objects", "1", color=color)
        yield from _group(group, width, yaml, color=color)
    if groups:
        yield ""
    for group in shown(plan, idle=True):
        if group.first.action == "unmanaged":
            reason = ", ".join(group.first.reasons)
            yield painted(f"left alone: {group.title} ({reason})", "2", color=color)
    # Separate from all else: nobody should have to look for what is deleted.
    if destroys := destroyed(plan):
        yield painted(f"{toll(plan)}:", "1;31", color=color)
        for group in destroys:
            mark = STYLES[group.first.action].mark
            yield painted(f"  {mark:>3} {printable(group.title)}", "31", color=color)
            if reason := ", ".join(group.first.reasons):
                yield painted(f"      {printable(reason)}", "2", color=color)
        yield ""
    yield painted(f"{side(plan)}: {summary(plan)}", "1", color=color)


def _group(group: Shown, width: int, yaml: Yaml, *, color: bool) -> Iterator[str]:
    step = group.first
    style = STYLES[step.action]
    mark = painted(f"{style.mark:>3} {step.action:<8}", style.color, color=color)
    yield f"{group.number:>{width + 2}} {mark} {printable(group.title)}"
    indent = " " * (width + 16)
    notes = [reason for reason in group.first.reasons if reason not in (MISSING, RUN_AGAIN)]
    if step.action == "create" and step.manifest:
        notes = [words for words in (gist(step.manifest), *notes) if words]
    for note in notes:
        yield painted(f"{indent}{printable(note)}", "2", color=color)
    changed = (
        line
        for change in step.changes
        for line in limited(iter(_short([*lines(change, yaml)])), _MOST_LINES_OF_FIELD)
    )
    for line in limited(changed, _MOST_LINES):
        words = printable(line.text)
        if len(words) > _WIDEST + 2:
            words = f"{words[:_WIDEST]}… ({len(words) - _WIDEST} more characters)"
        if line.sign != "#":
            words = f"  {'…' if line.sign == '@' else line.sign} {words}"
        yield painted(f"{indent}{words}", _LINE_COLOURS[line.sign], color=color)


def _short(changed: list[Line]) -> list[Line]:
    """Shorten the lines of a change: `spec.replicas: 1 → 2`.

    If two lines are long, the part in which they differ stays.
    """
    runs = [[*run] for _, run in itertools.groupby(changed, key=lambda line: line.sign)]
    for removed, added in itertools.pairwise(runs):
        if (removed[0].sign, added[0].sign) == ("-", "+"):
            for number, (old, new) in enumerate(zip(removed, added, strict=False)):
                before, after = excerpts(old.text, new.text, _WIDEST)
                removed[number], added[number] = Line("-", before), Line("+", after)
    changed = [line for run in runs for line in run]
    texts = [line.text for line in changed]
    if [line.sign for line in changed] == ["#", "-", "+"] and sum(map(len, texts)) < _SHORT:
        return [Line("#", f"{texts[0]}: {texts[1]} → {texts[2]}")]
    return changed


# Markdown -----------------------------------------------------------------------------------------

LIMIT = 60_000
"""Bytes."""
_MOST_ROWS = 200
_CLOSING = 400
"""Bytes reserved for the note about what is left out."""
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~@])")


def markdown(plan: Plan, yaml: Yaml) -> str:
    """Return Markdown of at most `LIMIT` bytes: a table, and the changes folded below it."""
    groups = shown(plan)
    head = [f"### Plan: {_escaped(summary(plan))}", "", f"Against {_escaped(side(plan))}.", ""]
    if destroys := toll(plan):
        head += [f"> **{_escaped(destroys)}.**", ""]
    text = "\n".join(head) + "\n"
    rows: list[str] = []
    left = 0
    size = len(text.encode())
    for group in groups:
        action = f"{STYLES[group.first.action].mark} {group.first.action}"
        reasons = "; ".join(_escaped(reason) for reason in group.first.reasons)
        row = f"| {group.number} | `{action}` | {_escaped(group.title)} | {reasons} |\n"
        if left or len(rows) >= _MOST_ROWS or size + len(row.encode()) > LIMIT // 2:
            left += 1
            continue
        size += len(row.encode())
        rows.append(row)
    if rows:
        text += "| | | object | why |\n|---:|---|---|---|\n" + "".join(rows) + "\n"
    if left:
        text += f"… and {left} more steps.\n\n"
    hidden = 0
    for group in groups:
        details = _details(group, yaml)
        if len((text + details).encode()) > LIMIT - _CLOSING:
            hidden += bool(details)
            continue
        text += details
    if hidden:
        text += (
            f"**The changes of {hidden} of these steps are too long for a comment** and are left"
            " out here; `etcompile diff -o html` shows all of them.\n"
        )
    return text


def _details(group: Shown, yaml: Yaml) -> str:
    step = group.first
    changed = [line for change in step.changes for line in lines(change, yaml)]
    if not changed and step.manifest and step.action in ("create", "replace"):
        changed = [Line("+", text) for text in redacted(yaml(step.manifest)).splitlines()]
    if not changed:
        return ""
    forms = {"#": "@@ {} @@", "@": "# … {}"}
    body = "\n".join(
        forms[line.sign].format(line.text) if line.sign in forms else f"{line.sign}{line.text}"
        for line in changed
    )
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    title = html.escape(f"{group.number}. {step.action} {group.title}")
    return f"<details><summary>{title}</summary>\n\n{fence}diff\n{body}\n{fence}\n\n</details>\n\n"


def _escaped(words: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(words.split()))


# Page ---------------------------------------------------------------------------------------------

_MOST_LINES_ON_PAGE = 3000
"""Lines of one thing to do."""
_MOST_IN_TURNS = 150
"""Things to do that can still be grasped at a glance."""
_SIGNS = {
    "-": ("gone", "- "),
    "+": ("new", "+ "),
    " ": ("same", "  "),
    "@": ("cut", "… "),
    "#": ("field", " "),
}
"""The class of a line, and what precedes it."""


def page(plan: Plan, yaml: Yaml) -> str:
    groups = shown(plan)
    counts = Counter[str]()
    columns: dict[int, list[Shown]] = {}
    order = turns(plan.steps) if len(groups) <= _MOST_IN_TURNS else None
    for group in groups:
        counts[group.first.action] += len(group.steps)
        if order is not None:
            turn = max(order.get(member.id, 0) for member in group.steps)
            columns.setdefault(turn, []).append(group)
    shown_groups = []
    for group in groups:
        step = group.first
        image = gist(step.manifest) if step.action == "create" and step.manifest else ""
        brief = image or "; ".join(step.reasons) or ", ".join(each.path for each in step.changes)
        text = [line for change in step.changes for line in lines(change, yaml)]
        if step.manifest is not None and step.action in ("create", "replace"):
            text.append(Line("#", "the object as it is made"))
            text += [Line("+", line) for line in redacted(yaml(step.manifest)).splitlines()]
        signed = (
            (*_SIGNS[line.sign], line.text) for line in limited(iter(text), _MOST_LINES_ON_PAGE)
        )
        shown_groups.append((group, brief, [(name, mark + words) for name, mark, words in signed]))
    idle = []
    for action, title in (("unmanaged", "Left alone"), ("unchanged", "Unchanged")):
        rest = [group for group in shown(plan, idle=True) if group.first.action == action]
        if rest:
            idle.append((f"{title} ({sum(len(group.steps) for group in rest)})", rest))
    return pages.page(
        "plan.html.j2",
        title=f"Plan: {summary(plan)}",
        summary=summary(plan),
        against=side(plan),
        turns=[columns[turn] for turn in sorted(columns)],
        groups=shown_groups,
        marks={action: style.mark for action, style in STYLES.items()},
        actions={action: counts[action] for action in ACTIONS if counts[action]},
        idle=idle,
    )
