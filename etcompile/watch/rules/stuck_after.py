"""How long a replica has been silent, and whether that is too long.

Apart from the reading of logs, because what has become of a replica depends on it.
"""

from etcompile.model import Role
from etcompile.watch.state import LogActivity, PodView


def hangs(role: Role, pod: PodView, heard: LogActivity | None) -> bool:
    """Whether a Pod has been silent for too long, as of when its log was last read.

    Args:
        role: Its role.
        pod: The Pod.
        heard: What is known of its log.
    """
    if heard is None or heard.at is None or not can_hang(role, pod):
        return False
    return heard.asked >= silent_at(role, pod, heard)


def silent_at(role: Role, pod: PodView, heard: LogActivity | None) -> float:
    """When a Pod will have been silent for too long if it says nothing more."""
    last = heard.at if heard is not None and heard.at is not None else 0.0
    limit = role.relaunch.stuck if role.relaunch else None
    return max(last, pod.ready_since or pod.created) + (limit or 0)


def can_hang(role: Role, pod: PodView) -> bool:
    """Whether a Pod is one that is to be ended if it is silent for too long."""
    limited = role.relaunch is not None and role.relaunch.stuck is not None
    return limited and pod.phase == "Running" and not pod.deleting and not pod.ending
