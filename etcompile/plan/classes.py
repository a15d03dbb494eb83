"""One object, desired and live, to the step that it needs.

What is declared, what exists, whose it is, and what the API server accepts decide the action. The
rules are tried in order, and the first that applies decides.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from etcompile.k8s.managedfields import Ownership, ownership
from etcompile.k8s.objects import Object, is_going
from etcompile.k8s.path import keyed, overlap
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import claims, protection, secrecy
from etcompile.plan.comparison import NOBODY, compared
from etcompile.plan.ignore_differences import as_live
from etcompile.plan.immutable import Change, Verdict, changes
from etcompile.plan.inventory import PART_OF
from etcompile.plan.places import ABSENT, Raw, differing
from etcompile.plan.rights import Rights
from etcompile.plan.step import (
    Action,
    FieldChange,
    How,
    Need,
    ObjectRef,
    Reason,
    Remedy,
    Step,
    deletion,
    reference,
)
from etcompile.plan.targets import is_named

PRUNE = Remedy("prune", "--prune deletes it")
"""What to do about an object that is left because nobody asked for its deletion."""
_REPLACE = Remedy("replace", "--replace deletes and recreates it")


class Difference(Struct, frozen=True):
    """An object that is there and that seems to differ from what is declared.

    Args:
        ref: The object.
        declared: As it is declared.
        desired: What is to be applied: as declared, but for fields that stay as they are.
        live: As it is.
        inventory: The id of the ApplySet that it should be in; None for none.
        places: Where they seem to differ.
        result: The live object after an update, as far as it can be foreseen.
        owned: Who owns the live object's fields; None if that is a declaration, too.
        job: The job that it belongs to, as people call it.
    """

    ref: ObjectRef
    declared: Object
    desired: Object
    live: Object
    inventory: str | None
    places: tuple[Raw, ...]
    result: Object
    owned: Ownership | None
    job: str | None = None


class Answer(Struct, frozen=True):
    """What the API server says about a difference.

    Args:
        desired: What is to be sent: as declared, but for what admission makes of new objects.
        places: Where applying that would change the live object.
        result: The live object afterwards, as far as it can be known.
        accepted: The API server accepts the update.
        immutable: Why the object must be replaced, in the API server's words; empty if it need
            not be.
    """

    desired: Object
    places: tuple[Raw, ...]
    result: Object
    accepted: bool
    immutable: tuple[str, ...] = ()


Ask = Callable[[Sequence[Difference]], Iterable[Answer | None]]
"""Asks the API server about differences; None for those that it says nothing about."""


def created(desired: Object, ref: ObjectRef, reason: str = "it does not exist") -> Step:
    """The step for an object that is not there."""
    return Step("create", ref, (Reason(reason),), manifest=_manifest(desired))


def difference(
    desired: Object,
    live: Object,
    ref: ObjectRef,
    rights: Rights,
    inventory: str | None,
    job: str | None = None,
) -> Difference | None:
    """The difference of a declared object that is there, as far as it shows without a cluster.

    Args:
        desired: The object as it is declared.
        live: The object as the cluster has it.
        ref: What names it in the plan.
        rights: What the plan may do.
        inventory: The id of the ApplySet that it should be in; None for none.
        job: The job that it belongs to, as people call it.

    Returns:
        The difference; None if there is none.
    """
    owned = None if rights.whole else ownership(live, rights.manager)
    declared = desired
    if rights.ignored:
        desired = as_live(desired, live, ref, rights.ignored, owned or NOBODY)
    found = compared(desired, live, owned)
    places = found.places
    now = claims.inventory(live)
    if inventory and now != inventory:
        label = ("metadata", "labels", PART_OF)
        places = (*places, Raw(label, ABSENT if now is None else now, inventory))
    if not places:
        return None
    return Difference(ref, declared, desired, live, inventory, places, found.result, owned, job)


def matched(
    desired: Object,
    live: Object,
    ref: ObjectRef,
    rights: Rights,
    inventory: str | None,
    inventories: frozenset[str] = frozenset(),
    ask: Ask | None = None,
) -> Step:
    """The step for an object that is declared and there.

    Args:
        desired: The object as it is declared.
        live: The object as the cluster has it.
        ref: What names it in the plan.
        rights: What the plan may do.
        inventory: The id of the ApplySet that it should be in; None for none.
        inventories: The ids of all that the declarations are of: it may come from another one.
        ask: Asks the API server whether a difference is one; None without a cluster.
    """
    found = difference(desired, live, ref, rights, inventory)
    if found is None:
        return unchanged(live, ref)
    (answer,) = ask([found]) if ask is not None else (None,)
    return resolved(found, answer, rights, inventories)


def unchanged(live: Object, ref: ObjectRef) -> Step:
    """The step for an object with which there is nothing to do."""
    metadata = live["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return Step("unchanged", ref, uid=uid, resource_version=version)


def resolved(
    found: Difference,
    answer: Answer | None,
    rights: Rights,
    inventories: frozenset[str] = frozenset(),
) -> Step:
    """The step for an object that seems to differ.

    Args:
        found: How it seems to differ.
        answer: What the API server says about that; None if it does not.
        rights: What the plan may do.
        inventories: The ids of all ApplySets that the declarations are of.
    """
    desired, live = found.desired, found.live
    places, result = found.places, found.result
    step = unchanged(live, found.ref)
    if answer is not None:
        desired, places, result = answer.desired, answer.places, answer.result
        if not places:
            return step
    limits = changes(live, result, places)
    if answer is not None and answer.accepted:
        limits = [change for change in limits if change.verdict is not Verdict.REFUSED]
    step = structs.replace(
        step, changes=_changes(desired, places, limits, rights), manifest=_manifest(desired)
    )
    owned = found.owned
    if owned is None:
        return _decided(step, limits, rights)
    ours = owned.ours is not None or (
        claims.inventory(live) in inventories and claims.stranger(live, rights.manager) is None
    )
    if not owned.known:
        # By a label of our own: `app.kubernetes.io/managed-by` may be somebody else's.
        ours = ours or JOB_LABEL in (live["metadata"].get("labels") or {})
    holder = claims.holder(live, inventories) or (
        None if ours else f"{claims.makers(live)} made it"
    )
    if refused := _foreign(step, desired, live, rights, holder):
        return refused
    fields = answer.immutable if answer is not None else ()
    decided = _decided(step, limits, rights, holder, fields)
    if decided.action != "replace":
        return decided
    # A new object is as it is declared, and admission makes of it what it makes of all.
    decided = structs.replace(decided, manifest=_manifest(found.declared))
    return _guarded(decided, desired, live, rights)


def left_over(live: Object, rights: Rights, inventories: Iterable[str]) -> Step:
    """The step for an object that is there and not declared.

    Args:
        live: The object as the cluster has it.
        rights: What the plan may do.
        inventories: The ids of the ApplySets that the declarations are of.
    """
    step = deletion(live, "it is no longer in the files")
    if rights.whole:
        return step
    remedy = None
    if claims.inventory(live) not in set(inventories):
        why = "it is not in the inventory"
    elif is_going(live):
        why = "it is being deleted already"
    elif tool := claims.tracker(live):
        why = f"{tool} manages it"
    elif owner := claims.owner(live):
        why = f"it is deleted with its owner {owner}"
    elif annotation := claims.keep_annotation(live):
        why = f"it has the annotation {annotation}"
    elif (maker := claims.stranger(live, rights.manager)) and not rights.adopt:
        why = f"{maker} made it, with labels of the job"
    else:
        step = protection.spared(step, live, rights.manager)
        if step.action == "unmanaged" or rights.prune:
            return step
        why, remedy = "it is no longer in the files", PRUNE
    return structs.replace(deletion(live, why, remedy), action="unmanaged")


def _foreign(
    step: Step, desired: Object, live: Object, rights: Rights, holder: str | None
) -> Step | None:
    """The step if somebody else's claim refuses it.

    `holder` says whose the object is, in a clause, if it is not ours.
    """
    if owner := claims.controller(live):
        reason = Reason(f"{owner} controls it and would undo the change")
        return structs.replace(step, action="conflict", why=(reason,))
    if other := claims.other_job(desired, live):
        return structs.replace(step, action="conflict", why=(Reason(claims.same_name(other)),))
    why: list[Reason] = []
    needs: Need | None = None
    if holder and not rights.adopt:
        why.append(Reason(holder))
        needs = "adopt"
    for change in step.changes:
        if change.manager:
            why.append(Reason(f"{change.manager} owns {change.path}"))
            needs = needs or "take-ownership"
    if why:
        return structs.replace(step, action="conflict", why=tuple(dict.fromkeys(why)), needs=needs)
    return None


def _guarded(step: Step, desired: Object, live: Object, rights: Rights) -> Step:
    """A replacement, held against what is protected from being destroyed."""
    if protection.prevents_destruction(desired, live):
        return structs.replace(
            step, action="conflict", why=(*step.why, Reason(protection.FORBIDDEN)), needs=None
        )
    lost = protection.lost_with(live, desired, rights.manager)
    if lost is None:
        return step
    # The fields that cannot change, without the option that would allow it.
    immutable = Reason(step.why[-1].text)
    if is_named(reference(live), rights.replace_data):
        return structs.replace(step, why=(immutable, Reason(lost)), needs=None)
    words = f"--replace-data {step.ref.kind}/{step.ref.name} replaces it anyway"
    reason = Reason(lost, Remedy("replace-data", words))
    return structs.replace(step, why=(immutable, reason), needs="replace-data")


def _decided(
    step: Step,
    found: list[Change],
    rights: Rights,
    holder: str | None = None,
    immutable: Sequence[str] = (),
) -> Step:
    """The step by what the API accepts.

    Args:
        step: The step, as far as it is known.
        found: The changes that our table of Kubernetes' rules has something to say about.
        rights: What the plan may do.
        holder: Whose the object is, in a clause, if it is not ours.
        immutable: The fields that the API server says cannot change.
    """
    refused = [change.field for change in found if change.verdict is Verdict.REFUSED] or immutable
    why = [Reason(f"it is taken over: {holder}")] if holder else []
    if refused:
        fields = ", ".join(dict.fromkeys(refused))
        allowed = rights.replace or rights.whole
        reason = f"{fields} cannot be changed on an existing object"
        why.append(Reason(reason, None if allowed else _REPLACE))
        needs: Need | None = None if allowed else "replace"
        return structs.replace(step, action="replace", why=tuple(why), needs=needs)
    why += [
        Reason(f"{change.field} changes, which restarts the container in place") for change in found
    ]
    action: Action = "adopt" if holder else "update"
    return structs.replace(step, action=action, why=tuple(dict.fromkeys(why)))


def _changes(
    desired: Object, places: tuple[Raw, ...], found: list[Change], rights: Rights
) -> tuple[FieldChange, ...]:
    kind: str = desired["kind"]
    refused = [change.path for change in found if change.verdict is Verdict.REFUSED]
    made = []
    for place in differing(places):
        how: How = (
            "added" if place.before is ABSENT else "removed" if place.after is ABSENT else "changed"
        )
        managers = [name for name in place.managers if not rights.take_ownership & {name, "*"}]
        made.append(
            FieldChange(
                path=keyed(place.path),
                how=how,
                before=None if how == "added" else secrecy.masked(kind, place.path, place.before),
                after=None if how == "removed" else secrecy.masked(kind, place.path, place.after),
                manager=", ".join(managers) or None,
                immutable=any(overlap(place.path, path) for path in refused),
                steps=place.path,
            )
        )
    return tuple(sorted(made, key=lambda change: change.steps))


def _manifest(desired: Object) -> Object | None:
    return None if secrecy.has_values(desired) else desired
