"""Treat a run as failed whose replicas are all at work and none of which logs anything any more.

A rank that hangs takes all others along: they wait for it in the next collective, for ever, and no
container ends. So with `etcompile.dev/stuck-after` a run counts as stuck once none of its Pods has
written a line for so long (`silences`).

Logs are read only when they may be silent for too long: first that of the Pod that spoke last.
Where ranks are followed (ElasticJob) each replica counts by itself: DLRover's master watches
heartbeats, and duplicates a hung agent (reference/dlrover.md 4.2; 7, defect 13).
"""

from collections.abc import Iterator

from etcompile.failures.log import Failure, tail_of
from etcompile.failures.stacks import stacks
from etcompile.model.notice import RESTART, notice
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, PatchPod, ReadLog, Requeue
from etcompile.watch.core.listener import Before, Listener
from etcompile.watch.core.placement import Placement, Replica
from etcompile.watch.listeners.hang_reports import Suspect, suspects
from etcompile.watch.listeners.silences import Silence

AGAIN = 60.0
"""Seconds until a log is read again that could not be read."""
_SPEAKERS = 8  # Pods of a run that is stuck of which the last lines are kept
_LINES_OF_SILENCE, _STACKS = 20, 3  # that are kept of such a Pod


def _before(placement: Placement, before: Before, now: float) -> Before:
    if placement.job.run.stuck_after is None:
        return before
    if any(role.recovery.relaunch for role in placement.job.roles):
        return _of_each(placement, before, now)
    silence = before.facts.get("silence")
    if silence is None:
        return before
    facts = {}
    if silence.is_settled(now):
        failures = tuple(_failures(silence, before.record))
        facts["hung"] = silence.since, now
        facts["reported"] = (*before.facts.get("reported", ()), *failures)
    lost = before.lost | _lost(silence)
    return before.adding(actions=[*_actions(silence, now)], facts=facts, lost=lost)


def _of_each(placement: Placement, before: Before, now: float) -> Before:
    """Say which replicas hang, where another one can follow each."""
    lost, actions = set(), list[Action]()
    for replica in placement.replicas:
        due, pod = _silent_at(placement, before.record, replica), replica.pod
        if due is None or pod is None:
            continue
        log = placement.view.log(pod.uid)
        if log.at is not None and log.read_at >= due:
            lost.add(pod.uid)
            continue
        if log.at is None:
            due = max(due, log.read_at + AGAIN)
        if now >= due:
            actions.append(ReadLog(pod.name, pod.uid, replica.role.template.main))
            due = now + AGAIN
        actions.append(Requeue(due))
    return before.adding(actions=actions, lost=before.lost | lost)


def _silent_at(placement: Placement, record: RunRecord, replica: Replica) -> float | None:
    """Return when a Pod will have been silent for too long, if it logs nothing more."""
    pod, written = replica.pod, record.replica(replica.key)
    limit = placement.job.run.stuck_after
    if replica.role.recovery.relaunch is None or limit is None or pod is None:
        return None
    if pod.phase != "Running" or pod.deleting or pod.ending or pod.uid == written.lost:
        return None
    if written.completed or pod.uid in record.gang:
        return None
    last = placement.view.log(pod.uid).at or 0.0
    return max(last, pod.ready_since or pod.created) + limit


def _actions(silence: Silence, now: float) -> Iterator[Action]:
    """Yield what is to be done about a silence: logs to read, and in the end a restart."""
    placement, view = silence.placement, silence.placement.view
    in_place, due = placement.job.run.in_place, silence.since + silence.limit
    quiet = f"no replica has logged anything for {silence.limit} s"
    if in_place is None and silence.is_stuck:
        for pod in placement.batch:  # a launcher, which its Job creates again
            yield DeletePod(pod.name, pod.uid, "Stuck")
            yield EmitEvent("RunStuck", f"{quiet}: deleted", pod.name, pod.uid, warning=True)
    if now < due:
        yield Requeue(due)
    else:
        first = max(silence.pods, key=lambda pod: view.log(pod.uid).at or 0.0)
        log = view.log(first.uid)
        is_silent = log.at is not None and log.read_at >= due
        for pod in silence.pods if is_silent else [first]:
            log, role = view.log(pod.uid), placement.job.role(pod.role)
            again = now >= log.read_at + AGAIN if log.at is None else log.read_at < due
            if again and role is not None:
                yield ReadLog(pod.name, pod.uid, role.template.main)
        yield Requeue(now + AGAIN)
    if in_place is not None and silence.is_stuck and silence.is_settled(now):
        message = quiet
        for suspect in suspects(silence)[:1]:
            message = f"{suspect.pod.name}: {suspect.reason}, and {quiet}"
        request = notice(silence.epoch, now, RESTART, message)
        for pod in silence.speakers.values():
            yield PatchPod("notify", pod.name, pod.uid, request.text)
        yield EmitEvent("RunStuck", f"{message}: its commands are restarted", warning=True)


def _lost(silence: Silence) -> frozenset[str]:
    """Return the UID of the Pod that counts as lost where a run is stuck, if one does.

    One of those that decide about the run: when it goes, its peers notice. Commands that run again
    in place need no Pod to go, and one that a Job of Kubernetes makes does not come back here.
    """
    placement = silence.placement
    if placement.job.run.in_place is not None or not silence.is_stuck:
        return frozenset()
    deciding = placement.job.run.success.roles
    if any(pod.role in deciding for pod in placement.batch):
        return frozenset()
    pods = [replica.pod for replica in placement.replicas if replica.pod]
    own = [(pod.role not in deciding, number, pod.uid) for number, pod in enumerate(pods)]
    return frozenset([min(own)[2]] if own else ())


def _failures(silence: Silence, record: RunRecord) -> Iterator[Failure]:
    """Yield the Pods that a run hangs for, or else those that spoke last, with their lines."""
    last = [Suspect(pod, "", 0) for pod in silence.last_to_speak()]
    for suspect in (suspects(silence) or last)[:_SPEAKERS]:
        pod, log = suspect.pod, silence.placement.view.log(suspect.pod.uid)
        lines = silence.written(pod, since=False)
        own = [line for line in lines if not line.startswith("etcompile: ")] or [log.line]
        processes = stacks(silence.written(pod))
        processes.sort(key=lambda stack: stack.process != suspect.process)
        places = [line for stack in processes[:_STACKS] for line in stack.lines]
        yield Failure(
            *(pod.role, pod.number, pod.name, f"{pod.uid}.{record.attempt}.Stuck"),
            attempt=record.attempt,
            node=pod.node,
            at=log.at,
            reason="Stuck",
            message=suspect.reason,
            tail=tail_of("\n".join([*own[-_LINES_OF_SILENCE:], *places])),
        )


LISTENER = Listener(before=_before)
