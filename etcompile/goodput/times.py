"""When a run was in training, from when its Pods ran.

A run is in training while as many replicas of each role do their work as it needs to begin: all of
them, or of an elastic role as many as its author says. A replica that is done, or that is left
alone, holds up nobody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from etcompile.goodput.spans import Span
from etcompile.model import Job
from etcompile.model.run_record import RunRecord

Times = Sequence[tuple[float, float]]
"""Times from when to when, in seconds since 1970, in order, and apart from each other."""


class ReplicaSpans(Struct, frozen=True, gc=False):
    """When the containers of a Pod ran, and of which replica it is.

    Args:
        role: The name of its role.
        number: Its number in the role; its rank, where others may follow it.
        spans: When its containers ran.
    """

    role: str
    number: int
    spans: tuple[Span, ...]


def in_training(
    job: Job, replicas: Iterable[ReplicaSpans], record: RunRecord, now: float
) -> list[tuple[float, float]]:
    """When the run was in training, as far as its Pods tell; until now if it still is.

    Args:
        job: The job that the run is of, with its roles.
        replicas: The Pods of the run, those included that were seen to go.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    found: defaultdict[tuple[str, int], list[Span]] = defaultdict(list)
    mains = {role.name: role.template.main for role in job.roles}
    for replica in replicas:
        main = mains.get(replica.role)
        found[replica.role, replica.number] += (
            span for span in replica.spans if span.container == main
        )
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
            for begin, end in union((s.begin, s.end or now) for s in found[role.name, number]):
                changes += ((begin, 1, place), (end, -1, place))
    until = _until(job, found, record, now)
    # Of one moment ends come before beginnings: who follows was not there beside who went.
    changes.sort(key=lambda change: (change[0], change[1]))
    return [
        (begin, min(end, until)) for begin, end in _enough(changes, needed, now) if begin < until
    ]


def _enough(
    changes: Sequence[tuple[float, int, int]], needed: Sequence[int], now: float
) -> Iterator[tuple[float, float]]:
    """When of all roles as many replicas were at work as are needed."""
    if not changes:
        return
    at_work = [0] * len(needed)
    short = sum(count > 0 for count in needed)
    since: float | None = None
    for at, change, place in changes:
        was = at_work[place] >= needed[place]
        at_work[place] += change
        short += was - (at_work[place] >= needed[place])
        if short == 0 and since is None:
            since = at
        elif short and since is not None:
            if since < at:
                yield since, min(at, now)
            since = None
    if since is not None and since < now:
        yield since, now


def _until(
    job: Job, found: dict[tuple[str, int], list[Span]], record: RunRecord, now: float
) -> float:
    """When the run ended, or now: those who decide about it may have ended before that was seen."""
    deciding = job.run.success.roles
    ends = [span.end for (role, _), spans in found.items() if role in deciding for span in spans]
    until = record.finished if record.finished is not None else now
    return min(until, max(ends)) if ends and all(ends) else until


def union(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times that overlap or follow each other at once, as one; in order."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(times):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif begin < end:
            found.append((begin, end))
    return found


def without(times: Times, others: Times) -> list[tuple[float, float]]:
    """The times that are in none of the others."""
    found = [*times]
    for begin, end in others:
        found = [
            part
            for since, until in found
            for part in ((since, min(until, begin)), (max(since, end), until))
            if part[0] < part[1]
        ]
    return found
