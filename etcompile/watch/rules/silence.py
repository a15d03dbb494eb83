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
from collections.abc import Iterator, Mapping

from msgspec import Struct

from etcompile.failures.stacks import Stack, elsewhere, stacks
from etcompile.k8s.objects import seconds
from etcompile.model import InPlace
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
from etcompile.watch.job_view import JobView
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.epochs import speakers, supervised
from etcompile.watch.rules.pod_placement import Placement

_EVERY = 2.0
"""Seconds until a log is read again in which a supervisor has yet to tell what its processes do."""
_LINES_OF_ALL = 100_000
"""Of the logs of all Pods together, in which processes have written where each thread is."""
_LINES = (2000, 200, 50)
"""Of one log, by turns: of one that is too long as text, the API server leaves out the end."""
AGAIN = 60.0
"""Seconds until a log is asked for again that could not be read."""
_HEAD = re.compile(r"etcompile: .*: these processes run$")
_PROCESS = re.compile(r"etcompile: process (\d{1,9}) (\w) (.{0,64})$")
_STATES = {
    "T": "is stopped by a signal",
    "t": "is stopped by a debugger",
    "D": "waits for a device or a file system",
}
"""What a process does that goes on by itself least of all, the surest first (proc(5), stat)."""


class Suspect(Struct, frozen=True):
    """A Pod that all others of its run wait for.

    Args:
        reason: Why it is the one, as the end of a sentence.
        process: The process that is the reason, by its number in the container.
    """

    pod: PodView
    reason: str
    process: int


class Silence(Struct, frozen=True):
    """A run that is at work, and how long nobody of it has written anything.

    Args:
        epoch: The epoch that the run is in.
        limit: Seconds of silence after which it is stuck.
        pods: Its Pods, all of them at work.
        since: When the last of them wrote something or began, in seconds since 1970.
        supervised: Those of them whose commands have supervisors.
        speakers: The Pods whose supervisors are asked for the run, by UID.
    """

    placement: Placement
    epoch: int
    limit: int
    pods: tuple[PodView, ...]
    since: float
    supervised: tuple[PodView, ...]
    speakers: Mapping[str, PodView]

    @property
    def is_stuck(self) -> bool:
        """Whether it has been silent for too long, as of when the logs were last read."""
        logs = [self.placement.view.log(pod.uid) for pod in self.pods]
        due = self.since + self.limit
        return all(log.at is not None and log.read_at >= due for log in logs)

    def is_settled(self, now: float) -> bool:
        """Whether it is stuck, and supervisors have said who is to blame or had their time to."""
        if not self.is_stuck:
            return False
        if self.placement.job.run.in_place is None:
            return True
        times = [at for pod in self.supervised if (at := self.requested_at(pod))]
        if not times:
            return not self.supervised
        if now >= min(times) + 2 * self.placement.view.timeouts.report:
            return True
        return len(times) == len(self.supervised) and all(map(self.report_of, self.supervised))

    def requested_at(self, pod: PodView) -> float:
        """When a Pod's supervisor was asked in this silence, in seconds since 1970; 0 if not."""
        # The supervisor of the first replica tells the others.
        speaker = self.speakers.get(pod.uid) or next(iter(self.speakers.values()), None)
        if speaker is None or not speaker.notice.is_report:
            return 0.0
        return speaker.notice.at if speaker.notice.at + 1 > self.since else 0.0

    def suspects(self) -> list[Suspect]:
        """The Pods that all others wait for, as far as that is known.

        Those whose processes are stopped, or else that wait for a device, or else that are in
        another place of the program than most.
        """
        by_state: dict[str, list[Suspect]] = {}
        for pod in self.supervised:
            for line in self.report_of(pod):
                match = _PROCESS.match(line)
                state = _STATES.get(match[2]) if match else None
                if match is None or state is None:
                    continue
                suspects = by_state.setdefault(state, [])
                if all(pod is not other.pod for other in suspects):
                    reason = f"process {int(match[1])} ({match[3]}) {state}"
                    suspects.append(Suspect(pod, reason, int(match[1])))
        for state in _STATES.values():
            if state in by_state:
                return by_state[state]
        pods = {pod.uid: pod for pod in self.supervised}
        odd = elsewhere({pod.uid: self.stacks_of(pod) for pod in self.supervised})
        return [
            Suspect(
                pods[uid],
                f"process {stack.process} is in {stack.text}, unlike most others",
                stack.process,
            )
            for uid, stack in odd.items()
        ]

    def stacks_of(self, pod: PodView) -> list[Stack]:
        """Where a Pod's processes are, as far as they have said when they were asked."""
        return stacks(self._written_since(pod))

    def written_before(self, pod: PodView) -> list[str]:
        """What a Pod's main container wrote last before its supervisor was asked."""
        requested = self.requested_at(pod)
        own = [text for at, text in self._written(pod) if not requested or at + 1 < requested]
        return [text for text in own if not text.startswith("etcompile: ")]

    def last_to_speak(self, within: float = 60.0) -> list[PodView]:
        """The Pods that wrote something shortly before all fell silent, in order of the last lines.

        Args:
            within: Seconds before the very last line.
        """
        view = self.placement.view
        last = max(_spoke(view, pod) for pod in self.pods)
        pods = [pod for pod in self.pods if last and _spoke(view, pod) >= last - within]
        return sorted(pods or self.pods[:1], key=lambda pod: _spoke(view, pod))

    def report_of(self, pod: PodView) -> list[str]:
        """The lines of its supervisor's answer; none while it is not known."""
        lines = self._written_since(pod)
        heads = [n for n, line in enumerate(lines) if _HEAD.match(line)]
        return lines[heads[-1] :] if heads else []

    def _written_since(self, pod: PodView) -> list[str]:
        """The lines of a Pod's log since its supervisor was asked, as far as they were read."""
        requested = self.requested_at(pod)
        # What it told another time says nothing of now.
        return [text for at, text in self._written(pod) if at + 1 >= requested] if requested else []

    def _written(self, pod: PodView) -> Iterator[tuple[float, str]]:
        """The last lines of a Pod's log that were read, each with its time."""
        for line in self.placement.view.log(pod.uid).tail or ():
            time, _, text = line.partition(" ")
            yield seconds(time) or 0.0, text


def silence_of(placement: Placement, record: RunRecord) -> Silence | None:
    """How long a run has been silent; None without a limit, or if not all Pods are at work."""
    view, job = placement.view, placement.job
    limit = job.run.stuck_after
    if limit is None or record.phase != "Running":
        return None
    if any(role.recovery.relaunch for role in job.roles):
        return None
    commands = {own.pod.uid for own in supervised(placement)}

    def runs(pod: PodView) -> bool:
        # A command that is between two epochs has nothing to say.
        ready = pod.ready or pod.uid not in commands
        return ready and pod.phase == "Running" and not pod.deleting and not pod.ending

    pods = []
    for replica in placement.replicas:
        written = record.replica(replica.key)
        if written.completed or written.left:
            continue
        if replica.pod is None or not runs(replica.pod) or replica.pod.uid == written.lost:
            return None
        pods.append(replica.pod)
    batch = [pod for pod in placement.batch if not pod.ended]
    pods += batch
    if not pods or not all(map(runs, batch)):
        return None
    # What has just begun has had no time to write anything.
    begun = (max(pod.ready_since or 0.0, pod.created, _spoke(view, pod)) for pod in pods)
    failed = (replica.failed_at for _, replica in record.every_replica())
    requested = (pod.notice.at for pod in pods if pod.notice.is_restart)
    return Silence(
        placement,
        record.epoch or 0,
        limit,
        tuple(pods),
        max(*begun, *failed, *requested, record.restarted_at),
        tuple(pod for pod in pods if pod.uid in commands),
        {own.pod.uid: own.pod for own in speakers(placement)},
    )


def broken(silence: Silence, now: float) -> Iterator[Action]:
    """What is to be done about a silence: logs to read, questions, and in the end restarts."""
    in_place = silence.placement.job.run.in_place
    quiet = f"no replica has logged anything for {silence.limit} s"
    if in_place is None and silence.is_stuck:
        for pod in silence.placement.batch:  # a launcher, which its Job creates again
            yield DeletePod(pod.name, pod.uid, "Stuck")
            yield EmitEvent("RunStuck", f"{quiet}: deleted", pod.name, pod.uid, warning=True)
    yield from _logs_to_read(silence, now)
    if in_place is None or not silence.is_stuck:
        return
    yield from _reports(silence, in_place, now, quiet)
    if silence.is_settled(now):
        message = quiet
        for suspect in silence.suspects()[:1]:
            message = f"{suspect.pod.name}: {suspect.reason}, and {quiet}"
        request = restart_request(silence.epoch, now, message)
        for pod in silence.speakers.values():
            yield NotifyPod(pod.name, pod.uid, request.text)
        yield EmitEvent("RunStuck", f"{message}: its commands are restarted", warning=True)


def _reports(silence: Silence, in_place: InPlace, now: float, why: str) -> Iterator[Action]:
    """Asks supervisors what their processes do, and when to look at their answers."""
    view, pods = silence.placement.view, silence.supervised
    first = min((at for pod in pods if (at := silence.requested_at(pod))), default=now)
    end = first + 2 * view.timeouts.report
    if now >= end:
        return
    request = report_request(silence.epoch, first, in_place.stack_signal, why)
    for pod in silence.speakers.values():
        if not silence.requested_at(pod):
            yield NotifyPod(pod.name, pod.uid, request.text)
    turn = int((now - first) // _EVERY)
    most = min(_LINES[turn % len(_LINES)], max(200, _LINES_OF_ALL // max(1, len(pods))))
    for pod in pods:
        role = silence.placement.job.role(pod.role)
        if role is None or not silence.requested_at(pod) or silence.report_of(pod):
            continue
        of = f"{pod.uid}.report.{first:.0f}.{turn}"
        if view.log(pod.uid).tail_of != of:
            yield ReadTail(pod.name, pod.uid, role.template.main, of, most)
    yield Requeue(min(now + _EVERY, end))


def blamed(silence: Silence | None) -> str:
    """The UID of the Pod that counts as lost where a run is stuck; empty if none does.

    One of those that decide about the run: when it goes, its peers notice. Commands that run again
    in place need no Pod to go, and one that a Job of Kubernetes makes is none that comes back here.
    """
    if silence is None or silence.placement.job.run.in_place is not None or not silence.is_stuck:
        return ""
    deciding = silence.placement.job.run.success.roles
    if any(pod.role in deciding for pod in silence.placement.batch):
        return ""
    own = [
        (replica.role.name, replica.pod.uid)
        for replica in silence.placement.replicas
        if replica.pod
    ]
    return min(own, key=lambda item: item[0] not in deciding, default=("", ""))[1]


def _logs_to_read(silence: Silence, now: float) -> Iterator[Action]:
    view, due = silence.placement.view, silence.since + silence.limit
    if now < due:
        yield Requeue(due)
        return
    first = max(silence.pods, key=lambda pod: _spoke(view, pod))
    log = view.log(first.uid)
    silent = log.at is not None and log.read_at >= due
    for pod in silence.pods if silent else [first]:
        log = view.log(pod.uid)
        if log.at is None and now < log.read_at + AGAIN:
            continue
        if log.at is None or log.read_at < due:
            role = silence.placement.job.role(pod.role)
            if role is not None:
                yield ReadLog(pod.name, pod.uid, role.template.main)
    yield Requeue(now + AGAIN)


def _spoke(view: JobView, pod: PodView) -> float:
    """When a Pod last wrote something, as far as anybody has asked; 0 if it has not."""
    return view.log(pod.uid).at or 0.0
