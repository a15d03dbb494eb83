"""What there is to see of a run, into its record: who was there, who is done, when it began.

It is written down because Pods go: a replica that was there once and is missing was lost, one that
nobody has created yet is not; one that is done must not train again.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import Action, EmitEvent
from etcompile.watch.rules import relaunch
from etcompile.watch.rules.ranks import noted
from etcompile.watch.rules.restart_policy import comes_back
from etcompile.watch.rules.run_state import Place, RunState, sets, texts
from etcompile.watch.state import JobView, PodView, RunRecord


def begun(run_state: RunState) -> RunRecord:
    """The record of this run: the one there is, or a new one.

    Args:
        run_state: Who is there.
    """
    view = run_state.view
    record = view.own_record
    if record is None:
        return RunRecord(view.spec_hash, config=view.config_uid)
    return record if record.ended else structs.replace(record, config=view.config_uid)


def orphaned(view: JobView) -> Action:
    """What people are told when what is written down is of a job that was deleted.

    Args:
        view: What is known of the job.
    """
    phase = view.record.phase if view.record else ""
    message = (
        "the job was deleted and created again: what is recorded of the run before, which was "
        f"{phase}, does not count"
    )
    return EmitEvent("RunBeganAnew", message)


def noticed(run_state: RunState, record: RunRecord) -> RunRecord:
    """The record, with what there is to see now.

    A run is Running once all of its Pods have been there and one of those that decide about it is
    at work. Until then it is Pending, however long its images cannot be pulled; and again, once
    that is so of all their replacements (`starting`).

    Args:
        run_state: Who is there.
        record: The record so far.
    """
    seen, completed = sets(record.seen), sets(record.completed)
    declared: dict[str, set[int]] = {}
    gang = frozenset(record.gang)
    filled = True
    for place in run_state.places:
        role = place.role.name
        declared.setdefault(role, set()).add(place.number)
        last = place.pod or (place.gone.pod if place.gone else None)
        if last is not None and not (last.uid in gang and record.phase == "Pending"):
            seen.setdefault(role, set()).add(place.number)
            of_old = last.uid in gang or (place.pod is None and record.phase == "Restarting")
            if not of_old and _is_done(place, last, record):
                completed.setdefault(role, set()).add(place.number)
        trial = record.trials.get(place.key)
        # Whoever is left alone is waited for no more.
        left = trial is not None and trial.left and record.phase == "Pending"
        here = left or (place.pod is not None and place.pod.uid not in gang)
        if not (here or place.taken or place.number in completed.get(role, ())):
            filled = False
    record = structs.replace(
        record,
        # Who was scaled in and comes again is new.
        seen=texts({role: members & declared.get(role, set()) for role, members in seen.items()}),
        completed=texts(completed),
        started=record.started if record.started is not None else _started(run_state, gang),
    )
    if filled and record.phase == "Restarting":
        record = structs.replace(record, phase="Pending", gang=())
    if filled and record.phase == "Pending":
        record = structs.replace(record, gang=())
        if is_at_work(run_state):
            record = structs.replace(record, phase="Running", reason="", message="")
    return _ranked(run_state, _renamed(run_state, record))


def is_at_work(run_state: RunState) -> bool:
    """Whether one of the Pods that decide about the run has started, and is not just kept."""
    deciding = run_state.job.run.success.roles
    kept = {pod.uid for pod in run_state.kept}
    return any(
        pod.phase in ("Running", "Succeeded", "Failed")
        for pod in run_state.of_this_run
        if pod.role in deciding and pod.uid not in kept
    )


def quiet_from(run_state: RunState) -> float:
    """From when on no Pod has appeared for a while."""
    newest = max((pod.created for pod in run_state.of_this_run), default=0.0)
    return newest + run_state.view.timeouts.settle


def _ranked(run_state: RunState, record: RunRecord) -> RunRecord:
    """The record, with who has each rank that others have followed to, and the highest number."""
    if not any(role.relaunch for role in run_state.job.roles):
        return record
    lines = dict(record.lines)
    for place in run_state.places:
        if place.rank is None:
            continue
        line = lines.get(place.key)
        if line is not None or place.follower is not None:
            declared = relaunch.declared_member(place).index
            lines[place.key] = noted(place.index, line, declared, place.follower)
    numbers = dict(record.numbers)
    ranked = {role.name for role in run_state.job.roles if role.relaunch}
    for pod in run_state.of_this_run:
        if pod.role in ranked and (pod.index or 0) > numbers.get(pod.role, -1):
            numbers[pod.role] = pod.index or 0
    return structs.replace(record, lines=lines, numbers=numbers)


def worth_writing(before: RunRecord | None, record: RunRecord, *, quiet: bool) -> bool:
    """Whether a record is to be written.

    Not for each of a thousand Pods that appear one after the other: only once no more come, or
    with something else.

    Args:
        before: The record as it was written last.
        record: The record as it is now.
        quiet: No Pod has appeared for a while.
    """
    if before is None or before.run != record.run:
        # A mark of the run before must stand until its workers have seen it.
        before = RunRecord(record.run, config=record.config)
    if quiet or record.phase == "Running":
        return record != before
    known = structs.replace(
        record, seen=before.seen, started=before.started, numbers=before.numbers
    )
    return known != before


def _is_done(place: Place, pod: PodView, record: RunRecord) -> bool:
    if pod.phase != "Succeeded" or pod.deleting:
        return False
    trial = record.trials.get(place.key)
    decided = trial is not None and trial.uid == pod.uid
    return not decided and not comes_back(place.role, "succeeded", pod)


def _started(run_state: RunState, gang: frozenset[str]) -> float | None:
    return min((pod.created for pod in _new(run_state, gang)), default=None)


def _new(run_state: RunState, gang: frozenset[str]) -> Iterator[PodView]:
    """The Pods of this run, without those that are on their way out since before it."""
    declared = run_state.view.config_created
    return (
        pod
        for pod in run_state.of_this_run
        if pod.uid not in gang and not (pod.deleting and pod.created < declared)
    )


def _renamed(run_state: RunState, record: RunRecord) -> RunRecord:
    """A new launcher knows of no host that failed the one before."""
    if not record.names:
        return record
    readers = run_state.readers
    if not readers or any(pod.uid == record.launcher for pod in readers):
        return record
    return structs.replace(record, names={}, launcher="")
