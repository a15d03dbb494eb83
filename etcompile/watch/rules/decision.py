"""What a rule says: the run record as it is to be, and what is to be done."""

from collections.abc import Sequence

from msgspec import Struct

from etcompile.watch.actions import Action
from etcompile.watch.state import Backoff, RunRecord, Timeouts


class Decision(Struct, frozen=True):
    """What a rule says.

    Args:
        record: The run record, with what the rule adds to it.
        actions: What is to be done, in this order, after the record is written.
    """

    record: RunRecord
    actions: Sequence[Action] = ()


def wait(count: int, timeouts: Timeouts) -> float:
    """Seconds until the replacement of something that failed `count` times in a row."""
    doublings = count - 3
    if doublings < 0:
        return 0.0
    return min(timeouts.backoff * 2.0 ** min(doublings, 60), timeouts.longest)


def tried(
    before: Backoff | None, uid: str, now: float, timeouts: Timeouts, lived: float
) -> Backoff:
    """A trial after one more failure.

    Args:
        before: The trial so far.
        uid: The UID of what failed.
        now: The time.
        timeouts: How long a series of failures lasts.
        lived: For how long what failed had been there.
    """
    again = before is not None and lived < timeouts.forget
    return Backoff(uid, count=(before.count if before and again else 0) + 1, at=now)
