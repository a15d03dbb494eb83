"""What the API server itself says would become of an object, and what follows for the plan.

Admission may change what is sent: a plugin that always pulls images, a policy that sets requests
when a Pod is created, a webhook that rewrites images. No simulation knows that, so where a cluster
is at hand a difference counts only if the API server's own dry run shows it (reference/gitops.md
4.3). Pure: `etcompile.rollout.preflight.dryrun` makes the requests, and here the answers are
judged.

Two questions are asked. What would an update make of the live object? And what would the same
manifest become if it were created now? Where that is what is there already, the live object is
what the files declare: a policy for new objects made it so, and changing it back would go on for
ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from etcompile.k8s.fieldpath import KeyedPath, overlap
from etcompile.k8s.managedfields import Ownership
from etcompile.k8s.objects import Object
from etcompile.model.protocol import ROLE_LABEL
from etcompile.plan.comparison import PART_OF, compared, same
from etcompile.plan.places import Raw, changed_at, value_at
from etcompile.plan.step import ObjectRef


class Conflict(Struct, frozen=True):
    """A field that an update would take from another manager.

    Args:
        path: Where it stands.
        manager: Who owns it.
    """

    path: KeyedPath
    manager: str


class Updated(Struct, frozen=True):
    """What an update would come to.

    Args:
        result: The object afterwards; None if the API server refuses the update.
        conflicts: Whose fields it would take; the result is then that of taking them.
        immutable: Why the update is refused, if a field cannot change; empty if it can.
    """

    result: Object | None
    conflicts: tuple[Conflict, ...] = ()
    immutable: tuple[str, ...] = ()


class Server(Protocol):
    """An API server that says what it would do, and does nothing.

    A question that it does not answer, because a quota is full or a webhook knows no dry run, is
    None.
    """

    def updated(self, desired: Object, live: Object) -> Updated | None:
        """What an update would make of a live object."""

    def created(self, desired: Object, likeness: object) -> Object | None:
        """What the object would be if it were created now, under another name.

        Alike objects, the Pods of a role with the same differences, need one answer.
        """


class Doubt(Struct, frozen=True):
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


class Told(Struct, frozen=True):
    """What the API server has said about a doubt.

    Args:
        desired: What is to be sent: as declared, but for what admission makes of new objects.
        places: Where applying that would change the live object.
        result: The live object afterwards, as far as it can be told.
        accepted: The API server accepts the update.
        immutable: Why the object must be replaced, in the API server's words; empty if it need
            not be.
    """

    desired: Object
    places: tuple[Raw, ...]
    result: Object
    accepted: bool
    immutable: tuple[str, ...] = ()


Ask = Callable[[Sequence[Doubt]], Iterable[Told | None]]
"""Asks the API server about doubts; None for those that it says nothing about."""


def told(doubt: Doubt, server: Server) -> Told | None:
    """What the API server makes of a difference.

    Returns:
        What is left of the difference; None if the server does not say.
    """
    desired, live, owned = doubt.desired, doubt.live, doubt.owned
    found = server.updated(member(desired, live, doubt.inventory), live)
    if found is None:
        return None
    places = _changes(live, found)
    if found.result is not None and not places:
        return Told(desired, (), live, accepted=True)
    made = server.created(member(desired, live, doubt.inventory), _likeness(doubt))
    settled = desired if made is None else as_created(desired, live, made, doubt.places)
    if settled is not desired:
        desired = settled
        seeming = compared(member(desired, live, doubt.inventory), live, owned)
        if not seeming.places:
            return Told(desired, (), live, accepted=True)
        found = server.updated(member(desired, live, doubt.inventory), live)
        if found is None:
            return None
        places = _changes(live, found)
    if found.result is None:
        seeming = compared(member(desired, live, doubt.inventory), live, owned)
        return Told(
            desired, seeming.places, seeming.result, accepted=False, immutable=found.immutable
        )
    return Told(desired, places, found.result, accepted=not found.conflicts)


def member(desired: Object, live: Object, inventory: str | None) -> Object:
    """The object with the label of its ApplySet: the given one, or that which it has."""
    labels = live["metadata"].get("labels") or {}
    if not (label := inventory or labels.get(PART_OF)):
        return desired
    metadata = desired["metadata"]
    own = {**(metadata.get("labels") or {}), PART_OF: label}
    return {**desired, "metadata": {**metadata, "labels": own}}


def as_created(desired: Object, live: Object, made: Object, places: Sequence[Raw]) -> Object:
    """The desired object with the live values of fields that it would have if it were new.

    Args:
        desired: The object as it is declared.
        live: The object as the cluster has it.
        made: What the API server would make of the declaration now.
        places: Where the first two differ.

    Returns:
        The object; the desired one itself if there is no such field.
    """
    for place in places:
        is_there = value_at(live, place.path)
        if same(place.path, value_at(made, place.path), is_there):
            desired = changed_at(desired, place.path, is_there)
    return desired


def alike(ref: ObjectRef, job: str | None, labels: Mapping[str, Any]) -> object:
    """What an object has in common with those that admission treats as it: those of its role."""
    if job is None or ROLE_LABEL not in labels:
        return ref
    return job, ref.api_version, ref.kind, ref.namespace, labels[ROLE_LABEL]


def _likeness(doubt: Doubt) -> object:
    labels = doubt.desired["metadata"].get("labels") or {}
    changes = tuple((place.path, repr(place.before), repr(place.after)) for place in doubt.places)
    return alike(doubt.ref, doubt.job, labels), changes


def _changes(live: Object, found: Updated) -> tuple[Raw, ...]:
    """Where the API server would change the live object, and whose fields these are."""
    if found.result is None:
        return ()
    places = compared(found.result, live, None).places
    return tuple(
        Raw(place.path, place.before, place.after, managers)
        for place in places
        for managers in [
            tuple(
                dict.fromkeys(
                    conflict.manager
                    for conflict in found.conflicts
                    if overlap(conflict.path, place.path)
                )
            )
        ]
    )
