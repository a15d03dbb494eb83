"""`--target`: a plan limited to named objects, or why that names nothing."""

from collections.abc import Sequence

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.plan.step import Plan
from etcompile.plan.targets import unmatched


def not_found(plan: Plan, targets: Sequence[str]) -> list[Diagnostic]:
    """An error for each target that is no object of a plan."""
    return [
        diagnose(codes.NO_SUCH_TARGET, None, target=target, advice=_nearest(plan, target))
        for target in unmatched(plan, targets)
    ]


def _nearest(plan: Plan, target: str) -> str:
    kind = "/" in target
    names = [f"{step.ref.kind}/{step.ref.name}" if kind else step.ref.name for step in plan.steps]
    near = probably(target, names)
    return f"did you mean {near}?" if near else "etcompile diff lists the objects"
