"""What a rollout tells while it runs, and what it comes to: values for whoever shows them."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, structs

from etcompile.exitcodes import INTERRUPTED, NOT_READY
from etcompile.plan.step import IDLE, ObjectRef, Plan, Step
from etcompile.rollout.refusals import Refusal

Status = Literal[
    "created",
    "updated",
    "adopted",
    "released",
    "deleting",
    "deleted",
    "waiting",
    "running",
    "ready",
    "succeeded",
    "held",
    "kept",
    "failed",
    "begun",
    "over",
]


class StepEvent(Struct, frozen=True):
    """A change of state of an object.

    Args:
        ref: The object.
        action: The step's.
        status: What it is now.
        reason: Why, or what it waits for.
        job: The job it belongs to.
        moment: When, in seconds since the epoch.
    """

    ref: ObjectRef
    action: str
    status: Status
    reason: str = ""
    job: str | None = None
    moment: float = 0.0


class Unready(Struct, frozen=True):
    """An object that is there but not as it should be.

    Args:
        ref: The object.
        reason: Why, as far as anybody knows.
        failed: It will not get there by itself.
        job: The job it belongs to.
        over: Its run has failed; only a new one can succeed.
    """

    ref: ObjectRef
    reason: str
    failed: bool
    job: str | None = None
    over: bool = False


class Outcome(Struct, frozen=True):
    """What a rollout came to.

    Args:
        done: The steps that wrote something, and are done.
        deleted: Steps that were to replace an object, have deleted it, and have made no new one.
        left: The steps that were not done, each with the reason.
        unready: Objects that are not ready, and why.
        refusals: What could not be done.
        interrupted: Somebody stopped it.
        timed_out: The time given for all of it is over.
    """

    done: tuple[Step, ...] = ()
    deleted: tuple[Step, ...] = ()
    left: tuple[tuple[Step, str], ...] = ()
    unready: tuple[Unready, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    interrupted: bool = False
    timed_out: bool = False

    @property
    def code(self) -> int:
        """The exit code."""
        if self.interrupted:
            return INTERRUPTED
        if self.refusals:
            return min(refusal.code for refusal in self.refusals)
        return NOT_READY if self.unready or self.left or self.timed_out else 0


def after(first: Outcome, second: Outcome) -> Outcome:
    """What two plans came to of which the second was done when the first was."""
    return structs.replace(second, done=(*first.done, *second.done))


def unbegun(outcome: Outcome, plans: Iterable[Plan]) -> Outcome:
    """What a plan came to, without which others were not begun."""
    words = "not started, because an earlier step was not done"
    left = [(step, words) for plan in plans for step in plan.steps if step.action not in IDLE]
    return structs.replace(outcome, left=(*outcome.left, *left))
