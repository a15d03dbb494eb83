"""Compute how long a run has been in training, and which attempts it took.

The status of a Pod says since when a container runs, and from when to when the one before it did.
So nothing has to poll, and a watcher that was away can reconstruct the past. A run is in training
while enough replicas of each role are at work: all of them, or for an elastic role as many as its
author requires. Replicas that are done or that were abandoned hold up nobody.

The result is the timeline, the key `timeline` of `J-status`: the last attempts and times, and the
sum of those before. It is not part of the run record, because an older watcher would drop an
unknown field but preserves unknown keys.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from etcompile.k8s import pods
from etcompile.k8s.objects import Object, condition, seconds, status_of
from etcompile.model import Job
from etcompile.model.protocol import RUN_STATE
from etcompile.model.run_record import (
    NOTHING,
    TIMELINE,
    Count,
    ReplicaKey,
    RunRecord,
    Time,
    read_key,
)

MOST_ATTEMPTS = 30  # of a timeline
MOST_TIMES = 60  # in training; earlier ones are added up
_MOST_SPANS = 8  # earlier ones of a container
_MOST_HUNG = 20  # times in which the run hung; the Pods no longer show older ones
_LONGEST = 120


class Span(Struct, frozen=True, gc=False):
    """When a container was at work, in seconds since 1970; `end` is 0 if it still is."""

    container: str
    begin: float
    end: float = 0.0


def spans_of(pod: Object, before: Sequence[Span] = ()) -> tuple[Span, ...]:
    """Return the last spans of each container of a Pod: of the one that runs and the one before it.

    A container does no work while its Pod is not ready: its command has ended and waits for the
    next epoch (docs/recovery.md), its probe fails, or its node does not answer. A command that
    restarts in place runs since the Pod is ready; only `before`, which was observed earlier, knows
    its older spans.
    """
    ready = condition(status_of(pod), "Ready")
    changed, is_ready = seconds(ready.get("lastTransitionTime")) or 0.0, ready.get("status")
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    in_place = any(volume.get("name") == RUN_STATE for volume in volumes)
    every: list[Span] = []
    for container in pods.containers(pod):
        name, running, now = str(container.get("name")), pods.started_at(container), list[Span]()
        # This runs for every event of every Pod, and most containers have never ended.
        if not running or container.get("lastState"):
            last = pods.terminated(container)
            for how in (pods.terminated_before(container), last):
                begin, end = seconds(how.get("startedAt")), seconds(how.get("finishedAt"))
                if begin is None or end is None:
                    continue
                # The container may outlive its command for a while.
                if how is last and is_ready != "True" and begin < changed:
                    end = min(end, changed)
                now += [Span(name, begin, end)] if begin < end else []
        if running and (begin := seconds(running)) is not None:
            if is_ready == "True":
                now.append(Span(name, max(begin, changed) if in_place else begin))
            elif begin < changed:
                now.append(Span(name, begin, changed))
        if in_place and now:
            past = [span for span in before if span.container == name]
            for place, span in enumerate(now):
                # A span begins when its begin was first observed.
                begins = [p.begin for p in past if not span.end or p.begin < span.end]
                now[place] = structs.replace(span, begin=max(span.begin, *begins, 0.0))
            first = now[0].begin
            past = [span for span in past if span.begin < first][-_MOST_SPANS:]
            every += (structs.replace(span, end=min(span.end or first, first)) for span in past)
        every += now
    return tuple(every)


def in_training(
    job: Job, spans: Iterable[tuple[ReplicaKey, Iterable[Span]]], record: RunRecord, now: float
) -> list[tuple[float, float]]:
    """Return when the run was in training according to its Pods; until now if it still is.

    Args:
        spans: When the containers of each Pod of the run were at work, deleted Pods included.
    """
    mains = {role.name: role.template.main for role in job.roles}
    by_replica: defaultdict[ReplicaKey, list[Span]] = defaultdict(list)
    for key, of_pod in spans:
        main = mains.get(key[0])
        by_replica[key] += [span for span in of_pod if span.container == main]
    changes: list[tuple[float, int, int]] = []
    spare = [-role.quorum for role in job.roles]
    for place, role in enumerate(job.roles):
        records = record.replicas.get(role.name, {})
        for member in role.members:
            number = (member.place if role.labels.rank else member.index) or 0
            written, its_spans = (
                records.get(number, NOTHING),
                by_replica.get((role.name, number), ()),
            )
            if written.completed or (written.left and record.phase == "Running"):
                spare[place] += 1
                continue
            times = [(span.begin, span.end or now) for span in its_spans]
            for begin, end in times if len(times) == 1 else _union(times):
                if begin < end:
                    changes += ((begin, 1, place), (end, -1, place))
    # The Pods that decide about the run may have ended before the record says so.
    deciding = job.run.success.roles
    ends = [s.end for (role, _), each in by_replica.items() if role in deciding for s in each]
    until = record.finished if record.finished is not None else now
    if ends and all(ends):
        until = min(until, max(ends))
    times = []
    since: float | None = None
    # At the same moment, ends come before beginnings: a successor never overlaps its predecessor.
    for at, change, place in (*sorted(changes), (inf, 0, 0)):
        spare[place] += change
        is_enough = min(spare) >= 0 and at < until
        if is_enough and since is None:
            since = at
        elif not is_enough and since is not None:
            times += [(since, min(at, until))] if since < at else []
            since = None
    return times


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
    """The timeline of a run, in seconds since 1970.

    Args:
        run: The run's spec hash.
        times: When it was in training, the last of them, in order.
        before: Seconds in training before those.
        before_until: When the last of the earlier times ended.
        hung: When its Pods ran without progress, the last of these times, in order.
    """

    run: str
    began: Time
    attempts: Annotated[tuple[Attempt, ...], Meta(min_length=1, max_length=MOST_ATTEMPTS)]
    times: Annotated[tuple[tuple[Time, Time], ...], Meta(max_length=MOST_TIMES)] = ()
    before: Time = 0.0
    before_until: Time = 0.0
    hung: Annotated[tuple[tuple[Time, Time], ...], Meta(max_length=_MOST_HUNG)] = ()

    def closed(self, at: float, why: str, *, suspended: bool = False) -> "Timeline":
        """End the last attempt, unless it has ended."""
        last = self.attempts[-1]
        if last.ended:
            return self
        words = " ".join(why.split())
        words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
        ended = structs.replace(last, ended=max(at, last.began), why=words, suspended=suspended)
        return structs.replace(self, attempts=(*self.attempts[:-1], ended))


class Goodput(Struct, frozen=True):
    """Seconds in training, and seconds since the run began."""

    training: float
    elapsed: float

    @property
    def ratio(self) -> float:
        return self.training / self.elapsed if self.elapsed > 0 else 0.0


def advanced(
    before: Timeline | None,
    record: RunRecord,
    times: Sequence[tuple[float, float]],
    now: float,
    hung: tuple[float, float] | None = None,
) -> Timeline | None:
    """Bring the timeline up to date. Adding the same twice changes nothing.

    Args:
        before: The timeline so far; one of another run is ignored.
        times: When the run was in training, according to its Pods.
        hung: From when to when it hung, which its Pods do not show; None if it has not.

    Returns:
        None while the run has not begun.
    """
    known = before if before is not None and before.run == record.run else None
    if record.phase == "Suspended":
        # Its clock restarts when it is resumed; until then its past stays visible.
        return known and known.closed(now, "it was suspended", suspended=True)
    if known is None or (known.attempts[-1].suspended and record.started is not None):
        if not (began := max(record.started or 0.0, record.restarted_at)):
            return known
        known = Timeline(record.run, began, (Attempt(record.attempt, began),))
    last = known.attempts[-1]
    if record.attempt > last.number:
        at = record.restarted_at if record.restarted_at > last.began else now
        why = record.message if record.phase == "Restarting" else record.epoch_reason
        attempts = (
            *known.closed(at, why or record.message).attempts,
            Attempt(record.attempt, at),
        )
        known = structs.replace(known, attempts=attempts[-MOST_ATTEMPTS:])
    elif record.ended:
        known = known.closed(record.finished or now, record.message)
    since = max(known.began, known.before_until)
    new = [(max(begin, since), end) for begin, end in times if end > since]
    if hung is not None:
        known = structs.replace(known, hung=tuple(_union((*known.hung, hung))[-_MOST_HUNG:]))
    every = _union((*known.times, *new))
    for begin, end in known.hung:
        around = [((b, min(e, begin)), (max(b, end), e)) for b, e in every]
        every = [part for parts in around for part in parts if part[0] < part[1]]
    over = every[: max(0, len(every) - MOST_TIMES)]
    return structs.replace(
        known,
        times=tuple(every[len(over) :]),
        before=known.before + sum(end - begin for begin, end in over),
        before_until=over[-1][1] if over else known.before_until,
    )


def _union(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(times):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif begin < end:
            merged.append((begin, end))
    return merged


def goodput(timeline: Timeline, now: float) -> Goodput:
    elapsed = max(0.0, (timeline.attempts[-1].ended or now) - timeline.began)
    training = timeline.before + sum(end - begin for begin, end in timeline.times)
    return Goodput(min(training, elapsed), elapsed)


# In J-status -----------------------------------------------------------------------------------


class _Written(Struct, frozen=True):
    timeline: Timeline
    version: Literal[1] = 1


_WRITTEN = msgspec.json.Decoder(_Written)


def timeline_text(timeline: Timeline) -> str:
    return msgspec.json.encode(_Written(timeline)).decode()


def read_timeline(data: Mapping[str, Any]) -> Timeline | None:
    """Read the timeline from the `data` of `J-status`; None if absent or unreadable."""
    written = read_key(data, TIMELINE, _WRITTEN)
    parts = (written.timeline.times, written.timeline.hung) if written is not None else ()
    is_ordered = all([*part] == _union(part) for part in parts)
    return written.timeline if written is not None and is_ordered else None
