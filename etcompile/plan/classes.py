"""One object, desired and live, to the step that it needs.

A table in words: what is declared, what is there, whose it is, and what the API accepts decide
the action; the first rule that speaks wins.
"""

from collections.abc import Iterable

from msgspec import structs

from etcompile.plan import claims, secrecy
from etcompile.plan.comparing import PART_OF, compared
from etcompile.plan.immutable import Change, Verdict, changes
from etcompile.plan.managed import Ownership, ownership
from etcompile.plan.places import ABSENT, Raw, differing, shown
from etcompile.plan.rights import Rights
from etcompile.plan.step import FieldChange, How, Need, Object, ObjectRef, Step, deletion

_UNKNOWN = Ownership(None, (), known=False)


def created(desired: Object, ref: ObjectRef, reason: str = "it does not exist") -> Step:
    """The step for an object that is not there."""
    return Step("create", ref, (reason,), manifest=_manifest(desired))


def matched(
    desired: Object,
    live: Object,
    ref: ObjectRef,
    rights: Rights,
    inventory: str | None,
    inventories: frozenset[str] = frozenset(),
) -> Step:
    """The step for an object that is declared and there.

    Args:
        desired: The object as it is declared.
        live: The object as it is.
        ref: Its reference.
        rights: What the plan may do.
        inventory: The id of the ApplySet that it should be in; None for none.
        inventories: The ids of all that the declarations are of: it may come from another one.
    """
    owned = _UNKNOWN if rights.whole else ownership(live, rights.manager)
    found = compared(desired, live, owned, whole=rights.whole)
    places = found.places
    member = claims.inventory(live)
    if inventory and member != inventory:
        label = ("metadata", "labels", PART_OF)
        places = (*places, Raw(label, ABSENT if member is None else member, inventory))
    metadata = live["metadata"]
    step = Step(
        "unchanged", ref, uid=metadata.get("uid"), resource_version=metadata.get("resourceVersion")
    )
    if not places:
        return step
    # Not the desired object: what it leaves out stays as it is.
    judged = changes(live, found.result) if found.result is not live else []
    step = structs.replace(
        step, changes=_changes(desired, places, judged, rights), manifest=_manifest(desired)
    )
    if rights.whole:
        return _decided(step, judged, rights)
    ours = owned.ours is not None or member in inventories
    if not owned.known:
        ours = ours or _says_ours(live)
    return _foreign(step, live, rights, inventories) or _decided(
        step, judged, rights, adopted=None if ours else claims.makers(live)
    )


def left_over(live: Object, rights: Rights, inventories: Iterable[str]) -> Step:
    """The step for an object that is there and not declared.

    Args:
        live: The object.
        rights: What the plan may do.
        inventories: The ids of the ApplySets that the declarations are of.
    """
    step = deletion(live, "it is no longer declared")
    if rights.whole:
        return step
    why = ""
    if claims.inventory(live) not in set(inventories):
        why = "it is not in the inventory"
    elif claims.is_going(live):
        why = "it is being deleted already"
    elif tool := claims.tracker(live):
        why = f"{tool} looks after it"
    elif owner := claims.owner(live):
        why = f"it goes with its owner {owner}"
    elif annotation := claims.kept_by(live):
        why = f"it says {annotation}"
    elif not rights.prune:
        why = "it is no longer declared; --prune deletes it"
    return structs.replace(step, action="unmanaged", reasons=(why,)) if why else step


def _foreign(step: Step, live: Object, rights: Rights, inventories: frozenset[str]) -> Step | None:
    """The step if somebody else's claim decides it."""
    reasons: list[str] = []
    needs: Need | None = None
    member = claims.inventory(live)
    tool = claims.tracker(live)
    if owner := claims.controller(live):
        return structs.replace(
            step, action="conflict", reasons=(f"{owner} controls it and would undo the change",)
        )
    if tool is None and member and member not in inventories:
        tool = f"the ApplySet {member}"
    if tool and not rights.adopt:
        reasons.append(f"{tool} looks after it; --adopt takes it over")
        needs = "adopt"
    for change in step.changes:
        if change.manager:
            reasons.append(f"{change.manager} owns {change.path}")
            needs = needs or "take-ownership"
    if reasons:
        return structs.replace(
            step, action="conflict", reasons=tuple(dict.fromkeys(reasons)), needs=needs
        )
    if tool:
        return structs.replace(step, action="adopt", reasons=(f"{tool} has looked after it",))
    return None


def _decided(
    step: Step, found: list[Change], rights: Rights, *, adopted: str | None = None
) -> Step:
    """The step by what the API accepts."""
    refused = [one for one in found if one.verdict is Verdict.REFUSED]
    if refused:
        fields = ", ".join(dict.fromkeys(one.field for one in refused))
        allowed = rights.replace or rights.whole
        reason = f"{fields} cannot change on an object that exists"
        return structs.replace(
            step,
            action="replace",
            reasons=(reason if allowed else f"{reason}; --replace deletes it and makes it anew",),
            needs=None if allowed else "replace",
        )
    reasons = [f"{one.field} changes, which restarts the container in place" for one in found]
    if adopted is not None:
        reasons.insert(0, f"it exists and was made by {adopted}")
        return structs.replace(step, action="adopt", reasons=tuple(dict.fromkeys(reasons)))
    return structs.replace(step, action="update", reasons=tuple(dict.fromkeys(reasons)))


def _changes(
    desired: Object, places: tuple[Raw, ...], found: list[Change], rights: Rights
) -> tuple[FieldChange, ...]:
    kind: str = desired["kind"]
    refused = [one.path for one in found if one.verdict is Verdict.REFUSED]
    made = []
    for place in differing(places):
        how: How = (
            "added" if place.before is ABSENT else "removed" if place.after is ABSENT else "changed"
        )
        managers = [name for name in place.managers if not rights.take_ownership & {name, "*"}]
        made.append(
            FieldChange(
                path=shown(place.path),
                how=how,
                before=None if how == "added" else secrecy.masked(kind, place.path, place.before),
                after=None if how == "removed" else secrecy.masked(kind, place.path, place.after),
                manager=", ".join(managers) or None,
                immutable=any(_overlap(place.path, path) for path in refused),
                steps=place.path,
            )
        )
    return tuple(sorted(made, key=lambda one: one.steps))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _manifest(desired: Object) -> Object | None:
    return None if secrecy.has_values(desired) else desired


def _says_ours(live: Object) -> bool:
    labels = live["metadata"].get("labels") or {}
    return bool(labels.get("app.kubernetes.io/managed-by") == "etcompile")
