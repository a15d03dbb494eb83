"""When a run was in training, from when the containers of its Pods ran.

Kubernetes keeps this in the status of a Pod: since when a container runs, and from when to when the
one before it did. So nobody has to look all the time, and a watcher that was away invents nothing.

A run is in training while as many replicas of each role do their work as it needs to begin: all of
them, or of an elastic role as many as its author says. A replica that is done, or that is left
alone, holds up nobody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from etcompile.k8s import pods
from etcompile.k8s.conditions import condition
from etcompile.k8s.objects import Object, seconds, status_of
from etcompile.model import Job
from etcompile.model.protocol import RUN_STATE
from etcompile.model.run_record import RunRecord

Times = Sequence[tuple[float, float]]
"""Times from when to when, in seconds since 1970, in order, and apart from each other."""
_MOST = 8
"""Spans of a container that are known from before."""


class Span(Struct, frozen=True, gc=False):
    """From when to when a container did its work, in seconds since 1970; `end` is 0 if it does."""

    container: str
    begin: float
    end: float = 0.0


class ReplicaSpans(Struct, frozen=True, gc=False):
    """When the containers of a Pod ran, and of which replica it is.

    Args:
        number: Its number in the role; its rank, where others may follow it.
    """

    role: str
    number: int
    spans: tuple[Span, ...]


def spans_of(pod: Object, before: Sequence[Span] = ()) -> tuple[Span, ...]:
    """The last spans of each container of a Pod: the one that runs, and the one before it.

    A container of a Pod that is not ready does no work since that is so: its command has ended and
    waits for the next epoch (docs/recovery.md), its probe fails, or its node does not answer. A
    command that restarts in place has run since the Pod is ready, and its earlier spans are only
    known to those who have seen them.

    Args:
        pod: The Pod, JSON.
        before: The spans of the same Pod as they were seen before.
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
        past = [span for span in earlier if span.begin < first][-_MOST:]
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
        now: The time, in seconds since 1970.
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
            for begin, end in union((s.begin, s.end or now) for s in spans[role.name, number]):
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


def union(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times that overlap or follow each other at once, as one; in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(times):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif begin < end:
            merged.append((begin, end))
    return merged


def without(times: Times, others: Times) -> list[tuple[float, float]]:
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
