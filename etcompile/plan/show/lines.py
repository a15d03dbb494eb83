"""The changes of an object as lines that go and come, for all forms that show them so."""

import difflib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from etcompile.plan.step import FieldChange

Yaml = Callable[[Any], str]
"""Writes a JSON value as YAML (`etcompile.emit.to_yaml`)."""
Sign = Literal["-", "+", " ", "@", "#"]
"""What a line is: it goes, it comes, it stays, lines are left out here, or it is a field's name."""

_CONTEXT = 2
_COMPARED = 4000
"""Lines of either text that are compared."""


class Line(Struct, frozen=True):
    """A line of a change.

    Args:
        sign: What it is.
    """

    sign: Sign
    text: str


def lines(change: FieldChange, yaml: Yaml) -> Iterator[Line]:
    """The lines of a change: the field, what it was, and what it becomes."""
    notes = [
        *(["the API refuses this change"] if change.immutable else []),
        *([f"{change.manager} owns it"] if change.manager else []),
    ]
    yield Line("#", change.path + (f"  ({'; '.join(notes)})" if notes else ""))
    before = _texts(change.before, yaml) if change.how != "added" else []
    after = _texts(change.after, yaml) if change.how != "removed" else []
    if before == after:
        yield Line(" ", "another value, which is not shown")
    elif len(before) < 2 and len(after) < 2:
        yield from (Line("-", text) for text in before)
        yield from (Line("+", text) for text in after)
    else:
        yield from _unified(before, after)


def _texts(value: Any, yaml: Yaml) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return value.splitlines()
    return yaml(value).splitlines()


def _unified(before: list[str], after: list[str]) -> Iterator[Line]:
    more = max(len(before), len(after)) - _COMPARED
    before, after = before[:_COMPARED], after[:_COMPARED]
    groups = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(
        _CONTEXT
    )
    for number, group in enumerate(groups):
        if number or group[0][1] or group[0][3]:
            yield Line("@", f"line {group[0][3] + 1}")
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (Line(" ", text) for text in before[i:j])
                continue
            yield from (Line("-", text) for text in before[i:j])
            yield from (Line("+", text) for text in after[k:m])
    if more > 0:
        yield Line("@", f"{more} more lines are not compared here")


def limited(found: Iterator[Line], count: int) -> Iterator[Line]:
    """The first lines, and how many more there are."""
    yield from itertools.islice(found, count)
    if more := sum(1 for _ in found):
        yield Line("@", f"{more} more lines")
