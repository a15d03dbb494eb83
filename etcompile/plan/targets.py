"""A plan limited to the objects that somebody named.

What is not named keeps its place in the plan as left alone: so it stays in its inventory, and
whoever reads the plan sees what was not looked after.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile.plan import protection
from etcompile.plan.step import IDLE, ObjectRef, Plan, Step


def targeted(plan: Plan, targets: Sequence[str]) -> Plan:
    """The plan with the steps of the named objects only.

    Args:
        plan: The plan.
        targets: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME` of each object.
    """
    if not targets:
        return plan
    chosen = [step for step in plan.steps if protection.is_named(step.ref, targets)]
    ids = {step.id for step in chosen}
    acting = [
        structs.replace(step, after=tuple(other for other in step.after if other in ids))
        for step in chosen
        if step.action not in IDLE
    ]
    idle = [step for step in chosen if step.action in IDLE]
    left = {
        step.ref: _left(step) for step in plan.steps if step.uid is not None and step.id not in ids
    }
    for step in chosen:
        left.pop(step.ref, None)
    return structs.replace(plan, steps=(*acting, *idle, *left.values()))


def unmatched(plan: Plan, targets: Sequence[str]) -> list[str]:
    """The targets that name no object of the plan."""
    refs: list[ObjectRef] = [step.ref for step in plan.steps]
    return [name for name in targets if not any(protection.is_named(ref, [name]) for ref in refs)]


def _left(step: Step) -> Step:
    """The step of an object that exists and is not named."""
    if step.action in IDLE:
        return step
    return structs.replace(
        step,
        action="unmanaged",
        reasons=("it is not among the targets",),
        changes=(),
        after=(),
        needs=None,
        until=None,
        manifest=None,
    )
