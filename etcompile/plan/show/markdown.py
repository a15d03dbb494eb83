"""A plan as Markdown that fits a comment on a pull request: a table, and changes folded below it.

A comment has a limit (65,536 characters on GitHub), so what does not fit is left out, and said.
"""

import html
import re

from etcompile.diagnostics.redaction import redacted
from etcompile.plan.show.groups import MARKS, Shown, refusals, shown, side, summary, toll
from etcompile.plan.show.lines import Line, Yaml, lines
from etcompile.plan.step import Plan

LIMIT = 60_000
"""Bytes."""
_ROWS = 200
_CLOSING = 400
"""Bytes kept free for what is said of what is left out."""
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~@])")


def markdown(plan: Plan, yaml: Yaml, limit: int = LIMIT) -> str:
    """The plan as Markdown.

    Args:
        plan: The plan, whole.
        yaml: Writes a JSON value as YAML.
        limit: The most bytes that it may have.
    """
    groups = shown(plan)
    head = [f"### Plan: {_escaped(summary(plan))}", "", f"Against {_escaped(side(plan))}.", ""]
    head += [f"> **Refused as it is:** {_escaped(words)}" for words in refusals(plan)]
    if destroys := toll(plan):
        head.append(f"> **{_escaped(destroys)}.**")
    if refusals(plan) or destroys:
        head.append("")
    text = "\n".join(head) + "\n"
    rows: list[str] = []
    left = 0
    size = len(text.encode())
    for group in groups:
        row = _row(group)
        if left or len(rows) >= _ROWS or size + len(row.encode()) > limit // 2:
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
        if len((text + details).encode()) > limit - _CLOSING:
            hidden += bool(details)
            continue
        text += details
    if hidden:
        text += (
            f"**The changes of {hidden} of these steps are too long for a comment** and are left"
            " out here; `etcompile diff -o html` shows all of them.\n"
        )
    return text


def _row(group: Shown) -> str:
    step = group.first
    reasons = "; ".join(_escaped(reason) for reason in group.reasons)
    action = f"{MARKS[step.action]} {step.action}"
    return f"| {group.number} | `{action}` | {_escaped(group.title)} | {reasons} |\n"


def _details(group: Shown, yaml: Yaml) -> str:
    step = group.first
    found = [line for change in step.changes for line in lines(change, yaml)]
    if not found and step.manifest and step.action in ("create", "replace"):
        found = [Line("+", text) for text in redacted(yaml(step.manifest)).splitlines()]
    if not found:
        return ""
    body = "\n".join(_line(line) for line in found)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    title = html.escape(f"{group.number}. {step.action} {group.title}")
    return f"<details><summary>{title}</summary>\n\n{fence}diff\n{body}\n{fence}\n\n</details>\n\n"


def _line(line: Line) -> str:
    if line.sign == "#":
        return f"@@ {line.text} @@"
    if line.sign == "@":
        return f"# … {line.text}"
    return f"{line.sign}{line.text}"


def _escaped(words: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(words.split()))
