"""Write down what there is to see of a run: its phase, and which Pods were there."""

from collections.abc import Sequence

from msgspec import structs

from etcompile.model.run_record import (
    ANOTHER_RUN,
    UNREADABLE,
    ReplicaKey,
    ReplicaRecord,
    RunRecord,
)
from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, Requeue
from etcompile.watch.core.followers import with_ranks
from etcompile.watch.core.replicas import comes_back
from etcompile.watch.core.run import Run


def observed(run: Run) -> Run:
    """Return the run, with what there is to see now in its record.

    A run is Running once all of its Pods have been there and one of those that decide about it is
    at work. Until then it is Pending, however long its images cannot be pulled; and again, once
    that is so of all replacements (`held_up`). After a suspension it begins again, and so does its
    deadline: whoever applies the job creates the Pods again that went.
    """
    record, actions = run.record, list[Action]()
    if record.phase == "Suspended":
        record = structs.replace(record, phase="Pending", reason="", message="")
        actions.append(EmitEvent("JobResumed", "the job is resumed"))
    gang, pending, complete = frozenset(record.gang), record.phase == "Pending", True
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for replica in run.replicas:
        written, pod, last = record.replica(replica.key), replica.pod, replica.latest
        if pod is not None and pod.phase == "Running" and pod.uid not in gang:
            if written.seen and not (written.lost or written.completed):
                continue  # like most
            if written.left and pod.uid == written.lost and not (pod.deleting or pod.ending):
                # It was taken out of the job, left alone, and put back: it never failed.
                changed[replica.key] = written = structs.replace(written, lost="", left=False)
        if last is not None and not (last.uid in gang and pending):
            of_old = last.uid in gang or (pod is None and record.phase == "Restarting")
            is_done = written.completed or (
                last.phase == "Succeeded"
                and not (of_old or last.deleting or written.lost == last.uid)
                and not comes_back(replica.role, "succeeded", last)
            )
            if not written.seen or is_done != written.completed:
                written = structs.replace(written, seen=True, completed=is_done)
                changed[replica.key] = written
        # A replica that will not be replaced is not waited for.
        here = (written.left and pending) or (pod is not None and pod.uid not in gang)
        complete = complete and (here or replica.blocked or written.completed)
    declared = {replica.key for replica in run.replicas}
    for key, written in record.every_replica():
        if key not in declared:
            # A replica that was scaled in and comes again is new.
            changed[key] = structs.replace(written, seen=False)
    started = record.started
    if started is None:
        # When the first Pod was created that has not been on its way out since before the run.
        created = run.view.config_created
        times = (
            pod.created
            for pod in run.pods
            if pod.uid not in gang and not (pod.deleting and pod.created < created)
        )
        started = min(times, default=None)
    record = structs.replace(record.with_replicas(changed), started=started)
    if complete and record.phase in ("Pending", "Restarting"):
        record = structs.replace(record, phase="Pending", gang=())
        if is_at_work(run):
            record = structs.replace(record, phase="Running", reason="", message="")
    readers = run.readers if record.launcher else ()
    if readers and all(pod.uid != record.launcher for pod in readers):
        # A new launcher knows of no host that failed the one before.
        first = {
            key: structs.replace(replica, host_form=0) for key, replica in record.every_replica()
        }
        record = structs.replace(record.with_replicas(first), launcher="")
    return run.adding(actions, record=with_ranks(run, record))


def is_at_work(run: Run) -> bool:
    """Return whether one of the Pods that decide about the run has started and was not replaced."""
    deciding = run.job.run.success.roles
    return any(
        pod.phase in ("Running", "Succeeded", "Failed") and pod.role in deciding
        for pod in run.pods
        if pod not in run.replaced
    )


def worth_writing(run: Run, *, quiet: bool) -> bool:
    """Return whether the record is to be written.

    Not for each of a thousand Pods that appear one after the other: only once no more come
    (`quiet`), or with something else.
    """
    record, before = run.record, run.view.record
    if not (run.view.copied or record.ended or before is None):
        return True  # the copy of the job beside it is an old one
    if before is None or before.run != record.run:
        # A mark of the run before must stand until its workers have seen it.
        before = RunRecord(record.run, config=record.config)
    if quiet or record.phase == "Running" or record == before:
        return record != before

    def but_seen(record: RunRecord) -> RunRecord:
        replicas = {
            key: structs.replace(replica, seen=False) for key, replica in record.every_replica()
        }
        record = structs.replace(record, replicas={}, started=None, numbers={})
        return record.with_replicas(replicas)

    return but_seen(record) != but_seen(before)


# A run that does not start, or not again ---------------------------------------------------------
#
# The record says what the run waits for, and so does an Event. An image that cannot be pulled is
# reported at once. A Pod that finds no node, and one that is missing, are reported after a while: a
# node may be on its way, and so may the tool that applies the job.

_BY_THE_SCHEDULER = frozenset({"Unschedulable", "SchedulingGated", "SchedulerError"})
"""Reasons of a Pod that may find a place later, and by design does in a gang."""


def held_up(run: Run) -> Run:
    """Write down what a run waits for that does not start, or not again; report it if new."""
    record, view = run.record, run.view
    restarting, at_work = record.phase == "Restarting", is_at_work(run)
    again = record.phase == "Running" and not at_work
    if not (restarting or again or record.phase == "Pending"):
        return run
    # Replicas come back only when all Pods of the attempt before are gone.
    gang = frozenset(record.gang) if restarting else frozenset()
    going = [pod.name for pod in run.pods if pod.uid in gang]
    absent = run.in_state("returning" if restarting else "awaited") if not again else []
    missing = [replica.name for replica in absent if replica.pod is None]
    pods = [replica.pod for replica in run.in_state("there", "returning")]
    waiting = [
        (pod.name, pod.waiting)
        for pod in ((*pods, *run.batch) if not (at_work or restarting) else ())
        if pod is not None and pod.waiting
    ]
    if not (waiting or going or missing):
        return run
    sure = [pod for pod in waiting if pod[1].reason not in _BY_THE_SCHEDULER]
    declared = max(view.config_created, view.declared_at or 0.0)
    newest = run.newest or record.started or declared
    due = max(newest, record.restarted_at if restarting else 0.0) + run.timeouts.start
    if not sure and run.now < due:
        return run.adding([Requeue(due)])
    patient, phase = view.settings.gang != "none" and not restarting, "Pending"
    if restarting:
        what = f"{_first_of(going)} to be gone" if going else f"{_first_of(missing)} to be created"
        phase, reason, event = "Restarting", "RestartWaits", f"the restart waits for {what}"
    elif missing and not sure:
        went = "they were never created, or were deleted while no watcher was running"
        reason, event = "PodsMissing", f"missing: {_first_of(missing)}; {went}. Apply the job again"
    elif patient and not (sure or again):
        return run
    else:
        name, why = (sure or waiting)[0]
        reason, event = why.reason, f"no Pod is running: {name}: {why}"
    if reason == record.reason:
        return run
    message = f"{record.message}; {event}" if restarting else event
    record = structs.replace(record, phase=phase, reason=reason, message=message)
    if patient and not sure and not missing:
        return run.adding(record=record)  # waiting in a queue is by design
    return run.adding([EmitEvent("JobNotStarting", event, warning=True)], record=record)


def _first_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


# A suspended job ---------------------------------------------------------------------------------
#
# Nothing runs, nothing is replaced, and it can be resumed (reference/et-operator.md 6, defect 34).


def suspended(run: Run) -> Run:
    """Return the run of a suspended job, whose Pods are deleted.

    If Git declares the Pods, its tool removes them, except followers; those of a Job of Kubernetes
    are the Job's, which is suspended too.
    """
    record, actions = run.record, list[Action]()
    batch = {pod.name for pod in run.batch}
    declared = {role.pod_name(member) for role in run.job.roles for member in role.members}
    if record.phase != "Suspended":
        actions.append(EmitEvent("JobSuspended", "the job is suspended"))
    going = {replica.gone.pod.uid for replica in run.replicas if replica.gone is not None}
    for pod in run.pods:
        by_tool = run.view.git_managed and (pod.rank is None or pod.name in declared)
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
    return run.adding(actions, record=record)


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


def superseded(run: Run) -> Run:
    """Return a run with an Event if it goes on although the job's ConfigMap does not declare it."""
    record, view = run.record, run.view
    if view.is_orphaned and view.record is not None:
        message = (
            "the job was deleted and created again: the record of the previous run, which was "
            f"{view.record.phase}, is discarded"
        )
        run = run.adding([EmitEvent("RunBeganAnew", message)])
    if not view.superseded:
        if record.reason in (ANOTHER_RUN, UNREADABLE):
            record = structs.replace(record, reason="", message="")
        return structs.replace(run, record=record)
    due = (view.declared_at or 0.0) + view.timeouts.verdict
    if run.now < due:
        return run.adding([Requeue(due)])
    reason, message = ANOTHER_RUN, _ANOTHER_RUN
    if view.unreadable:
        reason, message = UNREADABLE, f"{_UNREADABLE}: {view.unreadable}"
    if record.phase != "Running" or (record.reason, record.message) == (reason, message):
        return run
    record = structs.replace(record, reason=reason, message=message)
    return run.adding([EmitEvent(reason, message, warning=True)], record=record)
