"""Treat a run as failed whose replicas are all at work and none of which logs anything any more.

The peers of a rank that hangs wait for it in the next collective, for ever, and no container ends.
So with `etcompile.dev/stuck-after` a run counts as stuck once none of its Pods has written a line
for so long (`silences`). Logs are read only when they may be silent for too long: first that of
the Pod that wrote last.

Where ranks are followed (ElasticJob) each replica counts by itself: DLRover's master watches
heartbeats, and duplicates a hung agent (reference/dlrover.md 4.2; 7, defect 13).
"""

from collections.abc import Iterator

from etcompile.causes.log import Failure, tail_of
from etcompile.model.supervision import RESTART, notice
from etcompile.watch.core.actions import Action, DeletePod, EmitEvent, PatchPod, Requeue
from etcompile.watch.core.run import Listener, Replica, Run
from etcompile.watch.listeners.silences import (
    PURPOSE,
    Silence,
    is_read,
    last_line,
    silence_of,
    spoke,
    to_read,
)
from etcompile.watch.listeners.supervisors import speakers

AGAIN = 60.0
"""Seconds until a log is read again that could not be read."""
_SPEAKERS = 8  # Pods of a run that is stuck of which the last line is kept


def _before(run: Run) -> Run:
    if run.job.run.stuck_after is None:
        return run
    if any(role.recovery.relaunch for role in run.job.roles):
        return _of_each(run)
    silence = silence_of(run)
    if silence is None:
        return run
    if not silence.is_stuck:
        return run.adding(_logs_to_read(silence))
    reported = (*run.facts.get("reported", ()), *_failures(silence))
    return run.adding(
        [*_ended(silence), Requeue(run.now + AGAIN)],
        facts={**run.facts, "hung": (silence.since, run.now), "reported": reported},
        lost=run.lost | _lost(silence),
    )


def _of_each(run: Run) -> Run:
    """Say which replicas hang, if another one can follow each."""
    lost, actions, now = set(), list[Action](), run.now
    for replica in run.replicas:
        due, pod = _silent_at(run, replica), replica.pod
        if due is None or pod is None:
            continue
        log = run.view.log(pod.uid, PURPOSE)
        if is_read(run.view, pod, due):
            lost.add(pod.uid)
            continue
        if log.lines is None:
            due = max(due, log.at + AGAIN)
        if now >= due:
            actions.append(to_read(pod, replica.role))
            due = now + AGAIN
        actions.append(Requeue(due))
    return run.adding(actions, lost=run.lost | lost)


def _silent_at(run: Run, replica: Replica) -> float | None:
    """Return when a Pod will have been silent for too long, if it logs nothing more."""
    pod, written = replica.pod, run.record.replica(replica.key)
    limit = run.job.run.stuck_after
    if replica.role.recovery.relaunch is None or limit is None or pod is None:
        return None
    if pod.phase != "Running" or pod.deleting or pod.ending or pod.uid == written.lost:
        return None
    if written.completed or pod.uid in run.record.gang:
        return None
    return max(spoke(run.view, pod), pod.ready_since or pod.created) + limit


def _logs_to_read(silence: Silence) -> Iterator[Action]:
    view, now = silence.run.view, silence.run.now
    due = silence.since + silence.limit
    if now < due:
        yield Requeue(due)
        return
    first = max(silence.pods, key=lambda pod: spoke(view, pod))
    for pod in silence.pods if is_read(view, first, due) else [first]:
        log, role = view.log(pod.uid, PURPOSE), view.job.role(pod.role)
        again = now >= log.at + AGAIN if log.lines is None else log.at < due
        if again and role is not None:
            yield to_read(pod, role)
    yield Requeue(now + AGAIN)


def _ended(silence: Silence) -> Iterator[Action]:
    """Yield what ends a run that is stuck where no Pod counts as lost for it."""
    run = silence.run
    quiet = f"no replica has logged anything for {silence.limit} s"
    if run.job.run.in_place is not None:
        request = notice(run.record.epoch or 0, run.now, RESTART, quiet)
        for speaker in speakers(run):
            yield PatchPod("notify", speaker.pod.name, speaker.pod.uid, request.text)
        yield EmitEvent("RunStuck", f"{quiet}: its commands are restarted", warning=True)
        return
    for pod in run.batch:  # a launcher, which its Job creates again
        yield DeletePod(pod.name, pod.uid, "Stuck")
        yield EmitEvent("RunStuck", f"{quiet}: deleted", pod.name, pod.uid, warning=True)


def _lost(silence: Silence) -> frozenset[str]:
    """Return the UID of the Pod that counts as lost where a run is stuck, if one does.

    One of those that decide about the run: when it goes, its peers notice. Commands that run again
    in place need no Pod to go, and one that a Job of Kubernetes makes does not come back here.
    """
    run = silence.run
    deciding = run.job.run.success.roles
    if run.job.run.in_place is not None:
        return frozenset()
    if any(pod.role in deciding for pod in run.batch):
        return frozenset()
    pods = [replica.pod for replica in run.replicas if replica.pod]
    ranked = [(pod.role not in deciding, number, pod.uid) for number, pod in enumerate(pods)]
    return frozenset([min(ranked)[2]] if ranked else ())


def _failures(silence: Silence) -> Iterator[Failure]:
    """Yield the Pods that wrote within a minute before all fell silent, with their last lines."""
    view, attempt = silence.run.view, silence.run.record.attempt
    last = max(spoke(view, pod) for pod in silence.pods)
    pods = [pod for pod in silence.pods if last and spoke(view, pod) >= last - 60.0]
    for pod in sorted(pods, key=lambda pod: spoke(view, pod))[:_SPEAKERS] or silence.pods[:1]:
        line, uid = last_line(view, pod), f"{pod.uid}.{attempt}.Stuck"
        yield Failure(
            *(pod.role, pod.number, pod.name, uid),
            attempt=attempt,
            node=pod.node,
            at=spoke(view, pod),
            reason="Stuck",
            tail=tail_of(line.partition(" ")[2]),
        )


LISTENER = Listener(before=_before)
