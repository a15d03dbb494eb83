"""What is to be done to a cluster, to look at before it is done, and what came of it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.exitcodes import INPUT
from etcompile.k8s.objects import Object
from etcompile.plan.schedule import ring
from etcompile.plan.scope import Rights
from etcompile.plan.step import JobSet, ObjectRef, Plan, reference
from etcompile.rollout.machine.messages import Key, Outcome
from etcompile.rollout.machine.reasons import ObjectState, has_rule, object_state


class Proposal(Struct, frozen=True, kw_only=True):
    """A plan, and what its execution needs to know besides.

    Args:
        plan: The plan: `plan.steps`, in order, each with its `action`, `ref`, `reasons` and
            `changes`; `plan.refused` are those that are refused.
        before: Plans that are done first, one after the other; if one fails, the rest is not done.
        pause: Seconds between two of them.
        secrets: The Secrets with values, which no plan contains.
        deciding: By job, the Pods whose success is that of the run.
        remaining: By job, members of its ApplySet that stay; None for those that the plan leaves
            alone.
        job_set: The set of jobs that is applied; None for single files.
        orphans: The titles of its jobs that are not declared any more.
        accepted: The objects whose planned update the API server has accepted in a dry run.
        versions: By job, what its inventory was before its objects were read: the plan is stale
            if it is something else when the plan is done (`rollout.lease.seen_version`).
    """

    plan: Plan
    rights: Rights = Rights()
    before: tuple[Plan, ...] = ()
    pause: float = 0.0
    secrets: Mapping[ObjectRef, Object] = field(default_factory=dict)
    deciding: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    seen: Mapping[Key, ObjectState] = field(default_factory=dict)
    remaining: Mapping[str, Sequence[ObjectRef]] | None = None
    job_set: JobSet | None = None
    orphans: frozenset[str] = frozenset()
    accepted: frozenset[ObjectRef] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def whole(self) -> Plan:
        """Everything that is to be done, as one plan."""
        steps = (step for part in (*self.before, self.plan) for step in part.steps)
        return structs.replace(self.plan, steps=tuple(steps))


class Result(Struct, frozen=True):
    """What came of an operation.

    Args:
        code: The exit code that `etcompile apply` has for it: 0 if all is well.
        outcome: What was done and what is left; None if nothing was begun.
    """

    code: int
    diagnostics: tuple[Diagnostic, ...] = ()
    outcome: Outcome | None = None


class ImpossibleError(Exception):
    """There is nothing to propose; the result says why."""

    def __init__(self, result: Result) -> None:
        super().__init__("; ".join(diagnostic.message for diagnostic in result.diagnostics))
        self.result = result


def impossible(code: str, **facts: object) -> ImpossibleError:
    """The error for a request that one diagnostic refuses."""
    return ImpossibleError(Result(INPUT, (diagnose(code, None, **facts),)))


def acyclic(proposal: Proposal) -> Proposal:
    """The proposal, whose objects do not wait for each other.

    Raises:
        ImpossibleError: they do.
    """
    if cycle := ring(proposal.plan.steps):
        deadlock = diagnose(codes.DEADLOCK, None, ring=cycle)
        raise ImpossibleError(Result(INPUT, (*proposal.diagnostics, deadlock)))
    return proposal


def note(value: Object, seen: dict[Key, ObjectState]) -> None:
    """Notes how far a live object is, if its kind has a rule for that."""
    if has_rule(value["kind"]):
        ref = reference(value)
        seen[ref.api_version, ref.kind, ref.namespace, ref.name] = object_state(value)
