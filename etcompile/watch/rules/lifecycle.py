"""What there is to see of a run, into its record: its phase, who was there, and who is done.

It is written down because Pods go: a replica that was there once and is missing was lost, one that
nobody has created yet is not; one that is done must not train again.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.model.run_record import (
    ANOTHER_RUN,
    NOTHING,
    UNREADABLE,
    ReplicaKey,
    ReplicaRecord,
    RunRecord,
)
from etcompile.watch.actions import (
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules.placement import Place, Placement, noted
from etcompile.watch.rules.replica_state import ReplicaStates, put_back
from etcompile.watch.rules.restart_policy import comes_back
from etcompile.watch.state import JobView, PodView, Waiting


def begun(placement: Placement) -> RunRecord:
    """The record of this run: the one there is, or a new one."""
    view = placement.view
    record = view.own_record
    if record is None:
        return RunRecord(view.spec_hash, config=view.config_uid)
    return record if record.ended else structs.replace(record, config=view.config_uid)


def orphaned(view: JobView) -> Iterator[Action]:
    """What people are told when what is written down is of a job that was deleted."""
    if not view.is_orphaned:
        return
    phase = view.record.phase if view.record else ""
    message = (
        "the job was deleted and created again: what is recorded of the run before, which was "
        f"{phase}, does not count"
    )
    yield EmitEvent("RunBeganAnew", message)


def noticed(placement: Placement, record: RunRecord) -> RunRecord:
    """The record, with what there is to see now.

    A run is Running once all of its Pods have been there and one of those that decide about it is
    at work. Until then it is Pending, however long its images cannot be pulled; and again, once
    that is so of all their replacements (`held_up`).
    """
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    record = record.with_replicas(put_back(placement, record))
    declared: defaultdict[str, set[int]] = defaultdict(set)
    gang = frozenset(record.gang)
    filled = True
    for place in placement.places:
        role, number = place.key
        declared[role].add(number)
        written = record.replica(place.key)
        last = place.pod or (place.gone.pod if place.gone else None)
        if last is not None and not (last.uid in gang and record.phase == "Pending"):
            of_old = last.uid in gang or (place.pod is None and record.phase == "Restarting")
            done = written.completed or (not of_old and _is_done(place, last, written))
            if not written.seen or done != written.completed:
                written = structs.replace(written, seen=True, completed=done)
                changed[place.key] = written
        # Whoever is left alone is waited for no more.
        left = written.left and record.phase == "Pending"
        here = left or (place.pod is not None and place.pod.uid not in gang)
        if not (here or place.taken or written.completed):
            filled = False
    for role, members in record.replicas.items():
        # Who was scaled in and comes again is new.
        for number in members.keys() - declared[role]:
            changed[role, number] = structs.replace(members[number], seen=False)
    record = structs.replace(
        record.with_replicas(changed),
        started=record.started if record.started is not None else _started(placement, gang),
    )
    if filled and record.phase == "Restarting":
        record = structs.replace(record, phase="Pending", gang=())
    if filled and record.phase == "Pending":
        record = structs.replace(record, gang=())
        if _is_at_work(placement):
            record = structs.replace(record, phase="Running", reason="", message="")
    return _with_ranks(placement, _first_names(placement, record))


def _is_at_work(placement: Placement) -> bool:
    """Whether one of the Pods that decide about the run has started, and is not just kept."""
    deciding = placement.job.run.success.roles
    kept = {pod.uid for pod in placement.kept}
    return any(
        pod.phase in ("Running", "Succeeded", "Failed")
        for pod in placement.of_this_run
        if pod.role in deciding and pod.uid not in kept
    )


def quiet_from(placement: Placement) -> float:
    """From when on no Pod has appeared for a while."""
    newest = max((pod.created for pod in placement.of_this_run), default=0.0)
    return newest + placement.view.timeouts.settle


def _with_ranks(placement: Placement, record: RunRecord) -> RunRecord:
    """The record, with who has each rank that others have followed to, and the highest number."""
    if not any(role.recovery.relaunch for role in placement.job.roles):
        return record
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for place in placement.places:
        if place.rank is None:
            continue
        written = record.replica(place.key)
        if written.history is not None or place.follower is not None:
            declared = place.declared_member.index
            history = noted(place.index, written.history, declared, place.follower)
            changed[place.key] = structs.replace(written, history=history)
    numbers = dict(record.numbers)
    ranked = {role.name for role in placement.job.roles if role.recovery.relaunch}
    for pod in placement.of_this_run:
        if pod.role in ranked and (pod.index or 0) > numbers.get(pod.role, -1):
            numbers[pod.role] = pod.index or 0
    return structs.replace(record.with_replicas(changed), numbers=numbers)


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
        record, replicas=before.replicas, started=before.started, numbers=before.numbers
    )
    return known != before or _but_seen(record) != _but_seen(before)


def _but_seen(record: RunRecord) -> dict[ReplicaKey, ReplicaRecord]:
    """What else is written down of replicas than that they were seen."""
    found = {key: structs.replace(replica, seen=False) for key, replica in record.every_replica()}
    return {key: replica for key, replica in found.items() if replica != NOTHING}


def _is_done(place: Place, pod: PodView, written: ReplicaRecord) -> bool:
    if pod.phase != "Succeeded" or pod.deleting or written.lost == pod.uid:
        return False
    return not comes_back(place.role, "succeeded", pod)


def _started(placement: Placement, gang: frozenset[str]) -> float | None:
    """When the first Pod was created that is not on its way out since before the run."""
    declared = placement.view.config_created
    created = (
        pod.created
        for pod in placement.of_this_run
        if pod.uid not in gang and not (pod.deleting and pod.created < declared)
    )
    return min(created, default=None)


def _first_names(placement: Placement, record: RunRecord) -> RunRecord:
    """A new launcher knows of no host that failed the one before."""
    if not record.launcher:
        return record
    readers = placement.readers
    if not readers or any(pod.uid == record.launcher for pod in readers):
        return record
    first = {key: structs.replace(replica, host_form=0) for key, replica in record.every_replica()}
    return structs.replace(record.with_replicas(first), launcher="")


# A run that does not start, or not again ---------------------------------------------------------
#
# What holds it up is told, and stands in its record. That all Pods are there does not mean that one
# of them runs. An image that cannot be pulled is told of at once: it will not come by waiting. A
# Pod that finds no node, and one that is missing, are told of when that has lasted: a node may be
# on its way, and so may whoever applies the job.


_MISSING = "PodsMissing"
_BY_THE_SCHEDULER = frozenset({"Unschedulable", "SchedulingGated", "SchedulerError"})
"""What the scheduler says, which may find a place later, and by design does in a gang."""


def held_up(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with what keeps a run from starting, and word of it if that is new."""
    placement = states.placement
    again = record.phase == "Running" and not _is_at_work(placement)
    if record.started is None or not (again or record.phase == "Pending"):
        return Decision(record)
    newest = max((pod.created for pod in placement.of_this_run), default=record.started)
    due = newest + placement.view.timeouts.start
    waiting = [] if _is_at_work(placement) else _waiting(states)
    sure = [pod for pod in waiting if pod[1].reason not in _BY_THE_SCHEDULER]
    missing = [] if again else [replica.place for replica in states.those("awaited")]
    patient = placement.view.settings.gang != "none"
    if sure:
        reason, message = _words(sure)
    elif not (missing or waiting):
        return Decision(record)
    elif now < due:
        return Decision(record, (Requeue(due),))
    elif missing:
        reason, message = _MISSING, _who_is_missing(missing)
    elif patient and not again:
        return Decision(record)
    else:
        reason, message = _words(waiting)
    if reason == record.reason:
        return Decision(record)
    held = structs.replace(record, phase="Pending", reason=reason, message=message)
    if patient and not sure and not missing:
        return Decision(held)  # whose turn it is not in a queue waits by design
    return Decision(held, (EmitEvent("JobNotStarting", message, warning=True),))


def _waiting(states: ReplicaStates) -> list[tuple[str, Waiting]]:
    """Each Pod that cannot start, and what keeps it."""
    found = [
        (replica.place.pod.name, replica.place.pod.waiting)
        for replica in states.those("there", "returning")
        if replica.place.pod is not None and replica.place.pod.waiting
    ]
    return [*found, *((pod.name, pod.waiting) for pod in states.placement.batch if pod.waiting)]


def _words(waiting: Sequence[tuple[str, Waiting]]) -> tuple[str, str]:
    """The reason in one word, and a sentence."""
    name, why = waiting[0]
    return why.reason, f"no Pod is running: {name}: {why}"


def _who_is_missing(places: Sequence[Place]) -> str:
    names = places[0].name if len(places) == 1 else f"{places[0].name} and {len(places) - 1} more"
    went = "nobody has created them, or they went while no watcher was running"
    return f"missing: {names}; {went}. Apply the job again"


# A suspended job ---------------------------------------------------------------------------------
#
# Nothing runs, nothing is replaced, and it can be resumed. et-operator knows no way back, and
# suspends even what has ended (reference/et-operator.md 6, defect 34).


def suspended(placement: Placement, record: RunRecord) -> Decision:
    """What becomes of a job that is to run nothing."""
    removed = tuple(_removed(placement))
    told = EmitEvent("JobSuspended", "the job is suspended")
    new = () if record.phase == "Suspended" else (told,)
    return Decision(_suspended(placement, record, removed), (*new, *removed))


def resumed(record: RunRecord) -> Decision:
    """What becomes of a job that may run again: it begins anew, and so does its deadline.

    Its Pods are up to whoever applies it: none of those that went because of the suspension is
    made again.
    """
    if record.phase != "Suspended":
        return Decision(record)
    told = EmitEvent("JobResumed", "the job is resumed")
    return Decision(structs.replace(record, phase="Pending", reason="", message=""), (told,))


def _suspended(placement: Placement, record: RunRecord, removed: Sequence[DeletePod]) -> RunRecord:
    going = {deletion.uid for deletion in removed}
    going.update(pod.uid for pod in placement.of_this_run if pod.deleting)
    going.update(place.gone.pod.uid for place in placement.places if place.gone is not None)
    dismissed = {*record.gang} if record.phase == "Suspended" else going
    if not going <= dismissed:
        dismissed = going
    return RunRecord(
        record.run,
        "Suspended",
        "Suspended",
        "suspended by its spec",
        restarts=record.restarts,
        restarted_at=record.restarted_at,
        replaced=record.replaced,
        lost_restarts=record.lost_restarts,
        numbers=record.numbers,
        gang=tuple(sorted(dismissed)),
        config=record.config,
    )


def _removed(placement: Placement) -> Iterator[DeletePod]:
    """The removal of its Pods.

    Where Git declares them it has stopped to, and its tool removes them, but for those who followed
    others, which it never knew; those of a Job of Kubernetes are the Job's, which is suspended too.
    """
    batch = {pod.name for pod in placement.batch}
    declared = {role.pod_name(member) for role in placement.job.roles for member in role.members}
    for pod in placement.of_this_run:
        if placement.view.git_managed and (pod.rank is None or pod.name in declared):
            continue
        if pod.name not in batch and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Suspended")


# A run that the job's ConfigMap does not describe any more ---------------------------------------
#
# Its Pods are still there. Mostly somebody is about to exchange them, and for a moment nothing is
# made again that would be in the way. After that moment the apply has failed, and the run goes on
# as it was; people are told so once, and `status` shows it.


_ANOTHER_RUN = (
    "the ConfigMap describes another run, but the Pods of this one are still there: it goes on, "
    "and its Pods are still replaced; apply the job with --replace to exchange them, or apply what "
    "it was before"
)


def superseded(view: JobView, decision: Decision, now: float) -> Decision:
    """The decision for such a run: the same, but that nobody is created in the first moment.

    For any other it is the same; if it was such a run before, that is not said any more.
    """
    if not view.superseded:
        if decision.record.reason not in (ANOTHER_RUN, UNREADABLE):
            return decision
        return Decision(structs.replace(decision.record, reason="", message=""), decision.actions)
    due = (view.declared_at or 0.0) + view.timeouts.verdict
    if now < due:
        actions: list[Action] = [
            action for action in decision.actions if not isinstance(action, CreatePod | ReplacePod)
        ]
        return Decision(decision.record, (*actions, Requeue(due)))
    reason, message = ANOTHER_RUN, _ANOTHER_RUN
    if view.unreadable:
        reason = UNREADABLE
        message = (
            f"the ConfigMap cannot be read: {view.unreadable}; the run goes on as it was before, "
            "and its Pods are still replaced; apply the job again"
        )
    known = decision.record.reason, decision.record.message
    if decision.record.phase != "Running" or known == (reason, message):
        return decision
    record = structs.replace(decision.record, reason=reason, message=message)
    told = EmitEvent(reason, message, warning=True)
    return Decision(record, (*decision.actions, told))
