"""What listens to the decision about a run: the log of failures, nodes to avoid, the timeline.

None of it decides what becomes of the run. It is written with what is written anyway.

**The log of failures** outlives the Pods. Written down is what ended before its time by itself, or
because somebody ended it. Not what we end ourselves: of a gang that is restarted all Pods are
deleted, and what their containers make of the signal says nothing.

**Nodes to avoid.** A node that breaks what is started on it is empty, so the scheduler sends it the
next Pod. `etcompile.dev/avoid-nodes` counts, per node, the failures that were the node's.

**The timeline** says when a run was in training. Whoever reads it in `J-status` adds what the Pods
say that are there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from etcompile.failures.causes import OTHER_NODE_WANTED
from etcompile.failures.log import COMMAND_ENDED, Failure, FailureLog, avoided_nodes, tail_of
from etcompile.failures.stacks import stacks
from etcompile.goodput import Timeline, advanced, in_training
from etcompile.k8s.objects import seconds
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import Action, CreatePod, EmitEvent, ReadTail
from etcompile.watch.job_view import JobView
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.pod_placement import Placement
from etcompile.watch.rules.replica_state import RunState
from etcompile.watch.rules.silence import Suspect
from etcompile.watch.rules.termination import silent_since

_LOSSES: Mapping[str, str] = {
    "deleted": "Deleted",
    "erased": "Deleted",
    "vanished": "Vanished",
    "stuck": "Stuck",
}
_ENDED = re.compile(r"etcompile: the command ended in epoch (\d{1,9}): exit code \d", re.ASCII)
_BEGAN = re.compile(r"etcompile: epoch \d+ begins")
_LINES = 1000  # of the log of a command that has ended: those of the next epoch come after it
EVERY = 1.0
"""Seconds between two writes for failures alone. What is decided because of them is not delayed."""
_SPEAKERS = 8  # Pods of a run that is stuck of which the last lines are kept
_LINES_OF_SILENCE = 20
_STACKS = 3  # processes of such a Pod of which the stack is kept


def failure_log(
    placement: Placement,
    record: RunRecord,
    reported: Sequence[Failure],
    state: RunState | None,
    now: float,
) -> FailureLog | None:
    """The log of failures as it is to be; None if the run has failed of nothing.

    Args:
        record: The run record from before anything was learned or decided.
        state: Before anything was decided; None if the run is over or suspended.
    """
    view = placement.view
    failures = [*_of_pods(view, record), *reported]
    if state is not None:
        failures += _of_losses(state)
        failures += _of_silence(state)
    log = view.failures
    if log is None or log.run != view.spec_hash or view.own_record is None:
        log = FailureLog(view.spec_hash) if failures else None
    if log is None:
        return None
    if failures:
        visible = {pod.uid for pod in view.pods.values()}
        visible |= {gone.pod.uid for gone in view.gone.values()}
        log = log.with_failures(failures, visible, now)
    # What was read of the logs of Pods is added.
    lines = {log.tail_of: log.tail for log in view.logs.values() if log.tail is not None}
    read = {
        failure.uid: _with_tail(failure, lines[failure.uid])
        for failure in log.failures
        if failure.is_unread and failure.uid in lines
    }
    return log.with_read(read) if read else log


def _of_pods(view: JobView, record: RunRecord) -> Iterator[Failure]:
    gang = frozenset(record.gang)
    begun = record.restarted_at if record.epoch else 0.0
    for pod in (*view.pods.values(), *(gone.pod for gone in view.gone.values())):
        for failure in pod.failures if pod.spec_hash == view.spec_hash else ():
            # Those of a gang that is being made again are of the attempt before. So is what an
            # epoch begins for: that is learned before the kubelet says so, or after.
            before = pod.uid in gang or (failure.at is not None and failure.at < begun)
            yield structs.replace(failure, attempt=max(0, record.attempt - before))


def _of_losses(state: RunState) -> Iterator[Failure]:
    attempt, limit = state.record.attempt, state.job.run.lost_node_after
    for loss in state.new_losses():
        reason, pod = _LOSSES.get(loss.cause or "", ""), loss.last
        if loss.cause == "stuck" and loss.role.recovery.relaunch is None:
            reason = ""  # `_of_silence`
        if not reason or (pod is not None and pod.failures):
            continue
        failure = Failure(loss.role.name, loss.number, loss.name, attempt=attempt)
        at = loss.since or (pod.deletion_requested if pod is not None else 0.0) or state.now
        if pod is not None:
            silent = silent_since(pod)
            late = limit is not None and (loss.since or state.now) >= silent + limit
            if pod.unreachable_since or (late and silent > 0):
                reason = "NodeLost"
            failure = _of_pod(pod, attempt)
        uid = f"{pod.uid if pod is not None else loss.name}.{attempt}.{reason}"
        yield structs.replace(failure, uid=uid, at=at, reason=reason)


def _of_silence(state: RunState) -> Iterator[Failure]:
    """The Pods that a run hangs for; if nobody knows, those that spoke last, with their lines."""
    silence = state.silence
    if silence is None or not silence.is_settled(state.now):
        return
    speakers = [Suspect(pod, "", 0) for pod in silence.last_to_speak()]
    for suspect in (silence.suspects() or speakers)[:_SPEAKERS]:
        pod, log = suspect.pod, state.view.log(suspect.pod.uid)
        before = silence.written(pod, since=False)
        own = [line for line in before if not line.startswith("etcompile: ")] or [log.line]
        processes = stacks(silence.written(pod))
        processes.sort(key=lambda stack: stack.process != suspect.process)
        places = [line for stack in processes[:_STACKS] for line in stack.lines]
        yield structs.replace(
            _of_pod(pod, state.record.attempt),
            uid=f"{pod.uid}.{state.record.attempt}.Stuck",
            at=log.at,
            reason="Stuck",
            message=suspect.reason,
            tail=tail_of("\n".join([*own[-_LINES_OF_SILENCE:], *places])),
        )


def _of_pod(pod: PodView, attempt: int) -> Failure:
    return Failure(pod.role, pod.number, pod.name, attempt=attempt, node=pod.node)


def unread(log: FailureLog, view: JobView) -> Iterator[ReadTail]:
    """The logs of commands that ended in containers that stay; of each Pod the last end."""
    last = {
        failure.uid.partition(".")[0]: failure
        for failure in log.failures
        if failure.reason == COMMAND_ENDED
    }
    there = {pod.uid for pod in view.pods.values()} if last else set()
    for uid, failure in last.items():
        if uid in there and failure.is_unread and view.log(uid).tail_of != failure.uid:
            yield ReadTail(failure.pod, uid, failure.container, failure.uid, _LINES)


def _with_tail(failure: Failure, lines: Sequence[str]) -> Failure:
    """A command's end with the lines before it; those of the next epoch may be among `lines`."""
    parts = [line.partition(" ") for line in lines]
    epoch = failure.uid.rpartition("-")[2]
    for place, (time, _, text) in enumerate(parts):
        if (ended := _ENDED.match(text)) and ended[1] == epoch:
            own = [text for _, _, text in parts[:place]]
            began = max((n for n, line in enumerate(own) if _BEGAN.match(line)), default=-1)
            tail, at = tail_of("\n".join(own[began + 1 :])), seconds(time) or failure.at
            message = "" if tail else "it wrote nothing"
            return structs.replace(failure, at=at, tail=tail, message=message)
    return structs.replace(failure, message="its log could not be read")


def avoiding(view: JobView, log: FailureLog | None, actions: Sequence[Action]) -> list[Action]:
    """Actions, with the nodes that Pods avoid which come instead of others."""
    limit, before = view.job.run.avoid_nodes_after, view.failures
    watches = limit is not None or view.job.preflight is not None
    nodes = avoided_nodes(log, limit) if log is not None and watches else ()
    if log is None or not nodes:
        return [*actions]
    known = avoided_nodes(before, limit) if before is not None and before.run == log.run else ()
    changed: list[Action] = [
        structs.replace(action, avoid=nodes) if isinstance(action, CreatePod) else action
        for action in actions
    ]
    for node in (node for node in nodes if node not in known):
        causes = ", ".join(
            f"{name} {count} times" if count > 1 else name
            for name, count in log.nodes[node].items()
        )
        why = f"it caused at least {limit} failures of Pods of this run ({causes})"
        if OTHER_NODE_WANTED in log.nodes[node]:
            why = "a preflight check rejected it for a Pod of this run"
        message = f"recreated Pods avoid the node {node}: {why}"
        changed.append(EmitEvent("NodeAvoided", message, warning=True))
    return changed


def timeline(
    view: JobView, record: RunRecord, now: float, hung: tuple[float, float] | None = None
) -> Timeline | None:
    """The timeline as it is now; None before the run has begun.

    Args:
        hung: From when to when it has just hung; None if it has not.
    """
    known = view.timeline if view.own_record is not None else None
    pods = [(pod, pod.spans) for pod in view.pods.values()]
    for gone in view.gone.values():
        # The containers of a Pod that has gone have ended by then.
        ended = (structs.replace(span, end=span.end or gone.at) for span in gone.pod.spans)
        pods.append((gone.pod, tuple(ended)))
    spans = [
        ((pod.role, pod.number), own)
        for pod, own in pods
        if own and pod.spec_hash == view.spec_hash
    ]
    return advanced(known, record, in_training(view.job, spans, record, now), now, hung)
