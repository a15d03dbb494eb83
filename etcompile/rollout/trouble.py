"""A Pod in one word: what it is, and what keeps it from being ready.

The words are those that `kubectl get pods` has taught everybody to look for. The sentences that go
with them are `rollout.reasons`', so that `apply` and `status` say the same of the same Pod.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from etcompile.rollout.reasons import disruption, standing

State = Literal[
    "Missing", "Pending", "Running", "Ready", "Succeeded", "Failed", "Terminating", "Unknown"
]
"""What a Pod is. `Running` is not ready; `Missing` is a Pod that should be there and is not."""

ALIVE: frozenset[State] = frozenset({"Running", "Ready"})
"""The states in which the main container may be at work."""

# What a container says while it is only on its way.
_ON_ITS_WAY = ("ContainerCreating", "PodInitializing")


class Trouble(Struct, frozen=True):
    """What keeps a Pod from being ready.

    Args:
        reason: One word: `Unschedulable`, `ImagePullBackOff`, `OOMKilled` ...
        message: The rest, in one line; may be empty.
    """

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


def state(pod: Mapping[str, Any]) -> State:
    """What a Pod is, in one word."""
    status = pod.get("status") or {}
    phase: State = status.get("phase") or "Pending"
    if phase in ("Succeeded", "Failed"):
        return phase  # also while it is being deleted: that is what came of it
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if phase == "Running" and _condition(status, "Ready").get("status") == "True":
        return "Ready"
    return phase


def restarts(pod: Mapping[str, Any]) -> int:
    """How often containers of a Pod were started again, init containers included."""
    return sum(one.get("restartCount", 0) for one in _containers(pod.get("status") or {}))


def trouble(pod: Mapping[str, Any]) -> Trouble | None:
    """What keeps a Pod from being ready; None if it is ready, or has succeeded."""
    now = state(pod)
    if now in ("Ready", "Succeeded"):
        return None
    word = _word(pod.get("status") or {}, now)
    return Trouble(word, standing(pod).reason.removeprefix(f"{word}: "))


def _word(status: Mapping[str, Any], now: State) -> str:
    ended_by = disruption(status).partition(":")[0]
    if now == "Failed":
        return ended_by or status.get("reason") or next(_ends(status), "Failed")
    if now == "Terminating":
        return ended_by or now
    if now == "Unknown" or status.get("reason") == "NodeLost":
        return "NodeLost"
    placed = _condition(status, "PodScheduled")
    if placed.get("status") == "False":
        return placed.get("reason") or "Unschedulable"
    waiting = [*_waits(status)]
    if held := next((one for one in waiting if one not in _ON_ITS_WAY), None):
        return held
    if now == "Running":
        return "NotReady"
    inits = status.get("initContainerStatuses") or ()
    if any("running" in (one.get("state") or {}) for one in inits):
        return "Initializing"
    return next(iter(waiting), now)


def _ends(status: Mapping[str, Any]) -> Iterator[str]:
    """The words for how containers failed: `OOMKilled`, `Error`."""
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            yield ended.get("reason") or "Error"


def _waits(status: Mapping[str, Any]) -> Iterator[str]:
    """The words for what containers wait for; init containers come first."""
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            yield waiting["reason"]


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()


def _condition(status: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == wanted), {})
