"""A plan as text for a terminal: numbered things to do, each with the fields it changes."""

import itertools
import re
from collections.abc import Iterator

from etcompile.diagnostics.excerpts import excerpts
from etcompile.plan.show.groups import (
    MARKS,
    Shown,
    destroyed,
    gist,
    refusals,
    shown,
    side,
    summary,
    toll,
)
from etcompile.plan.show.lines import Line, Yaml, limited, lines
from etcompile.plan.step import Plan

_LONGEST = 80
"""Lines of one thing to do: who wants more reads another form."""
_LONGEST_FIELD = 30
"""Lines of one field of it."""
_WIDEST = 400
_SHORT = 110
"""Characters of a field and its two values that still stand in one line."""
_COLOURS = {
    "create": "32",
    "adopt": "33",
    "update": "33",
    "replace": "35",
    "delete": "31",
    "release": "33",
    "wait": "2",
    "conflict": "1;31",
    "unmanaged": "2",
}
_LINES = {"-": "31", "+": "32", "@": "36", "#": "1", " ": ""}
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def text(plan: Plan, yaml: Yaml, *, color: bool) -> Iterator[str]:
    """The plan's lines.

    Args:
        plan: The plan, whole.
        yaml: Writes a JSON value as YAML.
        color: Use ANSI escapes.
    """
    groups = shown(plan)
    job: str | None = ""
    for group in groups:
        if group.first.job != job:
            job = group.first.job
            yield _painted(f"job {job}" if job else "other objects", "1", color=color)
        yield from _group(group, len(str(len(groups))), yaml, color=color)
    if groups:
        yield ""
    for group in shown(plan, idle=True):
        if group.first.action == "unmanaged":
            reason = ", ".join(group.reasons)
            yield _painted(f"left alone: {group.title} ({reason})", "2", color=color)
    yield from _destroyed(plan, color=color)
    yield _painted(f"{side(plan)}: {summary(plan)}", "1", color=color)
    for words in refusals(plan):
        yield f"refused as it is: {words}"


def _destroyed(plan: Plan, *, color: bool) -> Iterator[str]:
    """What is deleted, apart from all else: nobody should have to look for it."""
    groups = destroyed(plan)
    if not groups:
        return
    yield _painted(f"{toll(plan)}:", "1;31", color=color)
    for group in groups:
        reason = ", ".join(group.reasons)
        yield _painted(f"  {MARKS[group.first.action]:>3} {_clean(group.title)}", "31", color=color)
        if reason:
            yield _painted(f"      {_clean(reason)}", "2", color=color)
    yield ""


def _group(group: Shown, width: int, yaml: Yaml, *, color: bool) -> Iterator[str]:
    step = group.first
    mark = _painted(f"{MARKS[step.action]:>3} {step.action:<8}", _COLOURS[step.action], color=color)
    yield f"{group.number:>{width + 2}} {mark} {_clean(group.title)}"
    indent = " " * (width + 16)
    told = list(group.reasons) if step.action != "create" or step.needs else []
    if step.action == "create" and step.manifest:
        told = [words for words in (gist(step.manifest), *told) if words]
    for reason in told:
        yield _painted(f"{indent}{_clean(reason)}", "2", color=color)
    found = (
        line
        for change in step.changes
        for line in limited(iter(_in_a_line(_cut([*lines(change, yaml)]))), _LONGEST_FIELD)
    )
    for line in limited(found, _LONGEST):
        yield _painted(f"{indent}{_line(line)}", _LINES[line.sign], color=color)


def _in_a_line(found: list[Line]) -> list[Line]:
    """A short change in one line: `spec.replicas: 1 → 2`."""
    signs = "".join(line.sign for line in found)
    texts = [line.text for line in found]
    if signs == "#-+" and sum(map(len, texts)) < _SHORT:
        return [Line("#", f"{texts[0]}: {texts[1]} → {texts[2]}")]
    return found


def _cut(found: list[Line]) -> list[Line]:
    """Long lines shortened, those of a line before and after so that both show the difference."""
    runs = [[*run] for _, run in itertools.groupby(found, key=lambda line: line.sign)]
    for gone, come in itertools.pairwise(runs):
        if (gone[0].sign, come[0].sign) == ("-", "+"):
            for number, (old, new) in enumerate(zip(gone, come, strict=False)):
                before, after = excerpts(old.text, new.text, _WIDEST)
                gone[number], come[number] = Line("-", before), Line("+", after)
    return [line for run in runs for line in run]


def _line(line: Line) -> str:
    words = _clean(line.text)
    if len(words) > _WIDEST + 2:
        words = f"{words[:_WIDEST]}… ({len(words) - _WIDEST} more characters)"
    return words if line.sign == "#" else f"  {'…' if line.sign == '@' else line.sign} {words}"


def _clean(words: str) -> str:
    """The words without anything that a terminal would act on."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", words)


def _painted(words: str, style: str, *, color: bool) -> str:
    return f"\x1b[{style}m{words}\x1b[0m" if color and style else words
