"""Ask supervisors what their processes do before a silent run counts as stuck.

With `etcompile.dev/stack-signal` a program writes where each of its threads is.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from etcompile.failures.stacks import elsewhere, stacks
from etcompile.k8s.pod_state import PodState
from etcompile.model import InPlace
from etcompile.model.notice import REPORT, notice
from etcompile.watch.core.actions import Action, PatchPod, ReadTail, Requeue
from etcompile.watch.core.listener import Before, Listener
from etcompile.watch.core.placement import Placement
from etcompile.watch.listeners.silences import Silence, silence_of

_EVERY = 2.0  # seconds until a log is read again in which a supervisor has yet to answer
_LINES_OF_ALL = 100_000  # of the logs of all Pods together, for the stacks of processes
_LINES = (2000, 200, 50)  # of one log, by turns: of too much the API server leaves out the end


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


def suspects(silence: Silence) -> list[Suspect]:
    """Return the Pods that all others wait for, as far as that is known.

    Those whose processes are stopped, or else that wait for a device, or else that are in
    another place of the program than most.
    """
    by_state: dict[str, dict[str, Suspect]] = {state: {} for state in _STATES}
    for pod in silence.supervised:
        for match in filter(None, map(_PROCESS.match, silence.report_of(pod))):
            process, state = int(match[1]), match[2]
            if state in _STATES:
                reason = f"process {process} ({match[3]}) {_STATES[state]}"
                by_state[state].setdefault(pod.uid, Suspect(pod, reason, process))
    for suspects in by_state.values():
        if suspects:
            return [*suspects.values()]
    pods = {pod.uid: pod for pod in silence.supervised}
    return [
        Suspect(
            pods[uid],
            f"process {stack.process} is in {stack.text}, unlike most others",
            stack.process,
        )
        for uid, stack in elsewhere(
            {uid: stacks(silence.written(pods[uid])) for uid in pods}
        ).items()
    ]


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
