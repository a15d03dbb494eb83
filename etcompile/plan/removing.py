"""What belongs to a job to the plan that removes it: launchers first, and what others need last.

The counterpart of `planning`: nothing is desired here, so what decides is whose an object is, and
whether what it holds can be made again.
"""

from collections.abc import Callable, Iterable

from msgspec import structs

from etcompile.model.protocol import KEY_PAIR
from etcompile.plan import claims
from etcompile.plan.ordering import Draft, ordered
from etcompile.plan.step import Object, Plan, Step, deletion
from etcompile.plan.turns import in_turn


def removal(
    belongings: Iterable[tuple[str, Object]],
    wave: Callable[[Object], int],
    *,
    adopt: bool = False,
    context: str | None = None,
) -> Plan:
    """The plan that removes jobs.

    Args:
        belongings: Live objects, each with the title of the job that it belongs to.
        wave: The wave of an object (`etcompile.emit.wave`).
        adopt: Delete also what another tool looks after.
        context: The cluster's context, if there is one.
    """
    found = list(belongings)
    uids = {value["metadata"].get("uid") for _, value in found}
    drafts, left = [], []
    for job, value in found:
        step = structs.replace(_step(value, uids, adopt=adopt), job=job)
        if step.action == "unmanaged":
            left.append(step)
        else:
            drafts.append(Draft(step, value))
    steps = ordered(drafts, {}, wave) if drafts else []
    return Plan((*in_turn(steps), *left), context=context)


def _step(live: Object, uids: set[str | None], *, adopt: bool) -> Step:
    metadata, kind = live["metadata"], live["kind"]
    step = deletion(live, "its job goes")
    if (tool := claims.tracker(live)) and not adopt:
        reason = f"{tool} looks after it, and would make it again; --adopt deletes it all the same"
        return structs.replace(step, action="conflict", reasons=(reason,), needs="adopt")
    why = ""
    owners = metadata.get("ownerReferences") or ()
    if any(owner.get("uid") not in uids for owner in owners):
        why = f"it goes with its owner {claims.owner(live)}"
    elif annotation := claims.kept_by(live):
        why = f"it says {annotation}"
    elif kind == "PersistentVolumeClaim":
        why = "it holds data"
    elif kind == "Secret" and KEY_PAIR not in (metadata.get("annotations") or {}):
        why = "etcompile has not made it"
    return structs.replace(step, action="unmanaged", reasons=(why,)) if why else step
