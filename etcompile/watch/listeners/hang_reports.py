"""Ask supervisors what their processes do before a silent run counts as stuck.

A process that is stopped, or waits for a device, is named, and with `etcompile.dev/stack-signal`
one that is elsewhere in the program than most.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from etcompile.failures.stacks import elsewhere, stacks
from etcompile.k8s.objects import seconds
from etcompile.k8s.pod_state import PodState
from etcompile.model import InPlace
from etcompile.model.notice import REPORT, notice
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.actions import Action, PatchPod, ReadTail, Requeue
from etcompile.watch.core.listener import Before, Listener
from etcompile.watch.core.placement import Placement
from etcompile.watch.core.view import JobView
from etcompile.watch.listeners.in_place import speakers, supervised

_EVERY = 2.0  # seconds until a log is read again in which a supervisor has yet to answer
_LINES_OF_ALL = 100_000  # of the logs of all Pods together, for the stacks of processes
_LINES = (2000, 200, 50)  # of one log, by turns: of too much the API server leaves out the end
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
    """A Pod that all others of its run wait for."""

    pod: PodState
    reason: str  # as the end of a sentence
    process: int  # that is the reason: its number in the container


class Silence(Struct, frozen=True):
    """A run that is at work, and how long nobody of it has written anything."""

    placement: Placement
    epoch: int
    limit: int  # seconds of silence after which it is stuck
    pods: tuple[PodState, ...]
    since: float  # when the last of them wrote something or began, in seconds since 1970
    supervised: tuple[PodState, ...]  # those of them whose commands have supervisors
    speakers: Mapping[str, PodState]  # whose supervisors are asked for the run, by UID

    @property
    def is_stuck(self) -> bool:
        """Whether it has been silent for too long, as of when the logs were last read."""
        logs = [self.placement.view.log(pod.uid) for pod in self.pods]
        due = self.since + self.limit
        return all(log.at is not None and log.read_at >= due for log in logs)

    def is_settled(self, now: float) -> bool:
        """Whether it is stuck, and supervisors have said who is to blame or had their time to."""
        if not self.is_stuck or self.placement.job.run.in_place is None:
            return self.is_stuck
        times = [at for pod in self.supervised if (at := self.requested_at(pod))]
        if not times:
            return not self.supervised
        if now >= min(times) + 2 * self.placement.view.timeouts.report:
            return True
        return len(times) == len(self.supervised) and all(map(self.report_of, self.supervised))

    def requested_at(self, pod: PodState) -> float:
        """When a Pod's supervisor was asked in this silence, in seconds since 1970; 0 if not."""
        # The supervisor of the first replica tells the others.
        speaker = self.speakers.get(pod.uid) or next(iter(self.speakers.values()), None)
        notice = speaker.notice if speaker is not None else None
        new = notice is not None and notice.is_report and notice.at + 1 > self.since
        return notice.at if notice is not None and new else 0.0

    def suspects(self) -> list[Suspect]:
        """The Pods that all others wait for, as far as that is known.

        Those whose processes are stopped, or else that wait for a device, or else that are in
        another place of the program than most.
        """
        by_state: dict[str, dict[str, Suspect]] = {state: {} for state in _STATES}
        for pod in self.supervised:
            for match in filter(None, map(_PROCESS.match, self.report_of(pod))):
                process, state = int(match[1]), match[2]
                if state in _STATES:
                    reason = f"process {process} ({match[3]}) {_STATES[state]}"
                    by_state[state].setdefault(pod.uid, Suspect(pod, reason, process))
        for suspects in by_state.values():
            if suspects:
                return [*suspects.values()]
        pods = {pod.uid: pod for pod in self.supervised}
        return [
            Suspect(
                pods[uid],
                f"process {stack.process} is in {stack.text}, unlike most others",
                stack.process,
            )
            for uid, stack in elsewhere(
                {uid: stacks(self.written(pods[uid])) for uid in pods}
            ).items()
        ]

    def report_of(self, pod: PodState) -> list[str]:
        """The lines of its supervisor's answer; none while it is not known."""
        lines = self.written(pod)
        heads = [n for n, line in enumerate(lines) if _HEAD.match(line)]
        return lines[heads[-1] :] if heads else []

    def written(self, pod: PodState, *, since: bool = True) -> list[str]:
        """The last lines of a log that were read, since the supervisor was asked or before."""
        requested = self.requested_at(pod)
        lines = [line.partition(" ") for line in self.placement.view.log(pod.uid).tail or ()]
        if not requested:
            return [] if since else [text for _, _, text in lines]
        return [
            text for time, _, text in lines if ((seconds(time) or 0.0) + 1 >= requested) is since
        ]

    def last_to_speak(self) -> list[PodState]:
        """The Pods that wrote within a minute before all fell silent, by time of the last lines."""
        view = self.placement.view
        last = max(_spoke(view, pod) for pod in self.pods)
        pods = [pod for pod in self.pods if last and _spoke(view, pod) >= last - 60.0]
        return sorted(pods or self.pods[:1], key=lambda pod: _spoke(view, pod))


def silence_of(placement: Placement, record: RunRecord) -> Silence | None:
    """How long a run has been silent; None without a limit, or if not all Pods are at work."""
    view, job = placement.view, placement.job
    limit = job.run.stuck_after
    if limit is None or record.phase != "Running":
        return None
    if any(role.recovery.relaunch for role in job.roles):
        return None
    commands = {own.pod.uid for own in supervised(placement)}

    def runs(pod: PodState) -> bool:
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


def _reports(silence: Silence, in_place: InPlace, now: float, why: str) -> Iterator[Action]:
    """Yield the questions to supervisors, and the logs that have their answers."""
    view, pods = silence.placement.view, silence.supervised
    first = min((at for pod in pods if (at := silence.requested_at(pod))), default=now)
    end = first + 2 * view.timeouts.report
    if now >= end:
        return
    signal = in_place.stack_signal
    word = REPORT if signal is None else f"{REPORT}+{signal}"
    request = notice(silence.epoch, first, word, why)
    for pod in silence.speakers.values():
        if not silence.requested_at(pod):
            yield PatchPod("notify", pod.name, pod.uid, request.text)
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


def _spoke(view: JobView, pod: PodState) -> float:
    return view.log(pod.uid).at or 0.0


def _before(placement: Placement, before: Before, now: float) -> Before:
    silence, in_place = silence_of(placement, before.record), placement.job.run.in_place
    if silence is None:
        return before
    actions: list[Action] = []
    if in_place is not None and silence.is_stuck:
        why = f"no replica has logged anything for {silence.limit} s"
        actions += _reports(silence, in_place, now, why)
    return before.adding(actions=actions, facts={"silence": silence})


LISTENER = Listener(before=_before)
