"""What a rollout hears, and what it has done: the values between deciding and doing.

`machine` takes the events and gives the commands; `executor` carries the commands out and hears
the events from threads that write and watch.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef, Step
from etcompile.rollout.machine.outcome import StepEvent
from etcompile.rollout.machine.reasons import ObjectState
from etcompile.rollout.refusals import RefusedError

Place = tuple[str, str, str]
"""API version, kind and namespace; the latter is empty for kinds that have none."""

Phase = Literal["create", "update", "delete"]
"""Which part of a step is written: a replacement is a deletion and then a creation."""

Effect = Literal["created", "updated", "adopted", "released", "deleted", "deleting"]
"""What a write has done."""


# Events ---------------------------------------------------------------------------------------


class Written(Struct, frozen=True):
    """What a request came to.

    Args:
        status: What was done.
        live: The object as it is now; None if it is gone.
    """

    status: Effect
    live: Object | None


class Wrote(Struct, frozen=True):
    """A write that was carried out."""

    step: Step
    phase: Phase
    written: Written


class NotWritten(Struct, frozen=True):
    """A write that was refused."""

    step: Step
    phase: Phase
    error: ClusterError | RefusedError


class Seen(Struct, frozen=True):
    """How far an object is.

    Args:
        place: Where it is watched.
        observed: How far it is; None if it is gone.
        going: Why it is not gone yet, if it is being deleted; why it went, if it is gone.
        grace: Seconds that it has to end, if it is being deleted.
        half_deleted: Its deletion was begun and never finished (`k8s.pods.is_half_deleted`).
    """

    place: Place
    name: str
    uid: str
    observed: ObjectState | None
    going: str = ""
    grace: int = 0
    half_deleted: bool = False


class Listed(Struct, frozen=True):
    """All that is there, at the beginning of a watch.

    Args:
        place: Where.
        uids: UIDs by name.
    """

    place: Place
    uids: Mapping[str, str]


class Hint(Struct, frozen=True):
    """What a Kubernetes Event says about an object.

    Args:
        namespace: The object's.
        kind: The object's.
        name: The object's.
        text: The Event's message.
        unbound: A claim that is bound when its first Pod is there, so nothing waits for it.
        uid: The object's; empty if the Event does not say.
    """

    namespace: str
    kind: str
    name: str
    text: str
    unbound: bool = False
    uid: str = ""


class Vanished(Struct, frozen=True):
    """An object that a step waits for is not there, as `Find` has found out."""

    step: Step


class Lost(Struct, frozen=True):
    """Something that the rollout cannot do without failed.

    Args:
        ref: What could not be watched or asked for.
        error: Why.
        step: The step that it was for; None if nobody can say any more what happens.
    """

    ref: ObjectRef
    error: ClusterError
    step: Step | None = None


class Interrupted(Struct, frozen=True):
    """Somebody ends the rollout."""


class Tick(Struct, frozen=True):
    """Time has passed."""


Event = Wrote | NotWritten | Seen | Listed | Hint | Vanished | Lost | Interrupted | Tick


# Commands -------------------------------------------------------------------------------------


class Write(Struct, frozen=True):
    """Do a part of a step; its answer is `Wrote` or `NotWritten`."""

    step: Step
    phase: Phase


class Follow(Struct, frozen=True):
    """Tell from now on how far objects of this kind and namespace are.

    Args:
        ref: An object that must be among them.
        step: The step that waits for it; None if the object is known to have our labels.
        labels: The object's labels; None if they are to be asked for.
    """

    ref: ObjectRef
    step: Step | None = None
    labels: Mapping[str, str] | None = None


class FollowEvents(Struct, frozen=True):
    """Tell from now on what Kubernetes Events say about objects of a namespace."""

    namespace: str


class Find(Struct, frozen=True):
    """Look whether an object that no list had is there without our labels; else `Vanished`."""

    step: Step
    uid: str | None


Command = Write | Follow | FollowEvents | Find | StepEvent
"""A `StepEvent` is told to whoever looks on, who gets the moment with it."""
