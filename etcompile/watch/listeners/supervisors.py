"""Read what the supervisors in Pods say of epochs, in termination messages and in logs."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from etcompile.causes.log import COMMAND_ENDED, Failure
from etcompile.k8s import pods
from etcompile.k8s.objects import Object, seconds, timestamp
from etcompile.k8s.pod_state import PodState
from etcompile.model import Role
from etcompile.model.run_record import ReplicaKey
from etcompile.model.supervision import (
    UNSUPERVISED,
    UNSUPERVISED_EVENT,
    EpochLine,
    epoch_line,
    first_replica,
)
from etcompile.watch.core.run import Action, EmitEvent, LogRead, ReadLog, Requeue, Run

_PURPOSE = "epochs"
_EVERY = 10.0  # seconds between two reads of a log
_AFTER_FAILURE = 300.0  # the same after one that failed
_READ_IN_TURN = 8  # logs of a job that are read that often; of more, each is read more seldom
_MOST_LINES = 8
_BEGIN = ("etcompile: epoch ", UNSUPERVISED)


class Supervised(Struct, frozen=True):
    """A Pod with a supervisor."""

    role: Role
    key: ReplicaKey
    pod: PodState


def supervised(run: Run) -> list[Supervised]:
    """Return the Pods whose commands restart in place, those of a Job of Kubernetes included."""
    in_place = run.job.run.in_place
    if in_place is None:
        return []  # most jobs
    commands = [
        Supervised(replica.role, replica.key, replica.pod)
        for replica in run.replicas
        if replica.supervised and replica.pod is not None
    ]
    for pod in run.batch:
        role = run.job.role(pod.role)
        if role is not None and role.name in in_place.roles:
            commands.append(Supervised(role, (role.name, pod.index or 0), pod))
    return commands


def speakers(run: Run) -> list[Supervised]:
    """Return whose supervisors speak for the run: the first replica, or all that restart alone."""
    first = first_replica(run.job)
    return [
        command
        for command in supervised(run)
        if first is None
        or (command.role.name, command.pod.index) == (first[0].name, first[1].index)
    ]


def observe(state: PodState, pod: Object, _before: PodState | None) -> PodState:
    """Add the last lines about epochs that containers have ended with, the older one first."""
    lines = []
    for container in pods.containers(pod) if state.exits or state.restarts else ():
        for how in (pods.terminated_before(container), pods.terminated(container)):
            at = seconds(how.get("finishedAt")) or 0.0
            said = (epoch_line(line, at) for line in str(how.get("message") or "").splitlines())
            lines += [line for line in said if line is not None][-_MOST_LINES:]
    return structs.replace(state, epochs=tuple(lines)) if lines else state


def epoch_reports(run: Run) -> Iterator[tuple[Supervised, EpochLine]]:
    """Yield the lines about epochs of the Pods that are there, each Pod's in order."""
    gang = frozenset(run.record.gang)
    for command in supervised(run):
        if command.pod.uid not in gang:
            read = (line.partition(" ") for line in _log(run, command.pod).lines or ())
            lines = (epoch_line(text, seconds(time) or 0.0) for time, _, text in read)
            for line in (*command.pod.epochs, *filter(None, lines)):
                yield command, line


def logs_to_read(run: Run) -> Iterator[Action]:
    record, now = run.record, run.now
    if record.phase != "Running":
        return
    running = [command for command in speakers(run) if command.pod.phase == "Running"]
    every = _EVERY * max(1.0, len(running) / _READ_IN_TURN)
    together = first_replica(run.job) is not None
    begun = timestamp(record.restarted_at) if together and record.restarted_at else ""
    for role, pod in (
        (command.role, command.pod) for command in running if not command.pod.deleting
    ):
        log = _log(run, pod)
        due = log.at + (_AFTER_FAILURE if log.failed else every)
        if now >= due:
            since = log.until or begun
            yield ReadLog(
                pod.name, pod.uid, role.template.main, _PURPOSE, since=since, begin=_BEGIN
            )
            due = now + every
        yield Requeue(due)
        for line in log.lines or ():
            _, is_unsupervised, why = line.partition(f" {UNSUPERVISED}")
            if is_unsupervised:
                yield EmitEvent(UNSUPERVISED_EVENT, why, pod.name, pod.uid, warning=True, once=True)


def _log(run: Run, pod: PodState) -> LogRead:
    return run.view.log(pod.uid, _PURPOSE)


def failed_first(run: Run, line: EpochLine) -> Iterator[Failure]:
    name, index, code = line.failed_first or ("", 0, 0)
    ended = line.epoch - 1 if line.verb == "begins" else line.epoch
    for member in (command for command in supervised(run) if command.key == (name, index)):
        pod = member.pod
        replaced = bool(line.at) and pod.created > line.at
        facts: dict[str, Any] = {
            "attempt": ended,
            "at": line.at or run.now,
            "node": "" if replaced else pod.node,
            "container": member.role.template.main,
            "signal": code - 128 if 128 < code < 160 else 0,
            "message": "its Pod has been replaced since" if replaced else "",
        }
        uid = f"{pod.uid}.epoch-{ended}"
        yield Failure(name, index, pod.name, uid, code=code, reason=COMMAND_ENDED, **facts)
