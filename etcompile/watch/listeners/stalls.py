"""Report what a run waits for that does not start, or not again, and which Pods block it.

An image that cannot be pulled is reported at once. A Pod that finds no node, and one that is
missing, are reported after a while: a node may be on its way, and so may the tool that applies the
job. The run record says it, too.
"""

from collections.abc import Sequence

from etcompile.model.run_record import ANOTHER_RUN, UNREADABLE
from etcompile.watch.core.decide import is_at_work
from etcompile.watch.core.run import Action, EmitEvent, Listener, Requeue, Run

_BY_THE_SCHEDULER = frozenset({"Unschedulable", "SchedulingGated", "SchedulerError"})
"""Reasons of a Pod that may find a place later, and by design does in a gang."""


def _held_up(run: Run) -> Run:
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
    else:
        name, why = (sure or waiting)[0]
        reason, event = why.reason, f"no Pod is running: {name}: {why}"
    if reason == record.reason:
        return run
    message = f"{record.message}; {event}" if restarting else event
    events = [EmitEvent("JobNotStarting", event, warning=True)]
    if patient and not sure and not missing:
        events = []  # waiting in a queue is by design
    return run.writing(*events, phase=phase, reason=reason, message=message)


def _first_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _unreachable(run: Run) -> Run:
    """Report Pods that stay where they are, so that no other Pod can have their names.

    While a node does not answer nobody knows whether its Pods still train; so the watcher waits
    (reference/training-operator.md 5.4).
    """
    view, start, uids, actions = run.view, run.timeouts.start, list[str](), list[Action]()
    for replica in run.doubtful:
        pod, reason = replica.pod, "PodUnreachable"
        if replica.blocked:
            # Somebody may be about to exchange it.
            pod, reason = view.pods[replica.name], "NameTaken"
            due = max(pod.created, run.newest, view.declared_at or 0.0) + start
            message = (
                "it is not of the run in the ConfigMap and has the name of one of its Pods, which "
                "cannot be created; apply the job with --replace, or delete this Pod"
            )
        elif pod is None or not (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            continue
        else:
            due = pod.due + start if pod.phase != "Unknown" else 0.0
            force = f"kubectl delete pod {pod.name} --force --grace-period=0"
            message = (
                "its node does not answer, so it may still be running; it is replaced when it is "
                f"gone (if the node is gone for good: {force})"
            )
            if pod.ended:
                message = "it has ended, but a finalizer keeps it: it is replaced when that is gone"
        if run.now < due:
            actions.append(Requeue(due))
            continue
        uids.append(pod.uid)
        if pod.uid not in run.record.unreachable:
            actions.append(EmitEvent(reason, message, pod.name, pod.uid, warning=True))
    if not (actions or uids or run.record.unreachable):
        return run
    return run.writing(*actions, unreachable=tuple(sorted(uids)))


def _superseded(run: Run) -> Run:
    """Report a run that goes on although the job's ConfigMap does not declare it."""
    record, view = run.record, run.view
    if view.is_orphaned and view.record is not None:
        message = (
            "the job was deleted and created again: the record of the previous run, which was "
            f"{view.record.phase}, is discarded"
        )
        run = run.adding([EmitEvent("RunBeganAnew", message)])
    if not view.superseded:
        over = record.reason in (ANOTHER_RUN, UNREADABLE)
        return run.writing(reason="", message="") if over else run
    due = (view.declared_at or 0.0) + view.timeouts.verdict
    if run.now < due:
        return run.adding([Requeue(due)])
    if view.unreadable:
        reason = UNREADABLE
        message = (
            "the watcher keeps managing the run as it was before, because the ConfigMap cannot be "
            f"read; apply the job again: {view.unreadable}"
        )
    else:
        reason = ANOTHER_RUN
        message = (
            "the ConfigMap describes another run than the Pods are of: the watcher keeps managing "
            "the run of the Pods; apply the job with --replace to replace them, or apply its "
            "previous version"
        )
    if record.phase != "Running" or (record.reason, record.message) == (reason, message):
        return run
    event = EmitEvent(reason, message, warning=True)
    return run.writing(event, reason=reason, message=message)


def _after(run: Run) -> Run:
    if not (run.record.ended or run.job.run.suspended):
        run = _unreachable(_held_up(run))
    return _superseded(run)


LISTENER = Listener(after=_after)
