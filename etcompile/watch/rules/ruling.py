"""What a rule says: the run record as it is to be, and what is to be done."""

from collections.abc import Sequence

from msgspec import Struct

from etcompile.watch.actions import Action
from etcompile.watch.state import Patience, RunRecord, Trial


class Ruling(Struct, frozen=True):
    """What a rule says.

    Args:
        record: The run record, with what the rule adds to it.
        actions: What is to be done, in this order, after the record is written.
    """

    record: RunRecord
    actions: Sequence[Action] = ()


def wait(count: int, patience: Patience) -> float:
    """Seconds until the replacement of something that failed `count` times in a row."""
    doublings = count - 3
    if doublings < 0:
        return 0.0
    return min(patience.backoff * 2.0 ** min(doublings, 60), patience.longest)


def tried(before: Trial | None, uid: str, now: float, patience: Patience, lived: float) -> Trial:
    """A trial after one more failure.

    Args:
        before: The trial so far.
        uid: The UID of what failed.
        now: The time.
        patience: How long a series of failures lasts.
        lived: For how long what failed had been there.
    """
    again = before is not None and lived < patience.forget
    return Trial(uid, count=(before.count if before and again else 0) + 1, at=now)
