"""Epochs of commands that restart in place, as the supervisors in the Pods report them.

The supervisors agree among themselves when commands are ended and run again (docs/recovery.md). The
watcher brings back Pods that are gone, and learns of epochs from lines of logs, where it may read
them, and from termination messages. The lines carry the numbers so far, so it does not matter which
of them are seen, or how often.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from etcompile.failures.log import COMMAND_ENDED, Failure
from etcompile.k8s.objects import timestamp
from etcompile.model import Role
from etcompile.model.run_record import ReplicaKey, RunRecord
from etcompile.model.supervision import EpochLine, first_replica
from etcompile.watch.actions import (
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReadEpochs,
    Requeue,
)
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.pod_placement import Placement

_EVERY = 10.0  # seconds between two looks at a log
_READ_IN_TURN = 8  # logs of a job that are read that often; of more, each is read more seldom


class Supervised(Struct, frozen=True):
    """A Pod with a supervisor."""

    role: Role
    key: ReplicaKey
    pod: PodView


def supervised(placement: Placement) -> list[Supervised]:
    """The Pods whose commands restart in place, those of a Job of Kubernetes included."""
    in_place = placement.job.run.in_place
    if in_place is None:
        return []  # most jobs, and this is asked several times in a look
    pods = [
        Supervised(replica.role, replica.key, replica.pod)
        for replica in placement.replicas
        if replica.supervised and replica.pod is not None
    ]
    for pod in placement.batch:
        role = placement.job.role(pod.role)
        if role is not None and role.name in in_place.roles:
            pods.append(Supervised(role, (role.name, pod.index or 0), pod))
    return pods


def speakers(placement: Placement) -> list[Supervised]:
    """Whose supervisors speak for the run: the first replica, or all if each restarts alone."""
    first = first_replica(placement.job)
    return [
        own
        for own in supervised(placement)
        if first is None or (own.role.name, own.pod.index) == (first[0].name, first[1].index)
    ]


def logs_to_read(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """The logs that are to be read for what they say of epochs, and when to ask again."""
    if record.phase != "Running":
        return
    running = [speaker for speaker in speakers(placement) if speaker.pod.phase == "Running"]
    every = _EVERY * max(1.0, len(running) / _READ_IN_TURN)
    together = first_replica(placement.job) is not None
    begun = timestamp(record.restarted_at) if together and record.restarted_at else ""
    for role, pod in ((own.role, own.pod) for own in running if not own.pod.deleting):
        log = placement.view.log(pod.uid)
        if now >= log.epochs_due:
            log = structs.replace(log, epochs_due=now + every)
            since = log.epochs_until or begun
            yield ReadEpochs(pod.name, pod.uid, role.template.main, log, since)
        yield Requeue(log.epochs_due)


def learned(placement: Placement, record: RunRecord, now: float) -> Decision:
    """The record, with the epochs that the supervisors have reported."""
    in_place = placement.job.run.in_place
    if in_place is None:
        return Decision(record)
    if record.epoch is None and record.phase == "Running":
        record = structs.replace(record, epoch=0)
    return (_of_all if in_place.mode == "together" else _of_each)(placement, record, now)


def _of_all(placement: Placement, record: RunRecord, now: float) -> Decision:
    forget = placement.view.timeouts.forget
    actions: list[Action] = []
    failures: list[Failure] = []
    # The time of a line is better known from the log than from a termination message.
    reports = sorted(_reports(placement, record), key=lambda report: report[1].at)
    lines = {(line.epoch, line.verb): line for _, line in reversed(reports)}
    for line in sorted(lines.values(), key=lambda line: (line.epoch, line.verb != "begins")):
        if line.epoch < (record.epoch or 0):
            continue
        if line.verb != "begins":
            record = structs.replace(record, restarts=max(record.restarts, line.restarts))
        elif line.epoch > (record.epoch or 0):
            at = line.at or now
            counted = max(0, line.restarts - record.restarts)
            row = record.restarts_in_a_row if at - record.restarted_at < forget else 0
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
        else:
            continue
        failures += _failed_first(placement, line, now)
    return Decision(record, actions, failures)


def _of_each(placement: Placement, record: RunRecord, now: float) -> Decision:
    actions: list[Action] = []
    failures: list[Failure] = []
    run = placement.job.run
    for speaker, line in _reports(placement, record):
        written, role, pod = record.replica(speaker.key), speaker.role, speaker.pod
        counted = max(0, line.restarts - written.restarts)
        if line.epoch < written.epoch or (line.verb == "begins" and line.epoch == written.epoch):
            continue
        # A role with a limit of its own leaves the restarts of the job for when that is reached.
        whole = counted if run.restart == "OnFailure" and role.recovery.failures is None else 0
        changed = structs.replace(
            written, epoch=line.epoch, restarts=max(written.restarts, line.restarts)
        )
        record = record.with_replicas({speaker.key: changed})
        record = structs.replace(record, restarts=record.restarts + whole)
        if counted:
            replaced = {**record.replaced, role.name: record.replaced.get(role.name, 0) + counted}
            record = structs.replace(record, replaced=replaced)
        if line.verb == "begins":
            reason = f"{pod.name}: {line.why}"
            record = structs.replace(
                record,
                epoch=(record.epoch or 0) + line.epoch - written.epoch,
                epoch_reason=reason,
                restarted_at=line.at or now,
            )
            message = f"{reason}: its command runs again in the same Pod"
            actions.append(
                EmitEvent("CommandRestarted", message, pod.name, pod.uid, warning=counted > 0)
            )
        failures += _failed_first(placement, line, now)
    return Decision(record, actions, failures)


def _reports(placement: Placement, record: RunRecord) -> Iterator[tuple[Supervised, EpochLine]]:
    """The lines about epochs of the Pods that are there, each Pod's in order."""
    gang = frozenset(record.gang)
    for speaker in supervised(placement):
        if speaker.pod.uid not in gang:
            for line in (*speaker.pod.epochs, *placement.view.log(speaker.pod.uid).epochs):
                yield speaker, line


def _failed_first(placement: Placement, line: EpochLine, now: float) -> Iterator[Failure]:
    if line.failed_first is None:
        return
    name, index, code = line.failed_first
    ended = line.epoch - 1 if line.verb == "begins" else line.epoch
    for member in (own for own in supervised(placement) if own.key == (name, index)):
        pod = member.pod
        replaced = bool(line.at) and pod.created > line.at
        yield Failure(
            name,
            index,
            pod.name,
            f"{pod.uid}.epoch-{ended}",
            attempt=ended,
            at=line.at or now,
            node="" if replaced else pod.node,
            container=member.role.template.main,
            code=code,
            signal=code - 128 if 128 < code < 160 else 0,
            reason=COMMAND_ENDED,
            message="its Pod has been replaced since" if replaced else "",
        )


def verdicts(placement: Placement, record: RunRecord) -> list[tuple[Supervised, EpochLine]]:
    """What supervisors have ended the commands for, and what is to become of the Pods then."""
    together = first_replica(placement.job) is not None
    return [
        (speaker, line)
        for speaker, line in _reports(placement, record)
        if line.verb != "begins"
        and line.epoch >= ((record.epoch or 0) if together else record.replica(speaker.key).epoch)
    ]


def new_pods(placement: Placement, record: RunRecord) -> Iterator[Action]:
    """The removal of Pods that are to be created again, where each replica restarts by itself."""
    if first_replica(placement.job) is not None:
        return
    for speaker, line in verdicts(placement, record):
        if line.verb == "needs new Pods" and not (speaker.role.batch or speaker.pod.deleting):
            yield DeletePod(speaker.pod.name, speaker.pod.uid, "NeedsNewPod")


def numbered(placement: Placement, record: RunRecord, actions: Sequence[Action]) -> list[Action]:
    """Actions, with the epoch and the restarts so far on the Pods that they create."""
    in_place, changed = placement.job.run.in_place, [*actions]
    if in_place is None or record.epoch is None:
        return changed
    for place, action in enumerate(actions):
        if isinstance(action, CreatePod) and action.role in in_place.roles:
            own = record.replica((action.role, action.index or 0))
            of = record if in_place.mode == "together" else own
            changed[place] = structs.replace(action, epoch=f"{of.epoch} {of.restarts}")
    return changed
