"""Follow commands that restart in place, as the supervisors in the Pods report it.

The supervisors agree among themselves when commands end and run again, in an epoch of a higher
number (docs/recovery.md). The watcher recreates Pods that are gone, and learns of epochs from
termination messages and, where it may read them, from logs. Their lines carry the numbers so far,
so it does not matter which of them are read, or how often.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from etcompile.failures.log import COMMAND_ENDED, Failure
from etcompile.k8s import pods
from etcompile.k8s.objects import Object, seconds, timestamp
from etcompile.k8s.pod_state import PodState
from etcompile.model import Role
from etcompile.model.protocol import EPOCH
from etcompile.model.run_record import ReplicaKey, RunRecord
from etcompile.model.supervision import (
    UNSUPERVISED,
    UNSUPERVISED_EVENT,
    EpochLine,
    epoch_line,
    first_replica,
)
from etcompile.watch.core.actions import (
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    ReadLines,
    Requeue,
)
from etcompile.watch.core.listener import Before, End, Listener, Outcome, Restart
from etcompile.watch.core.placement import Placement

_EVERY = 10.0  # seconds between two looks at a log
_READ_IN_TURN = 8  # logs of a job that are read that often; of more, each is read more seldom
_MOST_LINES = 8
_MOST_IN_A_ROW = 10
"""Epochs in a row that may fail soon. After half of them supervisors ask for new Pods."""
_BEGIN = ("etcompile: epoch ", UNSUPERVISED)


class Supervised(Struct, frozen=True):
    """A Pod with a supervisor."""

    role: Role
    key: ReplicaKey
    pod: PodState


def supervised(placement: Placement) -> list[Supervised]:
    """Return the Pods whose commands restart in place, those of a Job of Kubernetes included."""
    in_place = placement.job.run.in_place
    if in_place is None:
        return []  # most jobs
    own = [
        Supervised(replica.role, replica.key, replica.pod)
        for replica in placement.replicas
        if replica.supervised and replica.pod is not None
    ]
    for pod in placement.batch:
        role = placement.job.role(pod.role)
        if role is not None and role.name in in_place.roles:
            own.append(Supervised(role, (role.name, pod.index or 0), pod))
    return own


def speakers(placement: Placement) -> list[Supervised]:
    """Return whose supervisors speak for the run: the first replica, or all that restart alone."""
    first = first_replica(placement.job)
    return [
        own
        for own in supervised(placement)
        if first is None or (own.role.name, own.pod.index) == (first[0].name, first[1].index)
    ]


def _observe(state: PodState, pod: Object, _before: PodState | None) -> PodState:
    """Add the last lines about epochs that containers have ended with, the older one first."""
    lines = []
    for container in pods.containers(pod) if state.exits or state.restarts else ():
        for how in (pods.terminated_before(container), pods.terminated(container)):
            at = seconds(how.get("finishedAt")) or 0.0
            said = (epoch_line(line, at) for line in str(how.get("message") or "").splitlines())
            lines += [line for line in said if line is not None][-_MOST_LINES:]
    return structs.replace(state, epochs=tuple(lines)) if lines else state


def _reports(placement: Placement, record: RunRecord) -> Iterator[tuple[Supervised, EpochLine]]:
    """Yield the lines about epochs of the Pods that are there, each Pod's in order."""
    gang = frozenset(record.gang)
    for own in supervised(placement):
        if own.pod.uid not in gang:
            read = (epoch_line(text, at) for at, text in placement.view.log(own.pod.uid).lines)
            for line in (*own.pod.epochs, *filter(None, read)):
                yield own, line


def _before(placement: Placement, before: Before, now: float) -> Before:
    in_place, record = placement.job.run.in_place, before.record
    if in_place is None:
        return before
    if record.epoch is None and record.phase == "Running":
        record = structs.replace(record, epoch=0)
    together, begun = in_place.mode == "together", record
    learned = _of_all if together else _of_each
    record, actions, failures = learned(placement, record, now)
    actions += _logs_to_read(placement, record, now)
    restart = end = None
    for own, line in _reports(placement, record):
        current = record.epoch or 0 if together else record.replica(own.key).epoch
        if line.verb == "begins" or line.epoch < current:
            continue
        if line.verb == "is the last" and end is None:
            reason = "BackoffLimitExceeded" if line.at_limit else "PodFailed"
            message = line.why if together else f"{own.pod.name}: {line.why}"
            end = End(reason, message, final=together)
        elif line.verb == "needs new Pods" and placement.job.run.together and restart is None:
            restart = Restart(line.why, counted=not line.is_deletion)
        elif line.verb == "needs new Pods" and not (together or own.role.batch or own.pod.deleting):
            actions.append(DeletePod(own.pod.name, own.pod.uid, "NeedsNewPod"))
    if end is None and record.restarts_in_a_row > _MOST_IN_A_ROW:
        times = f"{record.restarts_in_a_row} times in a row"
        message = f"it was restarted {times}, and failed each time"
        end = End("RestartsInARow", message, final=True)
    if new := max(0, (record.epoch or 0) - (begun.epoch or 0)):
        actions.append(Count("epochs", new))
    facts = {"reported": tuple(failures)}
    return before.adding(record=record, actions=actions, restart=restart, end=end, facts=facts)


_Learned = tuple[RunRecord, list[Action], list[Failure]]


def _of_all(placement: Placement, record: RunRecord, now: float) -> _Learned:
    actions: list[Action] = []
    failures: list[Failure] = []
    # The time of a line is better known from the log than from a termination message.
    reports = sorted(_reports(placement, record), key=lambda report: report[1].at)
    lines = {(line.epoch, line.verb): line for _, line in reversed(reports)}
    for line in sorted(lines.values(), key=lambda line: (line.epoch, line.verb != "begins")):
        if line.epoch < (record.epoch or 0) + (line.verb == "begins"):
            continue
        if line.verb != "begins":
            record = structs.replace(record, restarts=max(record.restarts, line.restarts))
        else:
            at, counted = line.at or now, max(0, line.restarts - record.restarts)
            is_recent = at - record.restarted_at < placement.view.timeouts.forget
            row = record.restarts_in_a_row if is_recent else 0
            record = structs.replace(
                record,
                epoch=line.epoch,
                epoch_reason=line.why,
                restarts=record.restarts + counted,
                restarted_at=at,
                restarts_in_a_row=max(row + counted, line.in_a_row),
            )
            message = f"{line.why}: epoch {line.epoch} begins in the existing Pods"
            actions.append(EmitEvent("EpochBegins", message, warning=counted > 0))
        failures += _failed_first(placement, line, now)
    return record, actions, failures


def _of_each(placement: Placement, record: RunRecord, now: float) -> _Learned:
    actions: list[Action] = []
    failures: list[Failure] = []
    run = placement.job.run
    for own, line in _reports(placement, record):
        written, role, pod = record.replica(own.key), own.role, own.pod
        if line.epoch < written.epoch + (line.verb == "begins"):
            continue
        counted = max(0, line.restarts - written.restarts)
        # A role with a limit of its own leaves the restarts of the job for when that is reached.
        whole = counted if run.restart == "OnFailure" and role.recovery.failures is None else 0
        restarts = max(written.restarts, line.restarts)
        changed = structs.replace(written, epoch=line.epoch, restarts=restarts)
        record = record.with_replicas({own.key: changed})
        record = structs.replace(record, restarts=record.restarts + whole)
        if counted:
            replaced = {**record.replaced, role.name: record.replaced.get(role.name, 0) + counted}
            record = structs.replace(record, replaced=replaced)
        if line.verb == "begins":
            reason, sum_of_all = f"{pod.name}: {line.why}", (record.epoch or 0) - written.epoch
            record = structs.replace(
                record,
                epoch=sum_of_all + line.epoch,
                epoch_reason=reason,
                restarted_at=line.at or now,
            )
            message = f"{reason}: its command runs again in the same Pod"
            warning = counted > 0
            actions.append(EmitEvent("CommandRestarted", message, pod.name, pod.uid, warning))
        failures += _failed_first(placement, line, now)
    return record, actions, failures


def _failed_first(placement: Placement, line: EpochLine, now: float) -> Iterator[Failure]:
    name, index, code = line.failed_first or ("", 0, 0)
    ended = line.epoch - 1 if line.verb == "begins" else line.epoch
    for member in (own for own in supervised(placement) if own.key == (name, index)):
        pod = member.pod
        replaced = bool(line.at) and pod.created > line.at
        facts: dict[str, Any] = {
            "attempt": ended,
            "at": line.at or now,
            "node": "" if replaced else pod.node,
            "container": member.role.template.main,
            "signal": code - 128 if 128 < code < 160 else 0,
            "message": "its Pod has been replaced since" if replaced else "",
        }
        uid = f"{pod.uid}.epoch-{ended}"
        yield Failure(name, index, pod.name, uid, code=code, reason=COMMAND_ENDED, **facts)


def _logs_to_read(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """Yield the logs to be read for what they say of epochs, and when to look again."""
    if record.phase != "Running":
        return
    running = [own for own in speakers(placement) if own.pod.phase == "Running"]
    every = _EVERY * max(1.0, len(running) / _READ_IN_TURN)
    together = first_replica(placement.job) is not None
    begun = timestamp(record.restarted_at) if together and record.restarted_at else ""
    for role, pod in ((own.role, own.pod) for own in running if not own.pod.deleting):
        log = placement.view.log(pod.uid)
        if now >= log.lines_due:
            log = structs.replace(log, lines_due=now + every)
            since, warning = log.lines_until or begun, (UNSUPERVISED, UNSUPERVISED_EVENT)
            yield ReadLines(pod.name, pod.uid, role.template.main, log, since, _BEGIN, warning)
        yield Requeue(log.lines_due)


def _after(outcome: Outcome) -> Outcome:
    """Write the epoch and the restarts so far on the Pods that are created."""
    in_place, record = outcome.placement.job.run.in_place, outcome.record
    if in_place is None or record.epoch is None:
        return outcome

    def numbered(actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            if isinstance(action, CreatePod) and action.role in in_place.roles:
                own = record.replica((action.role, action.index or 0))
                of = record if in_place.mode == "together" else own
                notes = {**action.annotations, EPOCH: f"{of.epoch} {of.restarts}"}
                yield structs.replace(action, annotations=notes)
            else:
                yield action

    return structs.replace(outcome, actions=tuple(numbered(outcome.actions)))


LISTENER = Listener(
    observe=_observe,
    before=_before,
    after=_after,
    counters={
        "epochs": ("Restarts of commands in place, of a whole run or of one replica.", (), ())
    },
)
