"""A plan to a rollout and an exit code: what `apply` and `delete` do alike.

Refusals come first, all of them, and nothing is written while there is one: those that the plan
knows, then those that the API server finds in a dry run. Then signals are ours until the end.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from msgspec import Struct, field

from etcompile.cli.progress import Progress
from etcompile.cluster import Cluster
from etcompile.cluster.rollout import Choices, Outcome, Refusal, Rollout
from etcompile.cluster.rollout.inventory import Inventories
from etcompile.cluster.rollout.outcome import CONFLICT, INTERRUPTED, REPLACEMENT
from etcompile.cluster.rollout.preflight import refusals
from etcompile.cluster.rollout.reasons import Standing
from etcompile.cluster.rollout.targets import Key
from etcompile.cluster.rollout.writing import Writer
from etcompile.diagnostics import Diagnostic, diagnose
from etcompile.plan.rights import Rights
from etcompile.plan.show.alike import value
from etcompile.plan.step import FieldChange, Object, ObjectRef, Plan, Step

_CODES = {"conflict": "ET8006", "replace": "ET8007", "invalid": "ET8008", "cluster": "ET8004"}
_HINTS = {
    "adopt": "--adopt takes it over",
    "replace": "--replace deletes it and makes it anew; --run auto makes new Pods instead",
    "take-ownership": "--take-ownership {manager} takes the field over",
}
_LONGEST = 80


class Facts(Struct, frozen=True):
    """What a rollout has to know besides the plan.

    Args:
        secrets: The Secrets with values.
        deciding: By job, whose success is the run's.
        seen: How far objects are.
        kept: By job, members of its set that stay; None for those that the plan leaves alone.
    """

    secrets: Mapping[ObjectRef, Object] = field(default_factory=dict)
    deciding: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    seen: Mapping[Key, Standing] = field(default_factory=dict)
    kept: Mapping[str, Sequence[ObjectRef]] | None = None


class Done(Struct, frozen=True):
    """What a command ends with.

    Args:
        code: The exit code.
        diagnostics: What is wrong.
    """

    code: int
    diagnostics: tuple[Diagnostic, ...] = ()


def refused_steps(plan: Plan) -> Done | None:
    """What the plan itself refuses; None if nothing."""
    if not plan.refused:
        return None
    code = CONFLICT if any(one.action == "conflict" for one in plan.refused) else REPLACEMENT
    return Done(code, tuple(_of_step(step) for step in plan.refused))


def rolled_out(
    cluster: Cluster,
    plan: Plan,
    rights: Rights,
    choices: Choices,
    facts: Facts,
    shown: Progress,
    *,
    dry_run: bool = False,
    removes: bool = False,
) -> Done:
    """Does a plan that is not refused.

    Args:
        cluster: The cluster.
        plan: The plan.
        rights: What may be done.
        choices: How to do it.
        facts: What else there is to know.
        shown: Shows it.
        dry_run: Only ask the API server what it has against it.
        removes: Delete the inventories, too.
    """
    sets = Inventories(cluster, plan, adopt=rights.adopt, removes=removes)
    writer = Writer(cluster, rights, facts.secrets, sets.id)
    found = sets.refusals()
    found = found or refusals(cluster, plan, writer, choices.concurrency, every=dry_run)
    if found or dry_run:
        return Done(min((one.code for one in found), default=0), tuple(map(_told, found)))
    shown.begin(plan)
    rollout = Rollout(
        cluster, plan, writer, sets, choices, shown.tell, facts.seen, facts.deciding, facts.kept
    )
    outcome = Outcome(interrupted=True)
    try:
        with _signals(rollout):
            outcome = rollout.run()
    finally:
        shown.end(outcome, outcome.code)
    return Done(outcome.code, tuple(map(_told, outcome.refusals)))


@contextmanager
def _signals(rollout: Rollout) -> Iterator[None]:
    """SIGINT and SIGTERM end the rollout in order; a second one ends the process."""
    heard: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if heard:
            sys.stderr.write("\x1b[?25h" if sys.stderr.isatty() else "")  # the table hid the cursor
            os._exit(INTERRUPTED)
        heard.append(number)
        rollout.interrupt()

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _of_step(step: Step) -> Diagnostic:
    """What speaks against a step of the plan."""
    changes = [one for one in step.changes if one.manager or one.immutable]
    problem = "; ".join((*step.reasons, *map(_values, changes)))
    managers = [one.manager for one in step.changes if one.manager]
    hint = _HINTS.get(step.needs or "", "") if step.action != "conflict" or step.needs else ""
    hint = hint.format(manager=" --take-ownership ".join(dict.fromkeys(map(str, managers))))
    code = "ET8006" if step.action == "conflict" else "ET8007"
    return diagnose(code, None, object=step.ref, problem=problem, advice=hint)


def _told(refusal: Refusal) -> Diagnostic:
    """What speaks against a step, found by the API server."""
    values = [_values(one) for one in refusal.changes if one.before is not None]
    problem = "; ".join((*refusal.reasons, *values))
    facts: dict[str, Any] = {"problem": problem, "advice": refusal.hint}
    if refusal.why == "cluster":
        return diagnose("ET8004", None, **{**facts, "problem": f"{refusal.ref}: {problem}"})
    return diagnose(_CODES[refusal.why], None, object=refusal.ref, **facts)


def _values(change: FieldChange) -> str:
    """A field with both its values: `data.hosts is "a:1", and would be "b:1"`."""
    before, after = value(change.before, _LONGEST), value(change.after, _LONGEST)
    if change.how == "added":
        return f"{change.path} would be {after}"
    if change.how == "removed":
        return f"{change.path} is {before}, and would go"
    return f"{change.path} is {before}, and would be {after}"
