"""Group the steps that a reader sees as one, and write the lines of a change.

A thousand new workers are one thing to read. All forms of a plan (`etcompile.plan.presentation`)
show the same groups and the same lines.
"""

import difflib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.k8s.path import mapping_at
from etcompile.plan.needs import bundles_of, label, split
from etcompile.plan.step import DESTROYS, IDLE, Action, FieldChange, ObjectRef, Plan, Step

_LISTED = 5
"""So many words for objects are in one line."""
_CONTEXT = 2
_COMPARED = 4000
"""Lines of either text that are compared."""

_UNTIL = {
    "ready": ("is Ready", "are Ready"),
    "gone": ("is gone", "are gone"),
    "drained": ("has drained", "have drained"),
}


class Style(Struct, frozen=True):
    """How steps of an action are shown: its sign, its words in a summary, its terminal colour."""

    mark: str
    words: str
    color: str


STYLES: dict[Action, Style] = {
    "create": Style("+", "to create", "32"),
    "adopt": Style("~", "to adopt", "33"),
    "update": Style("~", "to update", "33"),
    "replace": Style("-/+", "to replace", "35"),
    "delete": Style("-", "to delete", "31"),
    "release": Style("~", "to release", "33"),
    "wait": Style("·", "to wait", "2"),
    "conflict": Style("!", "in conflict", "1;31"),
    "unmanaged": Style("?", "left alone", "2"),
    "unchanged": Style("=", "unchanged", "2"),
}


class Shown(Struct, frozen=True):
    """Steps of the same shape; the first stands for all.

    Args:
        number: Which of the plan's things to do this is, from 1; None for nothing to do.
    """

    steps: tuple[Step, ...]
    number: int | None = None

    @property
    def first(self) -> Step:
        return self.steps[0]

    @property
    def title(self) -> str:
        name = _numbered(self.first.ref.kind, [step.ref for step in self.steps])
        until = self.first.until
        return f"{name} {_UNTIL[until][len(self.steps) > 1]}" if until else name


def shown(plan: Plan, *, idle: bool = False) -> list[Shown]:
    by_shape: dict[object, list[Step]] = {}
    for place, step in enumerate(plan.steps):
        if (step.action in IDLE) is not idle:
            continue
        ref = step.ref
        stem, number = split(ref.name)
        shape: tuple[object, ...] = (place,)
        if number is not None:  # all but their own numbers
            changes = tuple(
                json.dumps(
                    [each.path, each.how, each.manager, each.before, each.after], sort_keys=True
                ).replace(ref.name, "*")
                for each in step.changes
            )
            after = tuple(dict.fromkeys(re.sub(r"-\d+$", "", name) for name in step.after))
            shape = (stem, step.action, step.until, step.needs, step.job, step.reasons)
            shape = (*shape, ref.api_version, ref.kind, ref.namespace, changes, after)
        by_shape.setdefault(shape, []).append(step)
    return [
        Shown(tuple(group), None if idle else number)
        for number, group in enumerate(bundles_of(by_shape.values()), start=1)
    ]


def family(ref: ObjectRef) -> tuple[str, str, str, str]:
    """Return what the objects have in common whose names differ in their last number."""
    return ref.group, ref.kind, ref.namespace, split(ref.name)[0]


def listed(refs: Iterable[ObjectRef]) -> str:
    """Name objects in few words, with their count: `Pod nlp/bert-worker-0 … 99 (100 Pods)`."""
    several = list(refs)
    if len(several) == 1:
        return str(several[0])
    groups: dict[tuple[str, ...], list[ObjectRef]] = {}
    for ref in several:
        *kind, stem = family(ref)
        alone = "" if split(ref.name)[1] is None else stem
        groups.setdefault((*kind, alone), []).append(ref)
    words: list[str] = []
    for group in groups.values():
        numbered = split(group[0].name)[1] is not None
        full = str(group[0]).partition(" ")[0]
        words += [_numbered(full, group)] if numbered else map(str, group)
    if len(words) > _LISTED:
        words[_LISTED:] = [f"… ({len(several)} objects)"]
    return ", ".join(words)


def _numbered(kind: str, refs: Sequence[ObjectRef]) -> str:
    where = f"{refs[0].namespace}/" if refs[0].namespace else ""
    return label(kind, [f"{where}{ref.name}" for ref in refs])


# The plan as a whole ------------------------------------------------------------------------------


def summary(plan: Plan) -> str:
    counts = {
        action: f"{count} {STYLES[action].words}"
        for action, count in plan.counts().items()
        if action != "wait"
    }
    acting = [words for action, words in counts.items() if action not in IDLE]
    rest = [counts[action] for action in ("unchanged", "unmanaged") if action in counts]
    words = ", ".join(acting) or "no differences"
    return f"{words}; {', '.join(rest)}" if rest else words


def side(plan: Plan) -> str:
    return f"{plan.against} {plan.context}" if plan.context else plan.against


def destroyed(plan: Plan) -> list[Shown]:
    return [group for group in shown(plan) if group.first.action in DESTROYS]


def toll(plan: Plan) -> str:
    counts = plan.counts()
    words: list[str] = []
    done: dict[Action, str] = {"replace": "replaced", "delete": "deleted"}
    for action, participle in done.items():
        if count := counts.get(action, 0):
            what = "" if words else " object" if count == 1 else " objects"
            words.append(f"{count}{what} will be {participle}")
    return ", ".join(words)


def gist(manifest: Object) -> str:
    if manifest["kind"] != "Pod":
        return ""
    containers = mapping_at(manifest, ("spec",)).get("containers") or ()
    return f"image {', '.join(dict.fromkeys(str(value.get('image')) for value in containers))}"


# The lines of a change ----------------------------------------------------------------------------

Yaml = Callable[[Any], str]
"""Writes a JSON value as YAML (`etcompile.emit.to_yaml`)."""


class Line(Struct, frozen=True):
    """A line of a change.

    Args:
        sign: What it is: `-` removed, `+` added, ` ` unchanged, `@` a mark of lines that are left
            out, `#` the field's name.
    """

    sign: str
    text: str


def lines(change: FieldChange, yaml: Yaml) -> Iterator[Line]:
    notes = [
        *(["the API refuses this change"] if change.immutable else []),
        *([f"{change.manager} owns it"] if change.manager else []),
    ]
    yield Line("#", change.path + (f"  ({'; '.join(notes)})" if notes else ""))
    before, after = (
        []
        if change.how == how
        else value.splitlines()
        if isinstance(value, str) and "\n" in value
        else yaml(value).splitlines()
        for value, how in ((change.before, "added"), (change.after, "removed"))
    )
    if before == after:
        yield Line(" ", "another value, which is not shown")
        return
    if len(before) < 2 and len(after) < 2:
        yield from (Line("-", text) for text in before)
        yield from (Line("+", text) for text in after)
        return
    more = max(len(before), len(after)) - _COMPARED
    diff = difflib.unified_diff(before[:_COMPARED], after[:_COMPARED], n=_CONTEXT, lineterm="")
    for text in itertools.islice(diff, 2, None):
        if text.startswith("@@"):
            start = text.rpartition("+")[2].partition(" ")[0].partition(",")[0]
            if int(start) > 1:
                yield Line("@", f"line {start}")
        else:
            yield Line(text[0], text[1:])
    if more > 0:
        yield Line("@", f"{more} more lines are not compared here")


def limited(lines: Iterator[Line], count: int) -> Iterator[Line]:
    yield from itertools.islice(lines, count)
    if more := sum(1 for _ in lines):
        yield Line("@", f"{more} more lines")
