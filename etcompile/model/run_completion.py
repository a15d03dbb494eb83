"""Decide when a run has succeeded and which replica holds a rank.

`status` and the watcher share these rules, so that they cannot come to different results: `status`
applies them to the Pods it sees, the watcher to what it has decided and recorded.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from etcompile.model.job import Success

Outcome = Literal["done", "out", "open"]
"""A replica has succeeded; has failed for good; may still do either."""
End = Literal["succeeded", "hopeless", "open"]
"""A run has succeeded; cannot succeed any more; may still do either."""


class Decider(Struct, frozen=True):
    """A replica that decides about the run.

    Args:
        first: It is the first of its role, or the only one.
    """

    name: str
    first: bool
    outcome: Outcome


class Completion(Struct, frozen=True):
    """The end of a run, and the replicas that decided it."""

    end: End
    why: str = ""
    names: tuple[str, ...] = ()


def completion(success: Success, deciders: Sequence[Decider]) -> Completion:
    """Decide the end of a run (reference/training-operator.md 7 and 32)."""
    done = [decider for decider in deciders if decider.outcome == "done"]
    out = [decider for decider in deciders if decider.outcome == "out"]
    first_done = [decider for decider in done if decider.first]
    first_out = [decider for decider in out if decider.first]
    total, least = len(deciders), success.least
    by_first = success.needs == "first"
    why = ""
    if done and (success.needs == "any" or (by_first and first_done)):
        why = f"{(first_done or done)[0].name} succeeded"
    elif done and len(done) == total:
        why = f"{named([decider.name for decider in (*first_done, *done)])} succeeded"
    elif done and least is not None and len(done) + len(out) == total and len(done) >= least:
        why = f"{len(done)} of {total} replicas succeeded"
    if why:
        deciding = first_done if by_first and first_done else done
        return Completion("succeeded", why, tuple(decider.name for decider in deciding))
    if success.needs == "any":
        hopeless = bool(deciders) and len(out) == total
    elif by_first:
        hopeless = bool(first_out)
    else:
        hopeless = bool(out) if least is None else total - len(out) < least
    if not hopeless:
        return Completion("open")
    return Completion("hopeless", names=tuple(d.name for d in (first_out if by_first else out)))


def named(names: Sequence[str]) -> str:
    """List names of replicas for a sentence, each once: one, two, or one and how many more."""
    names = [*dict.fromkeys(names)]
    if len(names) > 2:
        return f"{names[0]} and {len(names) - 1} more"
    return " and ".join(names)


class Ranked(Struct, frozen=True):
    """A Pod that has a rank.

    Args:
        created: In seconds since 1970.
        lives: One of its containers runs or will run again, and its deletion was not requested.
    """

    index: int | None
    created: float
    lives: bool


def holder(
    declared: int | None, recorded: int | None, pods: Sequence[Ranked], *, written: bool = False
) -> int | None:
    """Return the number of the replica that holds a rank: the declared one or a successor.

    The order of precedence (docs/recovery.md): the declared Pod, because a tool that syncs Git
    brings it back whenever it is gone; the successor that the run record names; any Pod that lives;
    the declared one again, if the record says that it comes back as itself; the last that ended.

    Args:
        pods: The Pods of the rank, without one whose replacement has been decided.
    """
    living = [pod for pod in pods if pod.lives]
    if any(pod.index == declared for pod in living):
        return declared
    if recorded is not None:
        return recorded
    if written and not living:
        return declared
    # The run record does not mention the rank: the Pod predates a move, or the record is lost.
    newest = max(living or pods, key=lambda pod: (pod.created, pod.index or 0), default=None)
    return declared if newest is None else newest.index
