"""A run whose replicas are all at work and none of which says anything any more.

A rank that hangs takes all others along: they wait for it in the next collective, for ever, and no
container ends. What can be seen from outside is that the logs do not grow. So with
`etcompile.dev/stuck-after` a run counts as stuck once nobody has written anything for so long. All
of them, because most programs let one rank speak for all; a Pod that is on its way in or out, or a
log that cannot be read, says that nobody knows.

Logs are read only when they may have been silent for too long: first that of the Pod that spoke
last, and if it has not spoken since, all others. What is done then is what is done about a replica
that fails: by the kind's rules all are restarted, or one is replaced, or supervisors are asked to
run commands again. Supervisors are asked first what state their processes are in: one that is
stopped, or waits for a device, is the one that all others wait for, and is named.
With `etcompile.dev/stack-signal` they have their processes write where they are, too: one that is
elsewhere than most is named then. Nobody else can know. Where others follow a replica (ElasticJob)
each counts by itself (`replica_state`).
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from etcompile.failures import Stack, elsewhere, stacks
from etcompile.k8s.objects import seconds
from etcompile.model.notice import report_request, restart_request
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import (
    Action,
    DeletePod,
    EmitEvent,
    NotifyPod,
    ReadLog,
    ReadTail,
    Requeue,
)
from etcompile.watch.rules.epochs import speakers, supervised
from etcompile.watch.rules.placement import Placement
from etcompile.watch.state import JobView, PodView, Tail

_EVERY = 2.0
"""Seconds until a log is read again in which a supervisor has yet to tell what its processes do."""
_LINES_OF_ALL = 100_000
"""Of the logs of all Pods together, in which processes have written where each thread is."""
_LINES = (2000, 200, 50)
"""Of one log, by turns: of one that is too long as text, the API server leaves out the end."""
AGAIN = 60.0
"""Seconds until a log is asked for again that could not be read."""


def is_stuck(placement: Placement, record: RunRecord) -> bool:
    """Whether nobody of a run has written anything for too long, as of when logs were last read.

    Args:
        placement: Who is there.
        record: The run record.
    """
    limit = placement.job.run.stuck_after
    pods = _at_work(placement, record) if limit is not None else []
    if limit is None or not pods:
        return False
    heard = placement.view.heard
    due = _silent_since(placement.view, pods, record) + limit
    return all(
        (known := heard.get(pod.uid)) is not None and known.at is not None and known.asked >= due
        for pod in pods
    )


def is_settled(placement: Placement, record: RunRecord, now: float) -> bool:
    """Whether a run is stuck and it is known who is to blame, or that this will not be known.

    Where commands have supervisors these are asked first what their processes do.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    if not is_stuck(placement, record):
        return False
    if placement.job.run.in_place is None:
        return True
    pods = _supervised(placement, record)
    asked = [at for pod in pods if (at := _asked(placement, record, pod))]
    if not asked:
        return not pods
    if now >= min(asked) + 2 * placement.view.timeouts.report:
        return True
    return len(asked) == len(pods) and all(_report(placement, record, pod) for pod in pods)


def hung(placement: Placement, record: RunRecord, now: float) -> tuple[float, float] | None:
    """From when to when a run hung that is settled now, in seconds since 1970; None if none is.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    if not is_settled(placement, record, now):
        return None
    return _silent_since(placement.view, _at_work(placement, record), record), now


def restarts_to_ask(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """What supervisors are to be asked in a run that is stuck, once that is settled.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    if placement.job.run.in_place is None or not is_settled(placement, record, now):
        return
    message = f"nobody has written anything for {placement.job.run.stuck_after} s"
    for suspect in suspects(placement, record)[:1]:
        message = f"{suspect.pod.name}: {suspect.what}, and {message}"
    asked = restart_request(record.epoch or 0, now, message)
    for found in speakers(placement):
        yield NotifyPod(found.pod.name, found.pod.uid, asked.text)
    yield EmitEvent("RunStuck", f"{message}: its commands are restarted", warning=True)


def reports_to_ask(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """What supervisors are to be asked in a run that is stuck, and when to look at their answers.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    if placement.job.run.in_place is None or not is_stuck(placement, record):
        return
    pods = _supervised(placement, record)
    asked = [at for pod in pods if (at := _asked(placement, record, pod))]
    first = min(asked, default=now)
    if now >= first + 2 * placement.view.timeouts.report:
        return
    why = f"nobody has written anything for {placement.job.run.stuck_after} s"
    signal = placement.job.run.in_place.stack_signal
    word = report_request(record.epoch or 0, first, signal, why)
    for found in speakers(placement):
        if not _asked(placement, record, found.pod):
            yield NotifyPod(found.pod.name, found.pod.uid, word.text)
    for pod in pods:
        role = placement.job.role(pod.role)
        if not _asked(placement, record, pod):
            continue
        if role is not None and not _report(placement, record, pod):
            turn = int((now - first) // _EVERY)
            of = f"{pod.uid}.report.{first:.0f}.{turn}"
            if placement.view.tails.get(pod.uid, Tail("")).of != of:
                most = min(_LINES[turn % len(_LINES)], max(200, _LINES_OF_ALL // len(pods)))
                yield ReadTail(pod.name, pod.uid, role.template.main, of, most)
    yield Requeue(min(now + _EVERY, first + 2 * placement.view.timeouts.report))


class Suspect(Struct, frozen=True):
    """A Pod that all others of its run wait for.

    Args:
        pod: The Pod, one of those that are there.
        what: Why it is the one, in the end of a sentence.
        process: The process that is the reason, by its number in the container.
    """

    pod: PodView
    what: str
    process: int


def suspects(placement: Placement, record: RunRecord) -> list[Suspect]:
    """The Pods that all others wait for, as far as that is known.

    Those whose processes are stopped, or else that wait for a device, or else that are in another
    place of the program than most.

    Args:
        placement: Who is there.
        record: The run record; of a run that is stuck.
    """
    found: dict[str, list[Suspect]] = {}
    pods = {pod.uid: pod for pod in _supervised(placement, record)}
    for pod in pods.values():
        for process, state, name in _processes(_report(placement, record, pod)):
            kind = _STATES.get(state)
            if kind and all(pod is not other.pod for other in found.get(kind, ())):
                what = f"process {process} ({name}) {kind}"
                found.setdefault(kind, []).append(Suspect(pod, what, process))
    if sure := next((found[kind] for kind in _STATES.values() if kind in found), []):
        return sure
    odd = elsewhere({uid: stacks_of(placement, record, pod) for uid, pod in pods.items()})
    return [
        Suspect(
            pods[uid],
            f"process {stack.process} is in {stack.text}, unlike most others",
            stack.process,
        )
        for uid, stack in odd.items()
    ]


_HEAD = re.compile(r"etcompile: .*: these processes run$")
_PROCESS = re.compile(r"etcompile: process (\d{1,9}) (\w) (.{0,64})$")
_STATES = {
    "T": "is stopped by a signal",
    "t": "is stopped by a debugger",
    "D": "waits for a device or a file system",
}
"""What a process does that goes on by itself least of all, the surest first (proc(5), stat)."""


def _report(placement: Placement, record: RunRecord, pod: PodView) -> list[str]:
    """The lines of what its supervisor told when it was asked; none while they are not known."""
    told = _written_since(placement, record, pod)
    heads = [n for n, line in enumerate(told) if _HEAD.match(line)]
    return told[heads[-1] :] if heads else []


def stacks_of(placement: Placement, record: RunRecord, pod: PodView) -> list[Stack]:
    """Where a Pod's processes are, as far as they have said when they were asked.

    Args:
        placement: Who is there.
        record: The run record; of a run that is stuck.
        pod: One of those whose commands have supervisors.
    """
    return stacks(_written_since(placement, record, pod))


def written_before(placement: Placement, record: RunRecord, pod: PodView) -> list[str]:
    """What a Pod's main container wrote last before its supervisor was asked.

    Args:
        placement: Who is there.
        record: The run record; of a run that is stuck.
        pod: One of those whose commands have supervisors.
    """
    tail, asked = placement.view.tails.get(pod.uid), _asked(placement, record, pod)
    told = [line.partition(" ") for line in (tail.lines or ()) if tail] if tail else []
    own = [text for time, _, text in told if not asked or (seconds(time) or 0.0) + 1 < asked]
    return [text for text in own if not text.startswith("etcompile: ")]


def _written_since(placement: Placement, record: RunRecord, pod: PodView) -> list[str]:
    """The lines of a Pod's log since its supervisor was asked; none while they are not known."""
    tail, asked = placement.view.tails.get(pod.uid), _asked(placement, record, pod)
    if tail is None or not asked:
        return []
    told = (line.partition(" ") for line in tail.lines or ())
    # What it told another time says nothing of now.
    return [text for time, _, text in told if (seconds(time) or 0.0) + 1 >= asked]


def _processes(report: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The number, the state and the name of each process of a report."""
    for line in report:
        if told := _PROCESS.match(line):
            yield int(told[1]), told[2], told[3]


def _supervised(placement: Placement, record: RunRecord) -> list[PodView]:
    uids = {found.pod.uid for found in supervised(placement)}
    return [pod for pod in _at_work(placement, record) if pod.uid in uids]


def _asked(placement: Placement, record: RunRecord, pod: PodView) -> float:
    """When its supervisor was asked since the run is stuck, in seconds since 1970; 0 if not."""
    # The supervisor of the first replica tells the others.
    asked = {found.pod.uid: found.pod.notice for found in speakers(placement)}
    notice = asked.get(pod.uid) or next(iter(asked.values()), None)
    if notice is None or not notice.is_report:
        return 0.0
    since = _silent_since(placement.view, _at_work(placement, record), record)
    return notice.at if notice.at + 1 > since else 0.0


def last_to_speak(placement: Placement, record: RunRecord, within: float = 60.0) -> list[PodView]:
    """The Pods that wrote something shortly before all fell silent, in the order of the last lines.

    Args:
        placement: Who is there.
        record: The run record; of a run that is stuck.
        within: Seconds before the very last line.
    """
    pods = _at_work(placement, record)
    last = max((_spoke(placement.view, pod) for pod in pods), default=0.0)
    found = [pod for pod in pods if last and _spoke(placement.view, pod) >= last - within]
    return sorted(found or pods[:1], key=lambda pod: _spoke(placement.view, pod))


def blamed(placement: Placement, record: RunRecord) -> str:
    """The UID of the Pod that counts as lost where a run is stuck; empty if none does.

    One of those that decide about the run: when it goes, its peers notice. Commands that run again
    in place need no Pod to go, and one that a Job of Kubernetes makes is none that comes back here.
    """
    if placement.job.run.in_place is not None or not is_stuck(placement, record):
        return ""
    deciding = placement.job.run.success.roles
    places = sorted(
        (place for place in placement.places if place.pod is not None),
        key=lambda place: place.role.name not in deciding,
    )
    if not places or any(pod.role in deciding for pod in placement.batch):
        return ""
    return places[0].pod.uid if places[0].pod is not None else ""


def launcher_ended(placement: Placement, record: RunRecord) -> Iterator[Action]:
    """The removal of a launcher that hangs and that a Job of Kubernetes makes again."""
    if placement.job.run.in_place is not None or not placement.batch:
        return
    if is_stuck(placement, record):
        for pod in placement.batch:
            message = f"nobody has written anything for {placement.job.run.stuck_after} s"
            yield DeletePod(pod.name, pod.uid, "Stuck")
            yield EmitEvent("RunStuck", f"{message}: deleted", pod.name, pod.uid, warning=True)


def logs_to_read(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """The logs that are to be read, and when to ask again.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    limit = placement.job.run.stuck_after
    pods = _at_work(placement, record) if limit is not None else []
    if limit is None or not pods:
        return
    view = placement.view
    due = _silent_since(view, pods, record) + limit
    if now < due:
        yield Requeue(due)
        return
    first = max(pods, key=lambda pod: _spoke(view, pod))
    known = view.heard.get(first.uid)
    silent = known is not None and known.at is not None and known.asked >= due
    for pod in pods if silent else [first]:
        known = view.heard.get(pod.uid)
        if known is not None and known.at is None and now < known.asked + AGAIN:
            continue
        if known is None or known.at is None or known.asked < due:
            role = placement.job.role(pod.role)
            if role is not None:
                yield ReadLog(pod.name, pod.uid, role.template.main)
    yield Requeue(now + AGAIN)


def _at_work(placement: Placement, record: RunRecord) -> list[PodView]:
    """The Pods that run, if all are there that should be; else none."""
    if record.phase != "Running" or any(r.recovery.relaunch for r in placement.job.roles):
        return []
    found = []
    commands = {found.pod.uid for found in supervised(placement)}

    def runs(pod: PodView) -> bool:
        # A command that is between two epochs has nothing to say.
        ready = pod.ready or pod.uid not in commands
        return ready and pod.phase == "Running" and not pod.deleting and not pod.ending

    for place in placement.places:
        written = record.replica(place.key)
        if written.completed or written.left:
            continue
        if place.pod is None or not runs(place.pod) or place.pod.uid == written.lost:
            return []
        found.append(place.pod)
    batch = [pod for pod in placement.batch if not pod.ended]
    return [*found, *batch] if all(map(runs, batch)) else []


def _spoke(view: JobView, pod: PodView) -> float:
    """When a Pod last wrote something, as far as anybody has asked; 0 if it has not."""
    known = view.heard.get(pod.uid)
    return known.at if known is not None and known.at is not None else 0.0


def _silent_since(view: JobView, pods: list[PodView], record: RunRecord) -> float:
    """Since when nobody has written anything; what has just begun has had no time to."""
    begun = (max(pod.ready_since or 0.0, pod.created, _spoke(view, pod)) for pod in pods)
    failed = (replica.failed_at for _, replica in record.every_replica())
    asked = (pod.notice.at for pod in pods if pod.notice.is_restart)
    return max(*begun, *failed, *asked, record.restarted_at)
