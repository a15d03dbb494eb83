"""The timeline of a run: the key `timeline` of `J-status`.

It says when each attempt began and ended, what ended it, and when the run was in training. It has a
key of its own, not a field of the run record, because a watcher from before it existed leaves keys
alone that it does not know, and would drop a field. What happens while such a watcher leads, or
none, is added as far as the Pods still tell it.

It is bounded: of many attempts and times the last are kept, and what came before as a sum.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from etcompile.goodput.spans import union, without
from etcompile.model.run_record import DIGITS, LATEST, TIMELINE, RunRecord

MOST_ATTEMPTS = 30
"""Attempts that are kept."""
MOST_TIMES = 60
"""Times in training that are kept one by one."""
_MOST_HUNG = 20
"""Times in which the run hung: of older ones the Pods tell nothing any more."""
_LONGEST = 120
_VERSION = 1
_LARGEST = 64 * 1024
"""Characters of all of it, so that what is remembered of it has a bound."""
_SUSPENDED = "it was suspended"


class Attempt(Struct, frozen=True, omit_defaults=True):
    """An attempt of a run: from its start, or a restart of all of it, to the next.

    Args:
        number: How often the whole run had been restarted before, in place or with new Pods.
        ended: When it ended, in seconds since 1970; 0 if it goes on.
        why: What ended it, in a sentence.
    """

    number: int
    began: float
    ended: float = 0.0
    why: str = ""
    suspended: bool = False


class Timeline(Struct, frozen=True, omit_defaults=True):
    """What is kept of a run's time, in seconds since 1970.

    Args:
        run: The run's spec hash.
        attempts: Its attempts, the last of them.
        times: When it was in training, the last of them, in order.
        before: Seconds in training before those.
        before_until: When the last of these ended.
        hung: When its Pods were at work and nobody went on, the last of these times, in order.
    """

    run: str
    began: float
    attempts: tuple[Attempt, ...] = ()
    times: tuple[tuple[float, float], ...] = ()
    before: float = 0.0
    before_until: float = 0.0
    hung: tuple[tuple[float, float], ...] = ()


class Goodput(Struct, frozen=True):
    """Seconds that a run has been in training, of those since it began."""

    training: float
    elapsed: float

    @property
    def ratio(self) -> float:
        """The one divided by the other: from 0 to 1."""
        return self.training / self.elapsed if self.elapsed > 0 else 0.0


def advanced(
    before: Timeline | None,
    record: RunRecord,
    times: Sequence[tuple[float, float]],
    now: float,
    hung: tuple[float, float] | None = None,
) -> Timeline | None:
    """The timeline, with what is known now. To add the same twice changes nothing.

    Args:
        before: What is known of it so far; of another run it does not count.
        times: When the run was in training, as its Pods tell.
        hung: From when to when it hung, which its Pods do not tell; None if it has not.

    Returns:
        None while the run has not begun.
    """
    known = before if before is not None and before.run == record.run else None
    if record.phase == "Suspended":
        # Its clock begins anew when it is resumed; until then there is still to see how it was.
        return _closed(known, now, _SUSPENDED, suspended=True) if known is not None else None
    if known is None or (known.attempts[-1].suspended and record.started is not None):
        began = record.started if record.started is not None else record.restarted_at
        if not began:
            return known
        began = max(began, record.restarted_at)
        known = Timeline(record.run, began, (Attempt(record.attempt, began),))
    last = known.attempts[-1]
    if record.attempt > last.number:
        at = record.restarted_at if record.restarted_at > last.began else now
        why = record.message if record.phase == "Restarting" else record.epoch_reason
        known = _closed(known, at, why or record.message)
        attempts = (*known.attempts, Attempt(record.attempt, at))
        known = structs.replace(known, attempts=attempts[-MOST_ATTEMPTS:])
    elif record.ended:
        known = _closed(known, record.finished or now, record.message)
    since = max(known.began, known.before_until)
    new = [(max(begin, since), end) for begin, end in times if end > since]
    if hung is not None:
        known = structs.replace(known, hung=tuple(union((*known.hung, hung))[-_MOST_HUNG:]))
    every = without(union((*known.times, *new)), known.hung)
    over = every[: max(0, len(every) - MOST_TIMES)]
    return structs.replace(
        known,
        times=tuple(every[len(over) :]),
        before=known.before + sum(end - begin for begin, end in over),
        before_until=over[-1][1] if over else known.before_until,
    )


def _closed(timeline: Timeline, at: float, why: str, *, suspended: bool = False) -> Timeline:
    """The timeline, with the end of its last attempt."""
    last = timeline.attempts[-1]
    if last.ended:
        return timeline
    words = " ".join(why.split())
    words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    ended = structs.replace(last, ended=max(at, last.began), why=words, suspended=suspended)
    return structs.replace(timeline, attempts=(*timeline.attempts[:-1], ended))


def goodput(timeline: Timeline, now: float) -> Goodput:
    """How much of its time the run has been in training."""
    elapsed = max(0.0, (timeline.attempts[-1].ended or now) - timeline.began)
    training = timeline.before + sum(end - begin for begin, end in timeline.times)
    return Goodput(min(training, elapsed), elapsed)


# In J-status -----------------------------------------------------------------------------------


class _Written(Struct, frozen=True, omit_defaults=True):
    timeline: Timeline
    version: int = 0


_WRITTEN = msgspec.json.Decoder(_Written)


def timeline_text(timeline: Timeline) -> str:
    """The value of the key `timeline`; times to the tenth of a second."""
    written = msgspec.to_builtins(_Written(timeline, _VERSION))
    return msgspec.json.encode(_rounded(written)).decode()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 1) if isinstance(value, float) else value


def read_timeline(data: Mapping[str, Any]) -> Timeline | None:
    """The timeline in the `data` of `J-status`; None if there is none that can be read.

    Anybody who may write the ConfigMap may have written it.
    """
    text = data.get(TIMELINE)
    return _read(text) if isinstance(text, str) and 0 < len(text) <= _LARGEST else None


@functools.lru_cache(maxsize=32)  # a job is looked at more often than it is written of
def _read(text: str) -> Timeline | None:
    try:
        written = _WRITTEN.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return written.timeline if written.version == _VERSION and _is_possible(written) else None


def _is_possible(written: _Written) -> bool:
    """Whether a run can have such a timeline."""
    timeline = written.timeline
    attempts, times = timeline.attempts, timeline.times
    if not 0 < len(attempts) <= MOST_ATTEMPTS or len(times) > MOST_TIMES:
        return False
    if len(timeline.hung) > _MOST_HUNG or list(timeline.hung) != union(timeline.hung):
        return False
    bounds = [timeline.began, timeline.before, timeline.before_until]
    bounds += [at for attempt in attempts for at in (attempt.began, attempt.ended)]
    bounds += [at for pair in (*times, *timeline.hung) for at in pair]
    return (
        all(0 <= at < LATEST for at in bounds)
        and all(0 <= attempt.number < 10**DIGITS for attempt in attempts)
        and all(len(attempt.why) <= _LONGEST for attempt in attempts)
        and list(times) == union(times)
    )
