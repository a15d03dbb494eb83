"""A warning before the end: who goes takes all with it, so all are told, not just who goes.

Of a gang that trains together one Pod that is drained, preempted or deleted ends the epoch of all.
Its own processes are told by their kubelet. The others would learn of it by an error, without a
checkpoint, or with one that the first does not have. So when the first of them is about to go, the
supervisors of all pass the same signal on, and the program writes one checkpoint, everywhere at the
same step (docs/recovery.md).

Each disruption is told once: Pods that go soon after the first are part of the same.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.model.notice import REMINDED, SAME, Notice, notice, read_notice
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import Decision, EmitEvent, Requeue, WarnPod
from etcompile.watch.rules.placement import Placement
from etcompile.watch.state import PodView

_UNKNOWN = 30.0
"""Seconds that a Pod is thought to have left of which nobody says how many it has."""


def warned(placement: Placement, record: RunRecord, now: float) -> Decision:
    """The warning of Pods that are about to go, if nobody has been warned of them.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    in_place = placement.job.run.in_place
    if in_place is None or in_place.checkpoint_signal is None or record.phase != "Running":
        return Decision(record)
    pods = [
        pod
        for pod in placement.of_this_run
        if pod.role in in_place.roles and pod.supervised is not None and not pod.ended
    ]
    given = read_notice(record.notice)
    going = [pod for pod in pods if pod.deleting or pod.disrupted]
    new = [pod for pod in going if pod.uid not in record.warned]
    if len(going) == len(pods) and not given.name:
        return Decision(record)  # the whole job goes, and each Pod is told by its kubelet
    if not new:
        return Decision(record, tuple(_untold(pods, given, now)))
    record = structs.replace(record, warned=tuple(sorted(pod.uid for pod in going)))
    if now < _last(given, pods) + SAME:
        return Decision(record, tuple(_untold(pods, given, now)))
    due = max((pod.due for pod in going), default=0.0) or now + _UNKNOWN
    why = f"{new[0].name} is about to go"
    if new[0].reason:
        why += f" ({new[0].reason})"
    given = notice(record.epoch or 0, now, in_place.checkpoint_signal, due, why)
    record = structs.replace(record, notice=given.text)
    told = EmitEvent(
        "CheckpointRequested", f"{why}: all commands are sent {in_place.checkpoint_signal}"
    )
    return Decision(record, (*_untold(pods, given, now), told))


def _last(given: Notice, pods: Sequence[PodView]) -> float:
    """When Pods were last told to write a checkpoint, by whomever, in seconds since 1970."""
    notices = (pod.supervised.notice for pod in pods if pod.supervised is not None)
    return max(given.at, *(found.at for found in notices if not found.is_report))


def _untold(pods: Sequence[PodView], given: Notice, now: float) -> Iterator[WarnPod | Requeue]:
    """The warnings that are yet to be sent; none that comes too late, or after a newer one.

    Each is sent twice, since nobody answers it, and a kubelet may lose a change of an annotation
    (`in_place`). A supervisor heeds it once.
    """
    if not given.name or now >= given.at + SAME:
        return
    for pod in pods:
        if pod.supervised is None or pod.created > given.at:
            continue
        seen = pod.supervised.notice
        if seen.name != given.name:
            if seen.at <= given.at:
                yield WarnPod(pod.name, pod.uid, given.text)
        elif not (seen.repeated or pod.deleting):
            if now >= given.at + REMINDED:
                yield WarnPod(pod.name, pod.uid, given.again().text)
            else:
                yield Requeue(given.at + REMINDED)
