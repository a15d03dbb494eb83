"""What came of an operation on a cluster, and why there may be nothing to propose."""

from collections.abc import Sequence

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, RefusedError, codes, diagnose
from etcompile.exitcodes import INPUT
from etcompile.k8s.objects import Object
from etcompile.plan.schedule import ring
from etcompile.plan.step import reference
from etcompile.rollout.machine.messages import Key, Outcome, Proposal
from etcompile.rollout.machine.reasons import ObjectState, has_rule, object_state


class Result(Struct, frozen=True):
    """What came of an operation.

    Args:
        code: The exit code that `etcompile apply` has for it: 0 if all is well.
        outcome: What was done and what is left; None if nothing was begun.
    """

    code: int
    diagnostics: tuple[Diagnostic, ...] = ()
    outcome: Outcome | None = None


class ImpossibleError(RefusedError):
    """There is nothing to propose."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = INPUT) -> None:
        super().__init__(diagnostics, code)


def impossible(code: str, **facts: object) -> ImpossibleError:
    """The error for a request that one diagnostic refuses."""
    return ImpossibleError([diagnose(code, None, **facts)])


def acyclic(proposal: Proposal) -> Proposal:
    """The proposal, whose objects do not wait for each other.

    Raises:
        ImpossibleError: they do.
    """
    if cycle := ring(proposal.plan.steps):
        deadlock = diagnose(codes.DEADLOCK, None, ring=cycle)
        raise ImpossibleError((*proposal.diagnostics, deadlock))
    return proposal


def note(value: Object, seen: dict[Key, ObjectState]) -> None:
    """Notes how far a live object is, if its kind has a rule for that."""
    if has_rule(value["kind"]):
        ref = reference(value)
        seen[ref.api_version, ref.kind, ref.namespace, ref.name] = object_state(value)
