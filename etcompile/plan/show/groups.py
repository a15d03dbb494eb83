"""Steps to what a reader looks at: those that are alike together, each with its words.

A thousand new workers are one thing to read. All forms of a plan show the same groups.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.plan.bundles import label, split
from etcompile.plan.step import DESTROYS, Action, FieldChange, ObjectRef, Plan, Step

_LISTED = 5
"""So many words for objects are in one line."""
_FEW = 3
"""So many alike are still shown one by one."""

_DONE: dict[Action, str] = {
    "create": "to create",
    "adopt": "to adopt",
    "update": "to update",
    "replace": "to replace",
    "delete": "to delete",
    "release": "to release",
    "conflict": "in conflict",
    "unmanaged": "left alone",
    "unchanged": "unchanged",
}
_UNTIL = {
    "ready": ("is Ready", "are Ready"),
    "gone": ("is gone", "are gone"),
    "drained": ("has drained", "have drained"),
}
MARKS: dict[Action, str] = {
    "create": "+",
    "adopt": "~",
    "update": "~",
    "replace": "-/+",
    "delete": "-",
    "release": "~",
    "wait": "·",
    "conflict": "!",
    "unmanaged": "?",
    "unchanged": "=",
}
"""A sign for each action."""


class Shown(Struct, frozen=True):
    """Steps that are alike.

    Args:
        steps: They; the first stands for all.
        number: Which of the plan's things to do this is, from 1; None for nothing to do.
    """

    steps: tuple[Step, ...]
    number: int | None = None

    @property
    def first(self) -> Step:
        """The step whose changes are shown."""
        return self.steps[0]

    @property
    def title(self) -> str:
        """The objects, and what a wait is for."""
        name = named(self.steps)
        until = self.first.until
        return f"{name} {_UNTIL[until][len(self.steps) > 1]}" if until else name

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, for all of them."""
        return self.first.reasons


def shown(plan: Plan, *, idle: bool = False) -> list[Shown]:
    """The groups of a plan's steps, in its order.

    Args:
        plan: The plan, whose steps are grouped.
        idle: Those that have nothing to do, instead of the others.
    """
    alike: dict[object, list[Step]] = {}
    for place, step in enumerate(plan.steps):
        if (step.action in ("unchanged", "unmanaged")) is not idle:
            continue
        stem, number = split(step.ref.name)
        key = (place,) if number is None else (stem, _likeness(step))
        alike.setdefault(key, []).append(step)
    groups = [
        group
        for steps in alike.values()
        for group in ([steps] if len(steps) > _FEW else [[step] for step in steps])
    ]
    return [
        Shown(tuple(group), None if idle else number)
        for number, group in enumerate(groups, start=1)
    ]


def named(steps: Iterable[Step]) -> str:
    """Kind and names of steps: `Pod nlp/bert-worker-0 … 99 (100 Pods)`."""
    refs = [step.ref for step in steps]
    return _numbered(refs[0].kind, refs)


def listed(refs: Iterable[ObjectRef]) -> str:
    """Objects in few words, with how many they are: `Pod nlp/bert-worker-0 … 99 (100 Pods)`.

    Args:
        refs: One object at least.
    """
    several = list(refs)
    if len(several) == 1:
        return str(several[0])
    alike: dict[tuple[str, ...], list[ObjectRef]] = {}
    for ref in several:
        stem, number = split(ref.name)
        alone = "" if number is None else stem
        alike.setdefault((ref.group, ref.kind, ref.namespace, alone), []).append(ref)
    words: list[str] = []
    for group in alike.values():
        numbered = split(group[0].name)[1] is not None
        full = str(group[0]).partition(" ")[0]
        words += [_numbered(full, group)] if numbered else map(str, group)
    if len(words) > _LISTED:
        words[_LISTED:] = [f"… ({len(several)} objects)"]
    return ", ".join(words)


def _numbered(kind: str, refs: Sequence[ObjectRef]) -> str:
    """Objects whose names differ in their numbers."""
    where = f"{refs[0].namespace}/" if refs[0].namespace else ""
    return label(kind, [f"{where}{ref.name}" for ref in refs])


def summary(plan: Plan) -> str:
    """The plan in a line: `2 to create, 1 to update; 40 unchanged`."""
    counts = plan.counts()
    acting = [
        f"{count} {_DONE[action]}"
        for action, count in counts.items()
        if action not in ("wait", "unchanged", "unmanaged")
    ]
    rest = [
        f"{counts[action]} {_DONE[action]}"
        for action in ("unchanged", "unmanaged")
        if action in counts
    ]
    words = ", ".join(acting) or "no differences"
    return f"{words}; {', '.join(rest)}" if rest else words


def side(plan: Plan) -> str:
    """What the left side is: `cluster minikube`."""
    return f"{plan.against} {plan.context}" if plan.context else plan.against


def refusals(plan: Plan) -> list[str]:
    """What apply would refuse, in words."""
    needs = {step.needs for step in plan.refused if step.needs}
    words = {
        "replace": "--replace allows objects to be deleted and recreated",
        "replace-data": "--replace-data KIND/NAME replaces an object that holds data",
        "adopt": "--adopt takes objects over from the people and tools that manage them",
        "take-ownership": "--take-ownership MANAGER takes fields over from another manager",
        "room": "a quota must have room for the new Pods",
    }
    return [text for need, text in words.items() if need in needs]


def destroyed(plan: Plan) -> list[Shown]:
    """What the plan deletes, for good or to make it anew, in groups of objects that are alike."""
    return [group for group in shown(plan) if group.first.action in DESTROYS]


def toll(plan: Plan) -> str:
    """How many objects the plan destroys: `1 object will be replaced, 2 will be deleted`."""
    counts = plan.counts()
    words: list[str] = []
    done: dict[Action, str] = {"replace": "replaced", "delete": "deleted"}
    for action, participle in done.items():
        if count := counts.get(action, 0):
            what = "" if words else " object" if count == 1 else " objects"
            words.append(f"{count}{what} will be {participle}")
    return ", ".join(words)


def gist(manifest: Object) -> str:
    """What there is to know of a new object in a line; empty if that is nothing."""
    spec = manifest.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    if manifest["kind"] == "Pod":
        images = dict.fromkeys(
            str(container.get("image")) for container in spec.get("containers") or ()
        )
        return f"image {', '.join(images)}"
    if manifest["kind"] == "Service":
        ports = ", ".join(str(port.get("port")) for port in spec.get("ports") or ())
        return f"ports {ports}" if ports else ""
    if manifest["kind"] == "ConfigMap":
        return f"keys {', '.join(sorted(manifest.get('data') or ()))}"
    return ""


def value(found: Any) -> str:
    """A value in a line, as JSON."""
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def _likeness(step: Step) -> object:
    """What alike steps share, their own numbers apart."""
    ref = step.ref
    changes = tuple(_change(change, ref.name) for change in step.changes)
    after = tuple(dict.fromkeys(re.sub(r"-\d+$", "", name) for name in step.after))
    what = (step.action, step.until, step.needs, step.job, step.reasons)
    return (*what, ref.api_version, ref.kind, ref.namespace, changes, after)


def _change(change: FieldChange, name: str) -> str:
    values = json.dumps([change.before, change.after], sort_keys=True)
    return f"{change.path} {change.how} {change.manager} {values}".replace(name, "*")
