"""What there is to see of a run, into its record: its phase, who was there, and who is done.

It is written down because Pods go: a replica that was there once and is missing was lost.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.model.run_record import (
    ANOTHER_RUN,
    UNREADABLE,
    ReplicaKey,
    ReplicaRecord,
    RestartHistory,
    RunRecord,
)
from etcompile.watch.core.actions import (
    Action,
    Decision,
    DeletePod,
    EmitEvent,
    Requeue,
)
from etcompile.watch.core.placement import Placement
from etcompile.watch.core.replicas import RunState, comes_back
from etcompile.watch.core.view import JobView


def begun(view: JobView) -> RunRecord:
    """Return the record of this run: the one there is, or a new one."""
    record = view.own_record
    if record is None:
        return RunRecord(view.spec_hash, config=view.config_uid)
    return record if record.ended else structs.replace(record, config=view.config_uid)


def orphaned(view: JobView) -> Iterator[Action]:
    """Yield the Event that what is written down is of a job that was deleted."""
    if view.is_orphaned:
        phase = view.record.phase if view.record else ""
        message = (
            "the job was deleted and created again: the record of the previous run, which was "
            f"{phase}, is discarded"
        )
        yield EmitEvent("RunBeganAnew", message)


def observed(placement: Placement, record: RunRecord) -> RunRecord:
    """Return the record, with what there is to see now.

    A run is Running once all of its Pods have been there and one of those that decide about it is
    at work. Until then it is Pending, however long its images cannot be pulled; and again, once
    that is so of all their replacements (`held_up`).
    """
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    declared: defaultdict[str, set[int]] = defaultdict(set)
    gang = frozenset(record.gang)
    complete = True
    for replica in placement.replicas:
        role, number = replica.key
        declared[role].add(number)
        written, pod = record.replica(replica.key), replica.pod
        is_back = written.left and pod is not None and pod.uid == written.lost
        if is_back and pod and pod.phase == "Running" and not (pod.deleting or pod.ending):
            # It was taken out of the job, left alone, and put back: it never failed.
            changed[replica.key] = written = structs.replace(written, lost="", left=False)
        last = pod or (replica.gone.pod if replica.gone else None)
        if last is not None and not (last.uid in gang and record.phase == "Pending"):
            of_old = last.uid in gang or (pod is None and record.phase == "Restarting")
            is_done = written.completed or (
                not of_old
                and last.phase == "Succeeded"
                and not last.deleting
                and written.lost != last.uid
                and not comes_back(replica.role, "succeeded", last)
            )
            if not written.seen or is_done != written.completed:
                written = structs.replace(written, seen=True, completed=is_done)
                changed[replica.key] = written
        # Whoever is left alone is waited for no more.
        left = written.left and record.phase == "Pending"
        here = left or (pod is not None and pod.uid not in gang)
        if not (here or replica.blocked or written.completed):
            complete = False
    for role, members in record.replicas.items():
        # Who was scaled in and comes again is new.
        for number in members.keys() - declared[role]:
            changed[role, number] = structs.replace(members[number], seen=False)
    started = record.started
    if started is None:
        # When the first Pod was created that is not on its way out since before the run.
        created = placement.view.config_created
        times = (
            pod.created
            for pod in placement.of_this_run
            if pod.uid not in gang and not (pod.deleting and pod.created < created)
        )
        started = min(times, default=None)
    record = structs.replace(record.with_replicas(changed), started=started)
    if complete and record.phase == "Restarting":
        record = structs.replace(record, phase="Pending", gang=())
    if complete and record.phase == "Pending":
        record = structs.replace(record, gang=())
        if _is_at_work(placement):
            record = structs.replace(record, phase="Running", reason="", message="")
    readers = placement.readers
    if record.launcher and readers and all(pod.uid != record.launcher for pod in readers):
        # A new launcher knows of no host that failed the one before.
        first = {key: structs.replace(own, host_form=0) for key, own in record.every_replica()}
        record = structs.replace(record.with_replicas(first), launcher="")
    return _with_ranks(placement, record)


def _is_at_work(placement: Placement) -> bool:
    """Return whether one of the Pods that decide about the run has started and was not replaced."""
    deciding = placement.job.run.success.roles
    replaced = {pod.uid for pod in placement.replaced}
    return any(
        pod.phase in ("Running", "Succeeded", "Failed")
        for pod in placement.of_this_run
        if pod.role in deciding and pod.uid not in replaced
    )


def _with_ranks(placement: Placement, record: RunRecord) -> RunRecord:
    """The record, with who has each rank that others have followed to, and the highest number."""
    ranked = {role.name for role in placement.job.roles if role.recovery.relaunch}
    if not ranked:
        return record
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for replica in placement.replicas:
        written = record.replica(replica.key)
        history, member = written.history, replica.follower
        if replica.rank is None or (history is None and member is None):
            continue
        if history is None:
            history = RestartHistory(relaunches=member.relaunches if member else 0)
        own = None if replica.index == replica.declared_member.index else replica.index
        if history.index != own:
            history = structs.replace(history, index=own)
        changed[replica.key] = structs.replace(written, history=history)
    numbers = dict(record.numbers)
    for pod in placement.of_this_run:
        if pod.role in ranked and (pod.index or 0) > numbers.get(pod.role, -1):
            numbers[pod.role] = pod.index or 0
    return structs.replace(record.with_replicas(changed), numbers=numbers)


def worth_writing(before: RunRecord | None, record: RunRecord, *, quiet: bool) -> bool:
    """Return whether a record is to be written.

    Not for each of a thousand Pods that appear one after the other: only once no more come
    (`quiet`), or with something else.
    """
    if before is None or before.run != record.run:
        # A mark of the run before must stand until its workers have seen it.
        before = RunRecord(record.run, config=record.config)
    if quiet or record.phase == "Running":
        return record != before
    return _but_seen(record) != _but_seen(before)


def _but_seen(record: RunRecord) -> RunRecord:
    """Return what else is written down than which Pods were seen."""
    replicas = {key: structs.replace(own, seen=False) for key, own in record.every_replica()}
    record = structs.replace(record, replicas={}, started=None, numbers={})
    return record.with_replicas(replicas)


# A run that does not start, or not again ---------------------------------------------------------
#
# The record says what holds it up, and so does an Event. An image that cannot be pulled is reported
# at once. A Pod that finds no node, and one that is missing, are reported when that has lasted: a
# node may be on its way, and so may whoever applies the job.

_WAITING = "RestartWaits"
"""The reason of a restart of all Pods that has been reported to wait."""
_BY_THE_SCHEDULER = frozenset({"Unschedulable", "SchedulingGated", "SchedulerError"})
"""What the scheduler says, which may find a place later, and by design does in a gang."""


def held_up(state: RunState) -> Decision:
    """Write down what a run waits for that does not start, or not again; report it if new."""
    placement, record, view = state.placement, state.record, state.view
    restarting, at_work = record.phase == "Restarting", _is_at_work(placement)
    again = record.phase == "Running" and not at_work
    if not (restarting or again or record.phase == "Pending"):
        return Decision(record)
    pods = [replica.pod for replica in state.those("there", "returning")]
    waiting = [
        (pod.name, pod.waiting)
        for pod in ((*pods, *placement.batch) if not (at_work or restarting) else ())
        if pod is not None and pod.waiting
    ]
    sure = [pod for pod in waiting if pod[1].reason not in _BY_THE_SCHEDULER]
    # Replicas come back only when all Pods of the attempt before are gone.
    gang = frozenset(record.gang) if restarting else frozenset()
    going = [pod.name for pod in placement.of_this_run if pod.uid in gang]
    absent = state.those("returning" if restarting else "awaited") if not again else []
    missing = [replica.name for replica in absent if replica.pod is None]
    declared = max(view.config_created, view.declared_at or 0.0)
    newest = max((pod.created for pod in placement.of_this_run), default=record.started or declared)
    due = max(newest, record.restarted_at if restarting else 0.0) + state.timeouts.start
    if not (waiting or going or missing):
        return Decision(record)
    if not sure and state.now < due:
        return Decision(record, (Requeue(due),))
    patient = view.settings.gang != "none" and not restarting
    if restarting:
        what = f"{_first_of(going)} to be gone" if going else f"{_first_of(missing)} to be created"
        reason, event = _WAITING, f"the restart waits for {what}"
        message = f"{record.message}; {event}"
    elif missing and not sure:
        went = "they were never created, or were deleted while no watcher was running"
        reason, event = "PodsMissing", f"missing: {_first_of(missing)}; {went}. Apply the job again"
        message = event
    elif patient and not (sure or again):
        return Decision(record)
    else:
        name, why = (sure or waiting)[0]
        reason, event = why.reason, f"no Pod is running: {name}: {why}"
        message = event
    if reason == record.reason:
        return Decision(record)
    phase = record.phase if restarting else "Pending"
    record = structs.replace(record, phase=phase, reason=reason, message=message)
    if patient and not sure and not missing:
        return Decision(record)  # whose turn it is not in a queue waits by design
    return Decision(record, (EmitEvent("JobNotStarting", event, warning=True),))


def _first_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


# A suspended job ---------------------------------------------------------------------------------
#
# Nothing runs, nothing is replaced, and it can be resumed (reference/et-operator.md 6, defect 34).


def suspended(placement: Placement, record: RunRecord) -> Decision:
    """Return what becomes of a job that is to run nothing.

    Where Git declares its Pods, its tool removes them, except those who followed others; those of a
    Job of Kubernetes are the Job's, which is suspended too.
    """
    batch = {pod.name for pod in placement.batch}
    declared = {role.pod_name(member) for role in placement.job.roles for member in role.members}
    actions: list[Action] = []
    if record.phase != "Suspended":
        actions.append(EmitEvent("JobSuspended", "the job is suspended"))
    going = {replica.gone.pod.uid for replica in placement.replicas if replica.gone is not None}
    for pod in placement.of_this_run:
        by_tool = placement.view.git_managed and (pod.rank is None or pod.name in declared)
        removed = not by_tool and pod.name not in batch
        if removed and not pod.deleting:
            actions.append(DeletePod(pod.name, pod.uid, "Suspended"))
        if removed or pod.deleting:
            going.add(pod.uid)
    if record.phase == "Suspended" and going <= {*record.gang}:
        going = {*record.gang}
    record = RunRecord(
        record.run,
        "Suspended",
        "Suspended",
        "suspended by its spec",
        restarts=record.restarts,
        restarted_at=record.restarted_at,
        replaced=record.replaced,
        lost_restarts=record.lost_restarts,
        numbers=record.numbers,
        gang=tuple(sorted(going)),
        config=record.config,
    )
    return Decision(record, actions)


def resumed(record: RunRecord) -> Decision:
    """Return what becomes of a job that may run again: it begins again, and so does its deadline.

    None of the Pods that went because of the suspension is created again: whoever applies it does.
    """
    if record.phase != "Suspended":
        return Decision(record)
    event = EmitEvent("JobResumed", "the job is resumed")
    return Decision(structs.replace(record, phase="Pending", reason="", message=""), (event,))


# A run that the job's ConfigMap does not describe any more ---------------------------------------
#
# Somebody is about to exchange its Pods, or the apply has failed, and the run goes on.

_ANOTHER_RUN = (
    "the ConfigMap describes another run than the Pods are of: the watcher keeps managing the run "
    "of the Pods; apply the job with --replace to replace them, or apply its previous version"
)
_UNREADABLE = (
    "the watcher keeps managing the run as it was before, because the ConfigMap cannot be read; "
    "apply the job again"
)


def superseded(view: JobView, decision: Decision, now: float) -> Decision:
    """Add to the decision what `status` says of such a run."""
    record, due = decision.record, (view.declared_at or 0.0) + view.timeouts.verdict
    if not view.superseded:
        if record.reason in (ANOTHER_RUN, UNREADABLE):
            record = structs.replace(record, reason="", message="")
        return Decision(record, decision.actions)
    if now < due:
        return Decision(record, (*decision.actions, Requeue(due)))
    reason, message = ANOTHER_RUN, _ANOTHER_RUN
    if view.unreadable:
        reason, message = UNREADABLE, f"{_UNREADABLE}: {view.unreadable}"
    if record.phase != "Running" or (record.reason, record.message) == (reason, message):
        return decision
    record = structs.replace(record, reason=reason, message=message)
    return Decision(record, (*decision.actions, EmitEvent(reason, message, warning=True)))
