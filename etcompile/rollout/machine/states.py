"""The states that a step of a rollout may be in, and how a rollout is to go.

Every step is in one state of a few, each a value that says all there is to know of it:

    Queued -> Writing -> Done                    an object is made, and nothing needs it
                 |  ^
                 v  |
                Held                             a quota is full: tried again later
    Writing -> Waiting -> Done                   it has to be ready, or has to be gone
    Waiting (gone) -> Writing (create) -> Done   a replacement
    any of them -> Failed

`steps` goes from one to another.
"""

from typing import Literal

from msgspec import Struct

from etcompile.rollout.machine.messages import Phase
from etcompile.rollout.machine.targets import Key

Wait = Literal["ready", "complete", "none"]


class Choices(Struct, frozen=True):
    """How to roll out.

    Args:
        wait: For objects to be ready; for the run to end; or only where the order needs it.
        timeout: Seconds for all of it; None for no limit.
        drain: Seconds for a Pod to drain that left the host list; None for the plan's.
        concurrency: How many writes at once.
        lease: Seconds after which others may change the jobs if this process is killed.
    """

    wait: Wait = "ready"
    timeout: float | None = None
    drain: float | None = None
    concurrency: int = 16
    lease: float = 45.0


class Queued(Struct, frozen=True):
    """Its turn has not come."""


class Writing(Struct, frozen=True):
    """A write of it is under way, or the next one to begin.

    Args:
        phase: Which part is written.
        since: When it was refused for the first time; None if it never was.
        reason: Why it was refused last.
    """

    phase: Phase
    since: float | None = None
    reason: str = ""


class Held(Struct, frozen=True):
    """It is refused for now, and tried again.

    Args:
        phase: Which part is to be written.
        since: When it was refused for the first time.
        reason: Why.
        again: When it is tried again.
    """

    phase: Phase
    since: float
    reason: str
    again: float


class Waiting(Struct):
    """It waits for something to be seen.

    Args:
        what: What it waits for.
        key: The object.
        uid: The one of that name that is meant; None for whichever is there.
        until: When waiting ends; None for never.
        why: What was last seen of the object.
        asked: The object's deletion, which somebody began, was asked for again.
    """

    what: Literal["ready", "gone", "drained"]
    key: Key
    uid: str | None
    until: float | None
    why: str = ""
    asked: bool = False


class Done(Struct, frozen=True):
    """Nothing is left to do."""


class Failed(Struct, frozen=True):
    """It is not going to be done.

    Args:
        reason: Why.
        phase: Which part was not written.
    """

    reason: str
    phase: Phase | None = None


StepState = Queued | Writing | Held | Waiting | Done | Failed
