"""Replicas that run and say nothing: their logs are read, and who is silent for too long is lost.

DLRover's master watches its agents' heartbeats, and only where it makes the Pods; a hung one it
duplicates instead of ending it (reference/dlrover.md 4.2; 7, defect 13). Here the time of the last
line of the main container's log counts, asked for only when it may have been too long ago. Who
hangs is ended and not deleted: its log says where.
"""

from collections.abc import Iterator

from etcompile.watch.actions import Action, EndPod, ReadLog, Requeue
from etcompile.watch.rules.replica_states import ReplicaStates
from etcompile.watch.rules.stuck_after import can_hang, silent_at

_AGAIN = 60.0
"""Seconds until a log is asked for again that could not be read."""


def listened(states: ReplicaStates, now: float) -> Iterator[Action]:
    """The logs that are to be read, and when to ask again.

    Args:
        states: What has become of the replicas.
        now: The time.
    """
    heard = states.run_state.view.heard
    for one in states.those("there"):
        pod, role = one.place.pod, one.place.role
        if pod is None or not can_hang(role, pod):
            continue
        known = heard.get(pod.uid)
        due = silent_at(role, pod, known)
        if known is not None and known.at is None:
            due = max(due, known.asked + _AGAIN)
        if now < due:
            yield Requeue(due)
        else:
            yield ReadLog(pod.name, pod.uid, role.template.main)
            yield Requeue(now + _AGAIN)
    for one in states.those("left"):
        pod = one.place.pod
        if pod is not None and one.place.role.relaunch and not pod.ended and not pod.ending:
            yield EndPod(pod.name, pod.uid, "Stuck")
