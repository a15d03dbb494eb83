"""A proposal, carried out: what `apply`, `delete` and `restart` do alike."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.excerpts import excerpt, excerpts
from etcompile.exitcodes import CLUSTER, CONFLICT, REPLACEMENT
from etcompile.kubeapi import Cluster
from etcompile.operations.proposal import Proposal, Result
from etcompile.plan.groups import listed
from etcompile.plan.step import FieldChange, Plan, Step
from etcompile.rollout import Choices, Outcome, Refusal, Rollout, StepEvent
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.machine.outcome import after, unbegun
from etcompile.rollout.preflight.permissions import denied, needs
from etcompile.rollout.preflight.writes import refusals
from etcompile.rollout.writer import Writer

_CODES = {
    "conflict": codes.FOREIGN_OBJECT,
    "replace": codes.MUST_BE_REPLACED,
    "invalid": codes.OBJECT_REFUSED,
    "cluster": codes.CLUSTER_REFUSES,
    "namespace": codes.CLUSTER_REFUSES,
}
_HINTS = {
    "replace-data": "save what it holds, then name it: --replace-data {object}",
    "adopt": "--adopt takes it over",
    "replace": "--replace deletes and recreates it; another ID in the annotation etcompile.dev/run"
    " of its job creates new Pods instead",
    "take-ownership": "--take-ownership {manager} takes the field over",
}
_LONGEST = 80
_AT_ONCE = 16
"""Dry runs at a time, to look at a plan."""


def refused(proposal: Proposal) -> Result | None:
    """What stands in the way of a proposal, as far as its plan knows; None if nothing."""
    plan = proposal.whole
    if not plan.refused:
        return None
    if any(refused_step.action == "conflict" for refused_step in plan.refused):
        code = CONFLICT
    else:
        code = (
            CLUSTER
            if any(refused_step.needs == "room" for refused_step in plan.refused)
            else REPLACEMENT
        )
    alike: dict[object, list[Step]] = {}
    for step in plan.refused:
        told = not step.changes and step.needs in (None, "room")
        alike.setdefault(step.reasons if told else step.id, []).append(step)
    return Result(code, tuple(map(_of_steps, alike.values())))


def execute(
    cluster: Cluster,
    proposal: Proposal,
    choices: Choices | None = None,
    *,
    dry_run: bool = False,
    begin: Callable[[Plan], None] = lambda _: None,
    tell: Callable[[StepEvent], None] = lambda _: None,
    end: Callable[[Outcome], None] = lambda _: None,
    during: Callable[[Rollout], AbstractContextManager[object]] = nullcontext,
) -> Result:
    """Does what is proposed, or says why nothing of it is done.

    Refusals come first, all of them, and nothing is written while there is one: those that the
    plan knows, then those that the API server finds in a dry run.

    Args:
        cluster: The cluster that the proposal is for.
        proposal: What is to be done.
        choices: What to wait for, how long, and how many writes at once.
        dry_run: Only ask the API server what it has against it.
        begin: Is told that the plan is about to be done.
        tell: Is told of each change of state of an object, from this thread.
        end: Is told what it came to, also when it ends by an exception.
        during: A context that surrounds each part of it. Its `interrupt()` may be called from any
            thread and from signal handlers, and ends the rollout after the requests under way.
    """
    plan, choices = proposal.whole, choices or Choices()
    if (known := refused(proposal)) is not None:
        return known
    sets = _inventories(cluster, proposal, choices.lease)
    writer = Writer(cluster, proposal.rights, proposal.secrets, sets.id)
    needed = needs(plan, sets.accesses(), waits=choices.wait != "none")
    found = denied(cluster, needed, choices.concurrency) or sets.refusals()
    found = found or refusals(
        cluster, plan, writer, choices.concurrency, dry_run=dry_run, accepted=proposal.accepted
    )
    if found or dry_run:
        ends = (refusal.code for refusal in found if not refusal.passes)
        return Result(min(ends, default=0), (*_diagnostics(found), *warned(cluster)))
    if found := sets.take(choices.concurrency):
        ends = (refusal.code for refusal in found)
        return Result(min(ends), (*_diagnostics(found), *warned(cluster)))
    outcome = Outcome(interrupted=True)
    until = None if choices.timeout is None else time.monotonic() + choices.timeout
    parts = (*proposal.before, proposal.plan)
    try:
        begin(plan)
        for place, part in enumerate(parts):
            if place and proposal.pause:
                time.sleep(proposal.pause)
            if until is not None:
                choices = structs.replace(choices, timeout=max(0.0, until - time.monotonic()))
            rollout = Rollout(
                *(cluster, part, writer, sets, choices, tell),
                *(proposal.seen, proposal.deciding, proposal.kept),
                last=place + 1 == len(parts),
            )
            with during(rollout):
                reached = rollout.run()
            outcome = reached if not place else after(outcome, reached)
            if outcome.code:
                outcome = unbegun(outcome, parts[place + 1 :])
                break
    finally:
        sets.release(reachable=not any(refusal.fatal for refusal in outcome.refusals))
        end(outcome)
    return Result(outcome.code, (*_diagnostics(outcome.refusals), *warned(cluster)), outcome)


def objections(cluster: Cluster, proposal: Proposal) -> tuple[Diagnostic, ...]:
    """What `execute` would refuse beyond what the plan says, whoever carries it out.

    Rights are left out: who looks at a plan need not be who applies it.

    Args:
        cluster: The cluster that the proposal is for; nothing is written.
        proposal: What would be done.
    """
    sets = _inventories(cluster, proposal, Choices().lease)
    found = sets.refusals()
    if not found and not proposal.whole.refused:
        writer = Writer(cluster, proposal.rights, proposal.secrets, sets.id)
        found = refusals(cluster, proposal.whole, writer, _AT_ONCE, accepted=proposal.accepted)
    told = _diagnostics(
        refusal
        for refusal in found
        if refusal.full or refusal.cause not in ("cluster", "namespace")
    )
    return (*told, *_unusable_namespaces(found))


def _unusable_namespaces(refusals: Iterable[Refusal]) -> Iterator[Diagnostic]:
    """A warning for each namespace that is missing, or being deleted."""
    for refusal in refusals:
        if refusal.cause == "namespace":
            facts = {
                "namespace": refusal.ref.name,
                "problem": refusal.clause,
                "advice": refusal.hint,
            }
            yield diagnose(codes.UNUSABLE_NAMESPACE, None, **facts)


def warned(cluster: Cluster) -> Iterator[Diagnostic]:
    """What the API server has warned of, and what it dropped without a word, each once."""
    for text in cluster.warnings:
        yield diagnose(codes.API_SERVER_WARNS, None, text=text)
    for kind, field in cluster.dropped:
        yield diagnose(codes.FIELD_DROPPED, None, kind=kind, field=field)


def _inventories(cluster: Cluster, proposal: Proposal, seconds: float) -> Inventories:
    return Inventories(
        cluster,
        proposal.whole,
        adopt=proposal.rights.adopt,
        job_set=proposal.job_set,
        orphans=proposal.orphans,
        versions=proposal.versions,
        seconds=seconds,
    )


def _of_steps(steps: Sequence[Step]) -> Diagnostic:
    """What speaks against steps of the plan that are refused alike."""
    step = steps[0]
    objects = listed(dict.fromkeys(refused_step.ref for refused_step in steps))
    changes = [change for change in step.changes if change.manager or change.immutable]
    # The remedy is the hint's to say, which knows of more than one.
    problem = "; ".join((*(reason.text for reason in step.why), *map(_values, changes)))
    managers = [change.manager for change in step.changes if change.manager]
    hint = _HINTS.get(step.needs or "", "") if step.action != "conflict" or step.needs else ""
    if step.needs == "adopt" and managers:
        hint = "--adopt --take-ownership {manager} takes it over with its fields"
    elif step.needs == "adopt":
        hint = next((remedy.words for remedy in step.remedies), hint)
    hint = hint.format(
        manager=" --take-ownership ".join(dict.fromkeys(map(str, managers))),
        object=f"{step.ref.kind}/{step.ref.name}",
    )
    if step.needs == "room":
        return diagnose(codes.NO_ROOM_IN_QUOTA, None, object=objects, problem=problem)
    code = codes.FOREIGN_OBJECT if step.action == "conflict" else codes.MUST_BE_REPLACED
    return diagnose(code, None, object=objects, problem=problem, advice=hint)


def _diagnostics(refusals: Iterable[Refusal]) -> tuple[Diagnostic, ...]:
    """What speaks against steps: what it says of several objects alike is said once."""
    alike: dict[object, list[Refusal]] = {}
    for refusal in refusals:
        reasons = tuple(reason.replace(refusal.ref.name, "*") for reason in refusal.reasons)
        alike.setdefault(
            (refusal.cause, refusal.passes, reasons, refusal.changes, refusal.hint), []
        ).append(refusal)
    return tuple(map(_diagnostic, alike.values()))


def _diagnostic(refusals: Sequence[Refusal]) -> Diagnostic:
    """What speaks against steps that are refused alike, found by the API server."""
    refusal = refusals[0]
    refs = dict.fromkeys(other.ref for other in refusals)
    values = [_values(change) for change in refusal.changes if change.before is not None]
    problem = "; ".join((*refusal.reasons, *values))
    if len(refs) > 1:
        problem = problem.replace(refusal.ref.name, "*")
    facts: dict[str, Any] = {"problem": problem, "advice": refusal.hint}
    if refusal.passes:
        return diagnose(codes.NOT_TRIED, None, object=listed(refs), problem=problem)
    if refusal.cause in ("cluster", "namespace"):
        return diagnose(
            codes.CLUSTER_REFUSES, None, **{**facts, "problem": f"{listed(refs)}: {problem}"}
        )
    return diagnose(_CODES[refusal.cause], None, object=listed(refs), **facts)


def _values(change: FieldChange) -> str:
    """A field with both its values: `data.hosts is "a:1", and would be "b:1"`."""
    before, after = (
        json.dumps(value, ensure_ascii=False, sort_keys=True)
        for value in (change.before, change.after)
    )
    if change.how == "added":
        return f"{change.path} would be {excerpt(after, _LONGEST)}"
    if change.how == "removed":
        return f"{change.path} is {excerpt(before, _LONGEST)}, and would be removed"
    before, after = excerpts(before, after, _LONGEST)
    return f"{change.path} is {before}, and would be {after}"
