"""What has failed, for the log of failures that outlives the Pods.

Written down is what ended before its time by itself, or because somebody ended it: a container, a
Pod as a whole, a command whose container stays. Not what we end ourselves: of a gang that is made
again all Pods are deleted, and what their containers make of the signal says nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from etcompile.failures import COMMAND_ENDED, Failure, FailureLog, tail_of
from etcompile.k8s.objects import seconds
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import ReadTail
from etcompile.watch.rules.nodes import silent_since
from etcompile.watch.rules.placement import Placement
from etcompile.watch.rules.replica_state import Replica, ReplicaStates
from etcompile.watch.rules.silence import Suspect, silence_of
from etcompile.watch.state import JobView, PodView, Tail

_LOSSES: Mapping[str, str] = {
    "deleted": "Deleted",
    "erased": "Deleted",
    "vanished": "Vanished",
    "stuck": "Stuck",
}
_UNREAD = "its log could not be read"
_SILENT = "it wrote nothing"
_SAID = re.compile(r"etcompile: the command ended in epoch (\d{1,9}): exit code \d", re.ASCII)
_BEGAN = re.compile(r"etcompile: epoch \d+ begins")
_LINES = 1000
"""Of the log of a command that has ended: those of the next epoch come after it."""
_EVERY = 1.0
"""Seconds between two writes for failures alone. What is decided because of them is not delayed."""


def noted(view: JobView, seen: Sequence[Failure], now: float) -> FailureLog | None:
    """The log of failures as it is to be; None if the run has failed of nothing.

    Args:
        view: What is known of the job.
        seen: The failures that are seen, whether they are in the log or not.
        now: The time, in seconds since 1970.
    """
    log = view.failures
    if log is None or log.run != view.spec_hash or view.own_record is None:
        log = FailureLog(view.spec_hash) if seen else None
    if log is None:
        return None
    if seen:
        visible = {pod.uid for pod in view.pods.values()}
        visible |= {gone.pod.uid for gone in view.gone.values()}
        log = log.with_failures(seen, visible, now)
    return read(log, view.tails)


def due_at(log: FailureLog | None) -> float:
    """When the log may be written again for itself, in seconds since 1970."""
    return log.written + _EVERY if log is not None else 0.0


def of_pods(placement: Placement, record: RunRecord) -> list[Failure]:
    """What the Pods that are there, or were seen to go, say that they have failed of."""
    view = placement.view
    told = [pod for pod in view.pods.values() if pod.failures]
    told += (gone.pod for gone in view.gone.values() if gone.pod.failures)
    gang = frozenset(record.gang)
    begun = record.restarted_at if record.epoch else 0.0

    def attempt(pod: PodView, failure: Failure) -> int:
        # Those of a gang that is being made again are of the attempt before. So is what an epoch
        # begins for: that is learned before the kubelet says so, or after.
        return max(0, record.attempt - (pod.uid in gang or 0 < failure.at < begun))

    return [
        structs.replace(failure, attempt=attempt(pod, failure))
        for pod in told
        if pod.spec_hash == view.spec_hash
        for failure in pod.failures
    ]


def _base(pod: PodView, attempt: int) -> Failure:
    number = pod.rank if pod.rank is not None else pod.index or 0
    return Failure(pod.role, number, pod.name, attempt=attempt, node=pod.node)


def of_losses(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Failure]:
    """The Pods that went without a word, as somebody deletes them.

    Args:
        states: What has become of the replicas, before anything was decided about them.
        record: The run record from before that.
        now: The time, in seconds since 1970.
    """
    for loss in states.new_losses(now):
        reason = _LOSSES.get(loss.cause or "", "")
        pod = loss.last
        if loss.cause == "stuck" and loss.place.role.recovery.relaunch is None:
            continue  # `of_silence`
        if not reason or (pod is not None and pod.failures):
            continue
        if pod is not None and _is_released(states, loss, pod, now):
            reason = "NodeLost"
        place = loss.place
        base = (
            Failure(place.role.name, place.number, place.name, attempt=record.attempt)
            if pod is None
            else _base(pod, record.attempt)
        )
        uid = f"{pod.uid if pod is not None else loss.place.name}.{record.attempt}.{reason}"
        at = loss.since or (pod.asked if pod is not None else 0.0) or now
        yield structs.replace(base, uid=uid, at=at, reason=reason)


_SPEAKERS = 8
"""Pods of a run that is stuck of which the last lines are kept."""
_LINES_OF_SILENCE = 20
_STACKS = 3
"""Processes of such a Pod of which the stack is kept."""


def of_silence(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Failure]:
    """The Pods that a run hangs for; if nobody knows, those that spoke last, with their lines.

    Args:
        states: What has become of the replicas, before anything was decided about them.
        record: The run record from before that.
        now: The time, in seconds since 1970.
    """
    silence = silence_of(states.placement, record)
    if silence is None or not silence.is_settled(now):
        return
    speakers = [Suspect(pod, "", 0) for pod in silence.last_to_speak()]
    for suspect in (silence.suspects() or speakers)[:_SPEAKERS]:
        pod = suspect.pod
        heard = states.placement.view.heard[pod.uid]
        own = silence.written_before(pod) or [heard.line]
        stacks = sorted(silence.stacks_of(pod), key=lambda stack: stack.process != suspect.process)
        places = [line for stack in stacks[:_STACKS] for line in stack.lines]
        yield structs.replace(
            _base(pod, record.attempt),
            uid=f"{pod.uid}.{record.attempt}.Stuck",
            at=heard.at or 0.0,
            reason="Stuck",
            message=suspect.what,
            tail=tail_of("\n".join([*own[-_LINES_OF_SILENCE:], *places])),
        )


def _is_released(states: ReplicaStates, loss: Replica, pod: PodView, now: float) -> bool:
    """Whether a Pod went because its node did not answer."""
    limit = states.placement.job.run.lost_node_after
    late = limit is not None and (loss.since or now) >= silent_since(pod) + limit
    return bool(pod.unreachable_since) or (late and silent_since(pod) > 0)


def unread(log: FailureLog, placement: Placement) -> Iterator[ReadTail]:
    """The logs of commands that ended in containers that stay; of each Pod the last end."""
    last = {
        failure.uid.partition(".")[0]: failure
        for failure in log.failures
        if failure.reason == COMMAND_ENDED
    }
    there = {pod.uid for pod in placement.view.pods.values()} if last else set()
    for uid, failure in last.items():
        if uid not in there or not failure.is_unread:
            continue
        if placement.view.tails.get(uid, Tail("")).of != failure.uid:
            yield ReadTail(failure.pod, uid, failure.container, failure.uid, _LINES)


def read(log: FailureLog, tails: Mapping[str, Tail]) -> FailureLog:
    """The log of failures, with what was read of the logs of Pods."""
    lines = {tail.of: tail.lines for tail in tails.values() if tail.lines is not None}
    found = {
        failure.uid: _with_tail(failure, lines[failure.uid])
        for failure in log.failures
        if failure.is_unread and failure.uid in lines
    }
    return log.with_read(found) if found else log


def _with_tail(failure: Failure, lines: Sequence[str]) -> Failure:
    """A command's end with the lines before it.

    Args:
        failure: One whose lines were not known.
        lines: The last lines of the log, each after the time at which it was written. Those of the
            next epoch may be among them.
    """
    told = [line.partition(" ") for line in lines]
    epoch = failure.uid.rpartition("-")[2]
    for place, (time, _, text) in enumerate(told):
        said = _SAID.match(text)
        if said is None or said[1] != epoch:
            continue
        own = [text for _, _, text in told[:place]]
        began = max((n for n, line in enumerate(own) if _BEGAN.match(line)), default=-1)
        tail = tail_of("\n".join(own[began + 1 :]))
        at = seconds(time) or failure.at
        return structs.replace(failure, at=at, tail=tail, message="" if tail else _SILENT)
    return structs.replace(failure, message=_UNREAD)
