"""When a run has succeeded, and who has a rank: said once, for `status` and for the watcher.

Both ask the same of the same replicas, one of what Pods add up to and the other of what it has
decided and written down. What they must never do is to come to different ends.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from etcompile.model.job import Success

Outcome = Literal["done", "out", "open"]
"""Of a replica: it has succeeded; it has not and will not; neither is known yet."""
End = Literal["succeeded", "hopeless", "open"]
"""Of a run: it has succeeded; it cannot any more; neither is known yet."""


class Decider(Struct, frozen=True):
    """A replica that decides about the run.

    Args:
        first: It is the first of its role, or the only one.
    """

    name: str
    first: bool
    outcome: Outcome


class Completion(Struct, frozen=True):
    """Whether a run is complete.

    Args:
        names: The replicas that decided it.
    """

    end: End
    why: str = ""
    names: tuple[str, ...] = ()


def completion(success: Success, deciders: Sequence[Decider]) -> Completion:
    """Whether a run has succeeded, or cannot any more (reference/training-operator.md 7, 32)."""
    done = [decider for decider in deciders if decider.outcome == "done"]
    out = [decider for decider in deciders if decider.outcome == "out"]
    first_done = [decider for decider in done if decider.first]
    first_out = [decider for decider in out if decider.first]
    everybody, least = len(deciders), success.least
    by_first = success.needs == "first"
    why = ""
    if done and (success.needs == "any" or (by_first and first_done)):
        why = f"{(first_done or done)[0].name} succeeded"
    elif done and len(done) == everybody:
        why = f"{named([decider.name for decider in (*first_done, *done)])} succeeded"
    elif done and least is not None and len(done) + len(out) == everybody and len(done) >= least:
        why = f"{len(done)} of {everybody} replicas succeeded"
    if why:
        deciding = first_done if by_first and first_done else done
        return Completion("succeeded", why, tuple(decider.name for decider in deciding))
    if success.needs == "any":
        hopeless = bool(deciders) and len(out) == everybody
    elif by_first:
        hopeless = bool(first_out)
    else:
        hopeless = bool(out) if least is None else everybody - len(out) < least
    if not hopeless:
        return Completion("open")
    return Completion("hopeless", names=tuple(d.name for d in (first_out if by_first else out)))


def named(names: Sequence[str]) -> str:
    """Names of replicas in a sentence, each once: one, two, or one and how many more."""
    names = [*dict.fromkeys(names)]
    if len(names) > 2:
        return f"{names[0]} and {len(names) - 1} more"
    return " and ".join(names)


class Ranked(Struct, frozen=True):
    """A Pod that has a rank: its number, and when it was created, in seconds since 1970."""

    index: int | None
    created: float
    lives: bool  # a container of it runs or will run again, and nobody has asked it to go


def holder(
    declared: int | None, recorded: int | None, pods: Sequence[Ranked], *, written: bool = False
) -> int | None:
    """The number of who has a rank: the replica that is declared, or one that has followed it.

    The declared Pod has precedence, because a tool that syncs Git brings it back whenever it is
    gone; then one that has followed and that the run record names; then whoever lives; then the
    declared one again, if the record says that it comes back as itself; of those that have ended,
    the last (docs/recovery.md).

    Args:
        pods: The Pods of the rank, but for one of which it was decided that another follows it.
    """
    living = [pod for pod in pods if pod.lives]
    if any(pod.index == declared for pod in living):
        return declared
    if recorded is not None:
        return recorded
    if written and not living:
        return declared
    # Nothing is written down of it: one from before a move, or the run record is lost.
    newest = max(living or pods, key=lambda pod: (pod.created, pod.index or 0), default=None)
    return declared if newest is None else newest.index
