"""Follow commands that restart in place, as the supervisors in the Pods report it.

The supervisors agree among themselves when commands end and run again, in an epoch of a higher
number (docs/recovery.md). Their lines carry the numbers so far, so it does not matter which of them
the watcher reads, or how often.
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

from etcompile.causes.log import Failure
from etcompile.model.protocol import EPOCH
from etcompile.watch.core.run import (
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    End,
    Listener,
    Restart,
    Run,
)
from etcompile.watch.listeners import supervisors

_MOST_IN_A_ROW = 10  # epochs that may fail soon; after half of them supervisors ask for new Pods


def _before(run: Run) -> Run:
    in_place, begun = run.job.run.in_place, run.record.epoch or 0
    if in_place is None:
        return run
    if run.record.epoch is None and run.record.phase == "Running":
        run = structs.replace(run, record=structs.replace(run.record, epoch=0))
    together, failures = in_place.mode == "together", list[Failure]()
    run = (_of_all if together else _of_each)(run, failures)
    actions, record = [*supervisors.logs_to_read(run)], run.record
    restart = end = None
    for command, line in supervisors.epoch_reports(run):
        current = record.epoch or 0 if together else record.replica(command.key).epoch
        if line.verb == "begins" or line.epoch < current:
            continue
        if line.verb == "is the last" and end is None:
            reason = "BackoffLimitExceeded" if line.at_limit else "PodFailed"
            message = line.why if together else f"{command.pod.name}: {line.why}"
            end = End(reason, message, final=together)
        elif line.verb == "needs new Pods" and run.job.run.together and restart is None:
            restart = Restart(line.why, counted=not line.is_deletion)
        elif line.verb == "needs new Pods" and not (
            together or command.role.batch or command.pod.deleting
        ):
            actions.append(DeletePod(command.pod.name, command.pod.uid, "NeedsNewPod"))
    if end is None and record.restarts_in_a_row > _MOST_IN_A_ROW:
        times = f"{record.restarts_in_a_row} times in a row"
        message = f"it was restarted {times}, and failed each time"
        end = End("RestartsInARow", message, final=True)
    if new := max(0, (record.epoch or 0) - begun):
        actions.append(Count("epochs", new))
    facts = {**run.facts, "reported": tuple(failures)}
    return run.adding(actions, restart=restart, end=end, facts=facts)


def _of_all(run: Run, failures: list[Failure]) -> Run:
    """Learn of the epochs of commands that restart together, and of the failures before them."""
    record, actions = run.record, list[Action]()
    # The time of a line is better known from the log than from a termination message.
    reports = sorted(supervisors.epoch_reports(run), key=lambda report: report[1].at)
    lines = {(line.epoch, line.verb): line for _, line in reversed(reports)}
    for line in sorted(lines.values(), key=lambda line: (line.epoch, line.verb != "begins")):
        if line.epoch < (record.epoch or 0) + (line.verb == "begins"):
            continue
        if line.verb != "begins":
            record = structs.replace(record, restarts=max(record.restarts, line.restarts))
        else:
            at, counted = line.at or run.now, max(0, line.restarts - record.restarts)
            is_recent = at - record.restarted_at < run.timeouts.forget
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
        failures += supervisors.failed_first(run, line)
    return run.adding(actions, record=record)


def _of_each(run: Run, failures: list[Failure]) -> Run:
    """Learn of the epochs of commands that restart alone, and of the failures before them."""
    record, actions = run.record, list[Action]()
    restarts_job = run.job.run.restart == "OnFailure"
    for command, line in supervisors.epoch_reports(run):
        written, role, pod = record.replica(command.key), command.role, command.pod
        if line.epoch < written.epoch + (line.verb == "begins"):
            continue
        counted = max(0, line.restarts - written.restarts)
        # A role with a limit of its own leaves the restarts of the job for when that is reached.
        whole = counted if restarts_job and role.recovery.failures is None else 0
        restarts = max(written.restarts, line.restarts)
        changed = structs.replace(written, epoch=line.epoch, restarts=restarts)
        record = record.with_replicas({command.key: changed})
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
                restarted_at=line.at or run.now,
            )
            message = f"{reason}: its command runs again in the same Pod"
            warning = counted > 0
            actions.append(EmitEvent("CommandRestarted", message, pod.name, pod.uid, warning))
        failures += supervisors.failed_first(run, line)
    return run.adding(actions, record=record)


def _after(run: Run) -> Run:
    """Write the epoch and the restarts so far on the Pods that are created."""
    in_place, record = run.job.run.in_place, run.record
    if in_place is None or record.epoch is None:
        return run

    def numbered(actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            if isinstance(action, CreatePod) and action.role in in_place.roles:
                replica = record.replica((action.role, action.index or 0))
                of = record if in_place.mode == "together" else replica
                notes = {**action.annotations, EPOCH: f"{of.epoch} {of.restarts}"}
                yield structs.replace(action, annotations=notes)
            else:
                yield action

    return structs.replace(run, actions=tuple(numbered(run.actions)))


LISTENER = Listener(
    observe=supervisors.observe,
    before=_before,
    after=_after,
    counters={"epochs": ("Restarts of commands in place, of a run or of a replica.", (), ())},
)
