"""A plan to a rollout and an exit code: what `apply` and `delete` do alike.

Refusals come first, all of them, and nothing is written while there is one: those that the plan
knows, then those that the API server finds in a dry run. Then signals are ours until the end.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from msgspec import Struct, field, structs

from etcompile.cli.progress import Progress
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.excerpts import excerpt, excerpts
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster
from etcompile.plan.rights import Rights
from etcompile.plan.sets import JobSet
from etcompile.plan.show.alike import listed, value
from etcompile.plan.step import FieldChange, ObjectRef, Plan, Step
from etcompile.rollout import Choices, Outcome, Refusal, Rollout
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.outcome import (
    CLUSTER,
    CONFLICT,
    INTERRUPTED,
    REPLACEMENT,
    after,
    unbegun,
)
from etcompile.rollout.permissions import denied, needs
from etcompile.rollout.preflight import refusals
from etcompile.rollout.reasons import Standing
from etcompile.rollout.targets import Key
from etcompile.rollout.writing import Writer

_CODES = {
    "conflict": codes.FOREIGN_OBJECT,
    "replace": codes.MUST_BE_REPLACED,
    "invalid": codes.OBJECT_REFUSED,
    "cluster": codes.CLUSTER_REFUSES,
}
_HINTS = {
    "replace-data": "save what it holds, then name it: --replace-data {object}",
    "adopt": "--adopt takes it over",
    "replace": "--replace deletes and recreates it; --run auto creates new Pods instead",
    "take-ownership": "--take-ownership {manager} takes the field over",
}
_LONGEST = 80


class Facts(Struct, frozen=True):
    """What a rollout has to know besides the plan.

    Args:
        secrets: The Secrets with values.
        deciding: By job, whose success is the run's.
        seen: How far objects are.
        kept: By job, members of its ApplySet that stay; None for those that the plan leaves alone.
        job_set: The set of jobs that is applied; None for single files.
        orphans: The titles of its jobs that are not declared any more.
        accepted: The objects whose planned update the API server has accepted in a dry run.
    """

    secrets: Mapping[ObjectRef, Object] = field(default_factory=dict)
    deciding: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    seen: Mapping[Key, Standing] = field(default_factory=dict)
    kept: Mapping[str, Sequence[ObjectRef]] | None = None
    job_set: JobSet | None = None
    orphans: frozenset[str] = frozenset()
    accepted: frozenset[ObjectRef] = frozenset()


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
    if any(one.action == "conflict" for one in plan.refused):
        code = CONFLICT
    else:
        code = CLUSTER if any(one.needs == "room" for one in plan.refused) else REPLACEMENT
    alike: dict[object, list[Step]] = {}
    for step in plan.refused:
        told = not step.changes and step.needs in (None, "room")
        alike.setdefault(step.reasons if told else step.id, []).append(step)
    return Done(code, tuple(map(_of_steps, alike.values())))


def rolled_out(
    cluster: Cluster,
    plan: Plan,
    rights: Rights,
    choices: Choices,
    facts: Facts,
    shown: Progress,
    *,
    dry_run: bool = False,
    before: Sequence[Plan] = (),
    pause: float = 0.0,
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
        before: Plans that are done first, one after the other: what is left of one stops the rest.
        pause: Seconds between two of them.
    """
    parts = [*before, plan]
    whole = structs.replace(plan, steps=tuple(step for part in parts for step in part.steps))
    sets = Inventories(
        cluster, whole, adopt=rights.adopt, job_set=facts.job_set, orphans=facts.orphans
    )
    writer = Writer(cluster, rights, facts.secrets, sets.id)
    needed = needs(whole, sets.accesses(), waits=choices.wait != "none")
    found = denied(cluster, needed, choices.concurrency) or sets.refusals()
    found = found or refusals(
        cluster, whole, writer, choices.concurrency, dry_run=dry_run, accepted=facts.accepted
    )
    if found or dry_run:
        ends = (one.code for one in found if not one.passes)
        return Done(min(ends, default=0), _all_told(found))
    shown.begin(whole)
    outcome = Outcome(interrupted=True)
    end = None if choices.timeout is None else time.monotonic() + choices.timeout
    try:
        for place, part in enumerate(parts):
            if place and pause:
                time.sleep(pause)
            if end is not None:
                choices = structs.replace(choices, timeout=max(0.0, end - time.monotonic()))
            rollout = Rollout(
                *(cluster, part, writer, sets, choices, shown.tell),
                *(facts.seen, facts.deciding, facts.kept),
            )
            with _signals(rollout):
                one = rollout.run()
            outcome = one if not place else after(outcome, one)
            if outcome.code:
                outcome = unbegun(outcome, parts[place + 1 :])
                break
    finally:
        shown.end(outcome, outcome.code)
    return Done(outcome.code, _all_told(outcome.refusals))


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


def _of_steps(steps: Sequence[Step]) -> Diagnostic:
    """What speaks against steps of the plan that are refused alike."""
    step = steps[0]
    objects = listed(dict.fromkeys(one.ref for one in steps))
    changes = [one for one in step.changes if one.manager or one.immutable]
    # The way out is the hint's to say, which knows of more than one.
    reasons = [reason.partition("; --") for reason in step.reasons]
    problem = "; ".join((*(words for words, _, _ in reasons), *map(_values, changes)))
    managers = [one.manager for one in step.changes if one.manager]
    hint = _HINTS.get(step.needs or "", "") if step.action != "conflict" or step.needs else ""
    if step.needs == "adopt" and managers:
        hint = "--adopt --take-ownership {manager} takes it over with its fields"
    elif step.needs == "adopt":
        hint = next((f"--{way}" for _, _, way in reasons if way), hint)
    hint = hint.format(
        manager=" --take-ownership ".join(dict.fromkeys(map(str, managers))),
        object=f"{step.ref.kind}/{step.ref.name}",
    )
    if step.needs == "room":
        return diagnose(codes.NO_ROOM_IN_QUOTA, None, object=objects, problem=problem)
    code = codes.FOREIGN_OBJECT if step.action == "conflict" else codes.MUST_BE_REPLACED
    return diagnose(code, None, object=objects, problem=problem, advice=hint)


def _all_told(refusals: Iterable[Refusal]) -> tuple[Diagnostic, ...]:
    """What speaks against steps: what it says of several objects alike is said once."""
    alike: dict[object, list[Refusal]] = {}
    for one in refusals:
        reasons = tuple(reason.replace(one.ref.name, "*") for reason in one.reasons)
        alike.setdefault((one.why, one.passes, reasons, one.changes, one.hint), []).append(one)
    return tuple(map(_told, alike.values()))


def _told(refusals: Sequence[Refusal]) -> Diagnostic:
    """What speaks against steps that are refused alike, found by the API server."""
    refusal = refusals[0]
    refs = dict.fromkeys(one.ref for one in refusals)
    values = [_values(one) for one in refusal.changes if one.before is not None]
    problem = "; ".join((*refusal.reasons, *values))
    if len(refs) > 1:
        problem = problem.replace(refusal.ref.name, "*")
    facts: dict[str, Any] = {"problem": problem, "advice": refusal.hint}
    if refusal.passes:
        return diagnose(codes.NOT_TRIED, None, object=listed(refs), problem=problem)
    if refusal.why == "cluster":
        return diagnose(
            codes.CLUSTER_REFUSES, None, **{**facts, "problem": f"{listed(refs)}: {problem}"}
        )
    return diagnose(_CODES[refusal.why], None, object=listed(refs), **facts)


def _values(change: FieldChange) -> str:
    """A field with both its values: `data.hosts is "a:1", and would be "b:1"`."""
    before, after = value(change.before), value(change.after)
    if change.how == "added":
        return f"{change.path} would be {excerpt(after, _LONGEST)}"
    if change.how == "removed":
        return f"{change.path} is {excerpt(before, _LONGEST)}, and would be removed"
    before, after = excerpts(before, after, _LONGEST)
    return f"{change.path} is {before}, and would be {after}"
