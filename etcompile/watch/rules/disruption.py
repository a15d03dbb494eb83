"""A warning before the end: who goes takes all with it, so all are told, not just who goes.

Of a gang that trains together one Pod that is drained, preempted or deleted ends the epoch of all.
Its own processes are told by their kubelet. The others would learn of it by an error, without a
checkpoint, or with one that the first does not have. So when the first of them is about to go, the
supervisors of all pass the same signal on, and the program writes one checkpoint, everywhere at the
same step (docs/recovery.md).

Each disruption is told once: Pods that go soon after the first are part of the same.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import Decision, EmitEvent, Requeue, WarnPod
from etcompile.watch.rules.placement import Placement
from etcompile.watch.state import AGAIN, PodView

_SAME = 30.0
"""Seconds after a warning in which those who go are part of the same disruption."""
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
    remind = placement.view.timeouts.remind
    going = [pod for pod in pods if pod.deleting or pod.disrupted]
    new = [pod for pod in going if pod.uid not in record.warned]
    if len(going) == len(pods) and record.notice == "":
        return Decision(record)  # the whole job goes, and each Pod is told by its kubelet
    if not new:
        return Decision(record, tuple(_untold(pods, record, now, remind)))
    record = structs.replace(record, warned=tuple(sorted(pod.uid for pod in going)))
    if now < _time(record.notice) + _SAME:
        return Decision(record, tuple(_untold(pods, record, now, remind)))
    due = max((pod.due for pod in going), default=0.0) or now + _UNKNOWN
    why = f"{new[0].name} is about to go"
    if new[0].reason:
        why += f" ({new[0].reason})"
    notice = f"{record.epoch or 0}-{now:.0f} {in_place.checkpoint_signal} {due:.0f} {why}"
    record = structs.replace(record, notice=notice)
    told = EmitEvent(
        "CheckpointRequested", f"{why}: all commands are sent {in_place.checkpoint_signal}"
    )
    return Decision(record, (*_untold(pods, record, now, remind), told))


def _untold(
    pods: list[PodView], record: RunRecord, now: float, remind: float
) -> Iterator[WarnPod | Requeue]:
    """The warnings that are yet to be sent; none that comes too late.

    Each is sent twice, since nobody answers it, and a kubelet may lose a change of an annotation
    (`in_place`). A supervisor heeds it once.
    """
    if not record.notice or now >= _time(record.notice) + _SAME:
        return
    name = record.notice.partition(" ")[0]
    since = _time(record.notice)
    for pod in pods:
        if pod.supervised is None or pod.created > since:
            continue
        if pod.supervised.notice != name:
            yield WarnPod(pod.name, pod.uid, record.notice)
        elif not (pod.supervised.noticed_twice or pod.deleting):
            if now >= since + remind:
                yield WarnPod(pod.name, pod.uid, f"{record.notice} {AGAIN}")
            else:
                yield Requeue(since + remind)


def _time(notice: str) -> float:
    """When a warning was given, in seconds since 1970; 0 if it was never."""
    time = notice.partition(" ")[0].partition("-")[2]
    return float(time) if time.isdecimal() else 0.0
