"""Carry out a proposal, or say why nothing is done, for all commands that write."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.message_text import excerpt, excerpts
from etcompile.exitcodes import CLUSTER, CONFLICT, REPLACEMENT
from etcompile.kubeapi import Cluster
from etcompile.plan.groups import listed
from etcompile.plan.step import FieldChange, Plan
from etcompile.rollout.dryrun import denied, refusals
from etcompile.rollout.executor import Rollout
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.machine.messages import Choices, Outcome, Proposal, StepEvent
from etcompile.rollout.refusals import Cause, Refusal
from etcompile.rollout.writer import Writer

_CODES: dict[Cause, str] = {
    "conflict": codes.FOREIGN_OBJECT,
    "replace": codes.MUST_BE_REPLACED,
    "invalid": codes.OBJECT_REFUSED,
    "room": codes.NO_ROOM_IN_QUOTA,
}
_ANOTHER_RUN = "another ID in the annotation etcompile.dev/run of its job creates new Pods instead"
_LONGEST = 80
_AT_ONCE = 16
"""Dry runs at a time, to look at a plan."""


class Result(Struct, frozen=True):
    """The result of an operation.

    Args:
        code: The exit code that `etcompile apply` has for it: 0 if all is well.
        outcome: What was done and what is left; None if nothing was begun.
    """

    code: int
    diagnostics: tuple[Diagnostic, ...] = ()
    outcome: Outcome | None = None


def refused(proposal: Proposal) -> Result | None:
    steps = proposal.full_plan.refused
    if not steps:
        return None
    if any(step.action == "conflict" for step in steps):
        code = CONFLICT
    else:
        code = CLUSTER if any(step.needs == "room" for step in steps) else REPLACEMENT
    known = []
    for step in steps:
        changes = [change for change in step.changes if change.manager or change.immutable]
        reasons = (*(reason.text for reason in step.why), *map(both_values, changes))
        hints = [remedy.words for remedy in step.remedies]
        hint = "; ".join((*hints, _ANOTHER_RUN) if step.needs == "replace" else hints)
        cause: Cause = "room" if step.needs == "room" else "replace"
        if step.action == "conflict":
            cause = "conflict"
        known.append(Refusal(step.ref, cause, reasons, hint))
    return Result(code, tuple(_diagnostics(known)))


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
    """Do what is proposed, or say why nothing of it is done.

    Refusals come first, all of them, and nothing is written while there is one: those that the
    plan knows, then those that the API server finds in a dry run.

    Args:
        choices: What to wait for, how long, and how many writes at once.
        dry_run: Only ask the API server what it has against it.
        begin: Called when the plan is about to be done.
        tell: Called with each change of state of an object, from this thread.
        end: Called with the outcome, also when it ends by an exception.
        during: A context that surrounds each part of it. Its `interrupt()` may be called from any
            thread and from signal handlers, and ends the rollout after the requests under way.
    """
    plan, choices = proposal.full_plan, choices or Choices()
    if (known := refused(proposal)) is not None:
        return known
    sets = Inventories(cluster, proposal)
    writer = Writer(cluster, proposal, sets.id)
    with ThreadPoolExecutor(1) as pool:  # rights take as long as dry runs
        waits = choices.wait != "none"
        rights = pool.submit(denied, cluster, plan, choices.concurrency, waits=waits)
        others = sets.refusals() or refusals(
            cluster, proposal, writer, choices.concurrency, dry_run=dry_run
        )
    against = [*rights.result(), *others]
    if not against and not dry_run:
        against = sets.take(choices.concurrency)
    if against or dry_run:
        ends = (refusal.code for refusal in against)
        return Result(min(ends, default=0), (*_diagnostics(against), *warned(cluster)))
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
            rollout = Rollout(cluster, proposal, part, writer, sets, choices, tell)
            with during(rollout):
                reached = rollout.run()
            outcome = reached.after(outcome) if place else reached
            if outcome.code:
                outcome = outcome.without(parts[place + 1 :])
                break
    finally:
        left = sets.release(reachable=not any(refusal.fatal for refusal in outcome.refusals))
        outcome = structs.replace(
            outcome, refusals=(*outcome.refusals, *left), changed=outcome.changed or bool(left)
        )
        end(outcome)
    return Result(outcome.code, (*_diagnostics(outcome.refusals), *warned(cluster)), outcome)


def objections(cluster: Cluster, proposal: Proposal) -> tuple[Diagnostic, ...]:
    """Return what `execute` would refuse beyond what the plan says.

    Rights are left out: another user may apply the plan.
    """
    sets = Inventories(cluster, proposal)
    against = sets.refusals()
    if not against and not proposal.full_plan.refused:
        against = refusals(cluster, proposal, Writer(cluster, proposal, sets.id), _AT_ONCE)
    warnings = (
        diagnose(
            codes.UNUSABLE_NAMESPACE,
            None,
            namespace=refusal.ref.name,
            problem=refusal.clause,
            advice=refusal.hint,
        )
        for refusal in against
        if refusal.cause == "namespace"
    )
    ours = (refusal for refusal in against if refusal.cause not in ("rights", "namespace"))
    return (*_diagnostics(ours), *warnings)


def warned(cluster: Cluster) -> Iterator[Diagnostic]:
    for text in cluster.warnings:
        yield diagnose(codes.API_SERVER_WARNS, None, text=text)
    for kind, field in cluster.dropped:
        yield diagnose(codes.FIELD_DROPPED, None, kind=kind, field=field)


def _diagnostics(refusals: Iterable[Refusal]) -> Iterator[Diagnostic]:
    groups: dict[object, list[Refusal]] = {}
    for refusal in refusals:
        reasons = tuple(reason.replace(refusal.ref.name, "*") for reason in refusal.reasons)
        groups.setdefault((refusal.cause, reasons, refusal.hint), []).append(refusal)
    for group in groups.values():
        refusal, refs = group[0], dict.fromkeys(other.ref for other in group)
        problem = "; ".join(refusal.reasons)
        if len(refs) > 1:
            problem = problem.replace(refusal.ref.name, "*")
        objects = listed(refs)
        if refusal.cause not in _CODES:
            words = f"{objects}: {problem}"
            yield diagnose(codes.CLUSTER_REFUSES, None, problem=words, advice=refusal.hint)
        else:
            facts = {"object": objects, "problem": problem, "advice": refusal.hint}
            yield diagnose(_CODES[refusal.cause], None, **facts)


def both_values(change: FieldChange) -> str:
    """Return a field with both its values: `data.hosts is "a:1", and would be "b:1"`."""
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
