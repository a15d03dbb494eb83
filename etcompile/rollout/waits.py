"""What steps wait to see: that an object is ready, has drained, or is gone.

Kept apart from the loop, which asks for the waits of an object it has heard of and for those whose
time is over; both must be quick with thousands of Pods.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from etcompile.plan.step import Step
from etcompile.rollout.targets import Key


class Waiting(Struct):
    """A step that waits for something to be seen.

    Args:
        step: The step.
        what: What it waits for.
        key: The object.
        uid: The one of that name that is meant; None for whichever is there.
        until: When waiting ends, in seconds of the monotonic clock; None for never.
        why: What was last seen of the object.
    """

    step: Step
    what: Literal["ready", "gone", "drained"]
    key: Key
    uid: str | None
    until: float | None
    why: str = ""


class Waits:
    """The steps that wait, by step and by object."""

    def __init__(self) -> None:
        self._by_step: dict[str, Waiting] = {}
        self._by_object: dict[Key, dict[str, Waiting]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return bool(self._by_step)

    def add(self, one: Waiting) -> None:
        """Keeps a wait; a step has one at most."""
        self._by_step[one.step.id] = one
        self._by_object[one.key][one.step.id] = one

    def end(self, step: Step) -> None:
        """Forgets what a step waits for, if anything."""
        if (one := self._by_step.pop(step.id, None)) is not None:
            del self._by_object[one.key][step.id]

    def of(self, step: Step) -> Waiting | None:
        """What a step waits for."""
        return self._by_step.get(step.id)

    def on(self, key: Key) -> Sequence[Waiting]:
        """Who waits for an object."""
        return [*self._by_object.get(key, {}).values()]

    def in_place(self, place: tuple[str, str, str]) -> Sequence[Waiting]:
        """Who waits for any object of a version, kind and namespace."""
        return [one for one in self._by_step.values() if one.key[:3] == place]

    def over(self, now: float) -> Sequence[Waiting]:
        """Whose time is over."""
        return [one for one in self._by_step.values() if one.until is not None and now >= one.until]
