"""Treat a run as failed whose replicas are all at work and none of which logs anything any more.

The peers of a rank that hangs wait for it in the next collective, for ever, and no container ends.
So with `etcompile.dev/stuck-after` a run counts as stuck once none of its Pods has written a line
for so long (`silences`). Logs are read only when they may be silent for too long: first that of
the Pod that wrote last.

Where ranks are followed (ElasticJob) each replica counts by itself: DLRover's master watches
heartbeats, and duplicates a hung agent (reference/dlrover.md 4.2; 7, defect 13).
"""

from collections.abc import Iterator, Sequence

from etcompile.causes.log import Failure, tail_of
from etcompile.k8s.pod_state import PodState
from etcompile.model.supervision import RESTART, notice
from etcompile.watch.core.run import Action, DeletePod, EmitEvent, Listener, PatchPod, Requeue, Run
from etcompile.watch.listeners.silences import (
    PURPOSE,
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
    limit = run.job.run.stuck_after
    if limit is None:
        return run
    if any(role.recovery.relaunch for role in run.job.roles):
        return _of_each(run, limit)
    silence = silence_of(run)
    if silence is None:
        return run
    pods, since = silence
    due = since + limit
    if all(is_read(run.view, pod, due) for pod in pods):
        return _stuck(run, pods, since, limit)
    if run.now < due:
        return run.adding([Requeue(due)])
    first = max(pods, key=lambda pod: spoke(run.view, pod))
    actions: list[Action] = [Requeue(run.now + AGAIN)]
    for pod in pods if is_read(run.view, first, due) else [first]:
        log, role = run.view.log(pod.uid, PURPOSE), run.job.role(pod.role)
        again = run.now >= log.at + AGAIN if log.lines is None else log.at < due
        if again and role is not None:
            actions.append(to_read(pod, role))
    return run.adding(actions)


def _of_each(run: Run, limit: int) -> Run:
    """Say which replicas hang, if another one can follow each."""
    lost, actions = set(), list[Action]()
    for replica in run.replicas:
        pod, written = replica.pod, run.record.replica(replica.key)
        if replica.role.recovery.relaunch is None or pod is None or pod.phase != "Running":
            continue
        if pod.deleting or pod.ending or pod.uid in (written.lost, *run.record.gang):
            continue
        if written.completed:
            continue
        due = max(spoke(run.view, pod), pod.ready_since or pod.created) + limit
        log = run.view.log(pod.uid, PURPOSE)
        if is_read(run.view, pod, due):
            lost.add(pod.uid)
            continue
        if log.lines is None:
            due = max(due, log.at + AGAIN)
        if run.now >= due:
            actions.append(to_read(pod, replica.role))
            due = run.now + AGAIN
        actions.append(Requeue(due))
    return run.adding(actions, lost=run.lost | lost)


def _stuck(run: Run, pods: Sequence[PodState], since: float, limit: int) -> Run:
    """Return a run that is stuck, with what ends it, or with the Pod that counts as lost for it."""
    policy, lost = run.job.run, run.lost
    quiet = f"no replica has logged anything for {limit} s"
    actions: list[Action] = [Requeue(run.now + AGAIN)]
    if policy.in_place is not None:
        request = notice(run.record.epoch or 0, run.now, RESTART, quiet)
        leaders = [speaker.pod for speaker in speakers(run)]
        actions += [PatchPod("notify", pod.name, pod.uid, request.text) for pod in leaders]
        actions.append(EmitEvent("RunStuck", f"{quiet}: its commands are restarted", warning=True))
    else:
        for pod in run.batch:  # a launcher, which its Job creates again
            actions.append(DeletePod(pod.name, pod.uid, "Stuck"))
            event = EmitEvent("RunStuck", f"{quiet}: deleted", pod.name, pod.uid, warning=True)
            actions.append(event)
        deciding = policy.success.roles
        if not any(pod.role in deciding for pod in run.batch):
            # One of those that decide about the run: when it goes, its peers notice.
            placed = [replica.pod for replica in run.replicas if replica.pod]
            first = min(placed, key=lambda pod: pod.role not in deciding, default=None)
            lost |= {first.uid} if first is not None else set()
    reported = (*run.facts.get("reported", ()), *_failures(run, pods))
    facts = {**run.facts, "hung": (since, run.now), "reported": reported}
    return run.adding(actions, facts=facts, lost=lost)


def _failures(run: Run, pods: Sequence[PodState]) -> Iterator[Failure]:
    """Yield the Pods that wrote within a minute before all fell silent, with their last lines."""
    view, attempt = run.view, run.record.attempt
    last = max(spoke(view, pod) for pod in pods)
    late = [pod for pod in pods if last and spoke(view, pod) >= last - 60.0]
    for pod in sorted(late, key=lambda pod: spoke(view, pod))[:_SPEAKERS] or pods[:1]:
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
