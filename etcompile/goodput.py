"""How long a run has been in training, and which attempts it took.

Kubernetes keeps in the status of a Pod since when a container runs, and from when to when the one
before it did. So nobody has to look all the time, and a watcher that was away invents nothing. A
run is in training while as many replicas of each role do their work as it needs to begin: all of
them, or of an elastic role as many as its author says. A replica that is done, or that is left
alone, holds up nobody.

What is known of it is the timeline, the key `timeline` of `J-status`: of many attempts and times
the last, and what came before as a sum. It has a key of its own, not a field of the run record,
because a watcher from before it existed leaves keys alone that it does not know, and would drop a
field.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from etcompile.k8s import pods
from etcompile.k8s.conditions import condition
from etcompile.k8s.objects import Object, seconds, status_of
from etcompile.model import Job
from etcompile.model.protocol import RUN_STATE
from etcompile.model.run_record import TIMELINE, Count, RunRecord, Time

MOST_ATTEMPTS = 30
"""Attempts that are kept."""
MOST_TIMES = 60
"""Times in training that are kept one by one."""
_MOST_SPANS = 8
"""Spans of a container that are known from before."""
_MOST_HUNG = 20
"""Times in which the run hung: of older ones the Pods tell nothing any more."""
_LONGEST = 120
_LARGEST = 64 * 1024
"""Characters of all of it, so that what is remembered of it has a bound."""


class Span(Struct, frozen=True, gc=False):
    """From when to when a container did its work, in seconds since 1970; `end` is 0 if it does."""

    container: str
    begin: float
    end: float = 0.0


class ReplicaSpans(Struct, frozen=True, gc=False):
    """When the containers of a Pod ran; `number` is its rank, where others may follow it."""

    role: str
    number: int
    spans: tuple[Span, ...]


def spans_of(pod: Object, before: Sequence[Span] = ()) -> tuple[Span, ...]:
    """The last spans of each container of a Pod: the one that runs, and the one before it.

    A container of a Pod that is not ready does no work since that is so: its command has ended and
    waits for the next epoch (docs/recovery.md), its probe fails, or its node does not answer. A
    command that restarts in place has run since the Pod is ready, and its earlier spans are only
    known to those who have seen them, as `before`.
    """
    containers = pods.containers(pod)
    if not containers:
        return ()
    ready = condition(status_of(pod), "Ready")
    changed = seconds(ready.get("lastTransitionTime")) or 0.0
    is_ready = ready.get("status") == "True"
    # This is asked of every event of every Pod, and most have never ended.
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if all(volume.get("name") != RUN_STATE for volume in volumes):
        return tuple(_spans(containers, 0.0, changed, is_ready=is_ready))
    spans = [*_spans(containers, changed if is_ready else 0.0, changed, is_ready=is_ready)]
    every: list[Span] = []
    for name in dict.fromkeys(span.container for span in spans):
        earlier = [past for past in before if past.container == name]
        now = []
        for span in (span for span in spans if span.container == name):
            # A span begins when it was first seen to.
            begins = (past.begin for past in earlier if not span.end or past.begin < span.end)
            now.append(structs.replace(span, begin=max(span.begin, *begins, 0.0)))
        first = now[0].begin
        past = [span for span in earlier if span.begin < first][-_MOST_SPANS:]
        every += (structs.replace(span, end=min(span.end or first, first)) for span in past)
        every += now
    return tuple(every)


def _spans(
    containers: Sequence[Object], begun: float, changed: float, *, is_ready: bool
) -> Iterator[Span]:
    """The spans that the statuses of containers tell of; none begins before `begun`."""
    since = 0.0 if is_ready else changed
    for container in containers:
        name = str(container.get("name"))
        running = pods.started_at(container)
        if not running or container.get("lastState"):
            last = pods.terminated(container)
            for how in (pods.terminated_before(container), last):
                begin, end = seconds(how.get("startedAt")), seconds(how.get("finishedAt"))
                if begin is None or end is None:
                    continue
                # A command that has ended may have been kept in its container for a while.
                if how is last and begin < since:
                    end = min(end, since)
                if begin < end:
                    yield Span(name, begin, end)
        begin = seconds(running) if running else None
        if begin is None:
            continue
        begin = max(begin, begun)
        if is_ready:
            yield Span(name, begin)
        elif begin < since:
            yield Span(name, begin, since)


def in_training(
    job: Job, replicas: Iterable[ReplicaSpans], record: RunRecord, now: float
) -> list[tuple[float, float]]:
    """When the run was in training, as far as its Pods tell; until now if it still is.

    Args:
        replicas: The Pods of the run, those included that were seen to go.
    """
    spans: defaultdict[tuple[str, int], list[Span]] = defaultdict(list)
    mains = {role.name: role.template.main for role in job.roles}
    for replica in replicas:
        main = mains.get(replica.role)
        own = (span for span in replica.spans if span.container == main)
        spans[replica.role, replica.number] += own
    changes: list[tuple[float, int, int]] = []
    needed: list[int] = []
    for place, role in enumerate(job.roles):
        needed.append(role.quorum)
        for member in role.members:
            number = (member.place if role.labels.rank else member.index) or 0
            written = record.replica((role.name, number))
            if written.completed or (written.left and record.phase == "Running"):
                needed[place] -= 1
                continue
            for begin, end in _union((s.begin, s.end or now) for s in spans[role.name, number]):
                changes += ((begin, 1, place), (end, -1, place))
    # Whoever decides about the run may have ended before that was seen.
    ends = [s.end for (role, _), own in spans.items() if role in job.run.success.roles for s in own]
    until = record.finished if record.finished is not None else now
    if ends and all(ends):
        until = min(until, max(ends))
    # Of one moment ends come before beginnings: who follows was not there at the same time.
    changes.sort(key=lambda change: (change[0], change[1]))
    times = _enough(changes, needed, now)
    return [(begin, min(end, until)) for begin, end in times if begin < until]


def _enough(
    changes: Sequence[tuple[float, int, int]], needed: Sequence[int], now: float
) -> Iterator[tuple[float, float]]:
    """When of all roles as many replicas were at work as are needed."""
    at_work = [0] * len(needed)
    short = sum(count > 0 for count in needed)
    since: float | None = None
    for at, change, place in changes:
        was_enough = at_work[place] >= needed[place]
        at_work[place] += change
        short += was_enough - (at_work[place] >= needed[place])
        if short == 0 and since is None:
            since = at
        elif short and since is not None:
            if since < at:
                yield since, min(at, now)
            since = None
    if since is not None and since < now:
        yield since, now


# The timeline ------------------------------------------------------------------------------------


class Attempt(Struct, frozen=True, omit_defaults=True):
    """An attempt of a run: from its start, or a restart of all of it, to the next.

    Args:
        number: How often the whole run had been restarted before, in place or with new Pods.
        ended: In seconds since 1970; 0 if it goes on.
    """

    number: Count
    began: Time
    ended: Time = 0.0
    why: Annotated[str, Meta(max_length=_LONGEST)] = ""
    suspended: bool = False


class Timeline(Struct, frozen=True, omit_defaults=True):
    """What is kept of a run's time, in seconds since 1970.

    Args:
        run: The run's spec hash.
        times: When it was in training, the last of them, in order.
        before: Seconds in training before those.
        before_until: When the last of these ended.
        hung: When its Pods were at work and nobody went on, the last of these times, in order.
    """

    run: str
    began: Time
    attempts: Annotated[tuple[Attempt, ...], Meta(min_length=1, max_length=MOST_ATTEMPTS)]
    times: Annotated[tuple[tuple[Time, Time], ...], Meta(max_length=MOST_TIMES)] = ()
    before: Time = 0.0
    before_until: Time = 0.0
    hung: Annotated[tuple[tuple[Time, Time], ...], Meta(max_length=_MOST_HUNG)] = ()


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
        return (
            _closed(known, now, "it was suspended", suspended=True) if known is not None else None
        )
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
        known = structs.replace(known, hung=tuple(_union((*known.hung, hung))[-_MOST_HUNG:]))
    every = _without(_union((*known.times, *new)), known.hung)
    over = every[: max(0, len(every) - MOST_TIMES)]
    return structs.replace(
        known,
        times=tuple(every[len(over) :]),
        before=known.before + sum(end - begin for begin, end in over),
        before_until=over[-1][1] if over else known.before_until,
    )


def _union(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times that overlap or follow each other at once, as one; in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(times):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif begin < end:
            merged.append((begin, end))
    return merged


def _without(
    times: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The times that are in none of the others."""
    rest = [*times]
    for begin, end in others:
        rest = [
            part
            for since, until in rest
            for part in ((since, min(until, begin)), (max(since, end), until))
            if part[0] < part[1]
        ]
    return rest


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


class _Written(Struct, frozen=True):
    timeline: Timeline
    version: Literal[1] = 1


_WRITTEN = msgspec.json.Decoder(_Written)


def timeline_text(timeline: Timeline) -> str:
    """The value of the key `timeline`."""
    return msgspec.json.encode(_Written(timeline)).decode()


def read_timeline(data: Mapping[str, Any]) -> Timeline | None:
    """The timeline in the `data` of `J-status`; None if there is none that can be read.

    Anybody who may write the ConfigMap may have written it.
    """
    text = data.get(TIMELINE)
    return _read(text) if isinstance(text, str) and 0 < len(text) <= _LARGEST else None


@functools.lru_cache(maxsize=32)  # a job is looked at more often than it is written of
def _read(text: str) -> Timeline | None:
    try:
        timeline = _WRITTEN.decode(text).timeline
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    parts = (timeline.times, timeline.hung)
    return timeline if all([*part] == _union(part) for part in parts) else None
