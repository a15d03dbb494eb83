"""Print the status of jobs: one job in full, a line for each of many, or changes."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from etcompile.causes.goodput import Goodput
from etcompile.diagnostics.message_text import painted
from etcompile.diagnostics.redaction import shown
from etcompile.naming import some
from etcompile.status.values import (
    NEWEST_EVENTS,
    VAGUE,
    JobStatus,
    Phase,
    Replica,
    common_words,
    grouped,
)

_GREEN, _RED, _YELLOW = "32", "31", "33"
_COLORS: dict[Phase, str] = {"Succeeded": _GREEN, "Running": _GREEN, "Failed": _RED}
_DURATIONS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def job_text(job: JobStatus, now: datetime, *, color: bool = False) -> str:
    head, phase, *rest = (shown(line) for line in _job_lines(job, now))
    return "".join(f"{line}\n" for line in (head, _painted(phase, job.phase, color=color), *rest))


def jobs_text(jobs: Sequence[JobStatus], now: datetime, *, color: bool = False) -> str:
    rows = [("NAMESPACE", "NAME", "KIND", "PHASE", "READY", "FAILED", "RESTARTS", "AGE")]
    for job in jobs:
        desired = [role.desired for role in job.roles]
        of = "?" if None in desired else sum(number or 0 for number in desired)
        row = (
            job.namespace,
            job.name,
            job.kind or "?",
            job.phase,
            f"{sum(role.ready for role in job.roles)}/{of}",
            str(sum(role.failed for role in job.roles)),
            str(job.restarts),
            age(job.created, now),
        )
        rows.append(row)
    head, *lines = map(shown, _table(rows))
    lines = [_painted(line, j.phase, color=color) for line, j in zip(lines, jobs, strict=True)]
    if orphans := [f"{job.namespace}/{job.name}" for job in jobs if job.orphan_of]:
        names = ", ".join(orphans)
        lines += ["", f"no longer in the files (etcompile apply --prune deletes them): {names}"]
    alone = [f"{job.namespace}/{job.name}" for job in jobs if job.unwatched_since is not None]
    if alone:
        lines += ["", f"no watcher replaces Pods that fail: {some(alone)}"]
    return "".join(f"{line}\n" for line in (head, *lines))


def _painted(line: str, phase: Phase, *, color: bool) -> str:
    return line.replace(phase, painted(phase, _COLORS.get(phase, _YELLOW), color=color), 1)


def reason_lines(not_ready: Iterable[Replica]) -> Iterator[str]:
    for replicas in grouped(not_ready):
        first = replicas[0]
        separator = ": " if first.reason in ("", first.state) else ", "
        why = f"{first.state}{separator}{first.why}".removesuffix(separator)
        names = [replica.name for replica in replicas]
        yield shown(f"{some(names)}: {why}")


def age(since: str, now: datetime) -> str:
    """Return the time since then in its largest unit: `3d`, `4m`."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except ValueError:
        return "?"
    for size, unit in _DURATIONS:
        if seconds >= size:
            return f"{seconds // size}{unit[0]}"
    return "0s"


def unwatched(since: str, now: datetime) -> str:
    ago = f" for {age(since, now)}" if since else ""
    return f"none{ago}: Pods that fail are not replaced"


def in_training(goodput: Goodput) -> str:
    times = f"{lasting(goodput.training)} of {lasting(goodput.elapsed)}"
    return f"in training for {times} ({100 * goodput.ratio:.0f} %)"


def lasting(seconds: float) -> str:
    """Return a duration in its two largest units: `3 h 12 min`."""
    whole = int(seconds)
    for (size, unit), (smaller, part) in itertools.pairwise(_DURATIONS):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {part}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def clock() -> datetime:
    return datetime.now(UTC)


def _job_lines(job: JobStatus, now: datetime) -> Iterator[str]:
    how = "" if job.reported else "derived: "
    kind = f" ({job.kind})" if job.kind else ""
    yield f"Job:       {job.namespace}/{job.name}{kind}"
    yield f"Phase:     {job.phase} ({how}{job.because})"
    if job.unwatched_since is not None:
        yield f"Watcher:   {unwatched(job.unwatched_since, now)}"
    if job.run is not None:
        yield f"Run:       {job.run}"
    if job.orphan_of:
        yield f"Orphan:    it is no longer in {job.orphan_of}; apply --prune deletes it"
    yield f"Age:       {age(job.created, now)}"
    yield f"Restarts:  {job.restarts}"
    if (epoch := job.epoch) is not None:
        ago = f", {age(epoch.at, now)} ago" if epoch.at else ""
        why = f" ({epoch.reason}{ago})" if epoch.reason else ""
        yield f"Epoch:     {epoch.number}{why}"
    if job.goodput is not None:
        yield f"Goodput:   {in_training(job.goodput)}"
    if (hosts := job.hosts) is not None:
        source = "live" if hosts.live else "from Git"
        yield f"Hosts:     {len(hosts.names)} ({source}) {some(hosts.names, 8)}".rstrip()
    yield ""
    rows: list[tuple[str, ...]] = [
        ("ROLE", "DESIRED", "RUNNING", "READY", "SUCCEEDED", "FAILED", "RESTARTS")
    ]
    for role in job.roles:
        desired, counts = "?" if role.desired is None else role.desired, structs.astuple(role)[2:]
        rows.append((role.name, *map(str, (desired, *counts))))
    yield from _table(rows)
    if job.not_ready:
        yield from ("", "Not ready:")
        yield from (f"  {line}" for line in reason_lines(job.not_ready))
    if job.surplus:
        yield from ("", "Pods that the job does not declare:", f"  {some(job.surplus)}")
    if job.missing_services:
        yield from ("", "Missing Services (apply the job again):")
        yield f"  {some(job.missing_services)}"
    if job.events:
        yield from ("", "Events:")
        events = []
        for event in job.events[:NEWEST_EVENTS]:
            kind = "Warning" if event.warning else "Normal"
            words = f"{event.message} (x{event.count})" if event.count > 1 else event.message
            events.append((age(event.at, now), kind, event.reason, some(event.objects), words))
        yield from (f"  {line}" for line in _table(events))
    if job.phase == "Failed":
        where = f"{job.name} -n {job.namespace}"
        yield from ("", f"Why it failed:    etcompile why {where}")
        yield f"To run it again:  etcompile restart {where}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)] + [row[-1]]
        )
        for row in rows
    ]


# What has changed --------------------------------------------------------------------------------


class Change(Struct, frozen=True):
    """A change of a job or of one of its objects.

    Args:
        job: `nlp/bert`.
        object: `job`, `epoch`, `hosts`, `Pod/bert-worker-0`, or `event of` something.
        was: Its status before; empty if it was not there, for an event, and for several Pods whose
            statuses differed.
    """

    job: str
    object: str
    was: str
    status: str
    reason: str = ""

    def __str__(self) -> str:
        is_new = self.was not in ("", self.status)
        turned = f"{self.was} -> {self.status}" if is_new else self.status
        why = f": {self.reason}" if self.reason else ""
        return f"{self.job} {self.object} {turned}{why}"


def changes(before: Iterable[JobStatus], after: Iterable[JobStatus]) -> Iterator[Change]:
    """Yield the changes from the last statuses to these.

    At first everything is a change, so that these lines are complete.
    """
    known = {(status.namespace, status.name): status for status in before}
    for now in after:
        job, last = f"{now.namespace}/{now.name}", known.pop((now.namespace, now.name), None)
        was, facts = _facts(last) if last is not None else {}, _facts(now)
        for thing, (status, reason, compared) in facts.items():
            earlier = was.get(thing)
            if thing[0] == "event":  # one line for all objects that are new in it
                seen = earlier[2] if earlier is not None else ()
                if new := [name for name in compared if name not in seen]:
                    yield Change(job, f"event of {some(new)}", "", status, reason)
            elif earlier is None or earlier[2] != compared:
                yield Change(job, thing[0], earlier[0] if earlier else "", status, reason)
        for name, more in was.keys() - facts.keys():
            if name.startswith("Pod/"):
                yield Change(job, name, was[name, more][0], "Undeclared")
    for gone in known.values():
        yield Change(f"{gone.namespace}/{gone.name}", "job", gone.phase, "Deleted")


def _facts(job: JobStatus) -> dict[tuple[str, str], tuple[str, str, Any]]:
    """Return what is shown of a job and its objects: a status, a reason, and the value to compare.

    Events are identified by their words, everything else by its name. Normal events of Pods only
    repeat what their statuses say.
    """
    facts: dict[tuple[str, str], tuple[str, str, Any]] = {}
    facts["job", ""] = job.phase, job.because, job.phase
    for replica in job.replicas:
        restarts = f"restarts: {replica.restarts}" if replica.restarts else ""
        word, why = ("", "") if replica.reason in VAGUE else (replica.reason, replica.why)
        reason = "; ".join(filter(None, (why, restarts)))
        compared = replica.state, word, replica.restarts
        facts[f"Pod/{replica.name}", ""] = replica.state, reason, compared
    if job.epoch is not None:
        facts["epoch", ""] = str(job.epoch.number), job.epoch.reason, job.epoch.number
    if job.hosts is not None:
        source = "live" if job.hosts.live else "from Git"
        count = f"{len(job.hosts.names)} ({source})"
        facts["hosts", ""] = count, some(job.hosts.names), job.hosts
    for event in reversed(job.events):
        kind, _, name = event.objects[0].partition("/")
        if event.warning or kind != "Pod":
            words = f"{event.reason}: {common_words(event.message, name)}"
            facts["event", words] = event.reason, event.message, event.objects
    return facts


def together(changes: Iterable[Change]) -> list[Change]:
    """Join the changes of Pods that are now alike, for people."""
    groups: dict[Change, list[Change]] = {}
    for change in changes:
        pod = change.object.removeprefix("Pod/")
        words = change.reason.replace(pod, "*")
        is_pod = pod != change.object
        same = structs.replace(change, object="Pod/", was="", reason=words) if is_pod else change
        groups.setdefault(same, []).append(change)
    return [
        structs.replace(
            group[0],
            object=some(change.object for change in group),
            was=group[0].was if len({change.was for change in group}) == 1 else "",
        )
        for group in groups.values()
    ]
