"""A Pod in one word: what it is, and what keeps it from being ready.

The words are those that `kubectl get pods` has taught everybody to look for. The sentences that go
with them are `rollout.reasons`', so that `apply` and `status` say the same of the same Pod.
"""

from typing import Literal, cast

from msgspec import Struct

from etcompile.k8s import pods
from etcompile.k8s.objects import Object, is_going, status_of
from etcompile.rollout.machine.reasons import object_state

State = Literal[
    "Missing", "Pending", "Running", "Ready", "Succeeded", "Failed", "Terminating", "Unknown"
]
"""What a Pod is. `Running` is not ready; `Missing` is a Pod that should be there and is not."""

ALIVE: frozenset[State] = frozenset({"Running", "Ready"})
"""The states in which the main container may be at work."""


class PodProblem(Struct, frozen=True):
    """What keeps a Pod from being ready.

    Args:
        reason: One word: `Unschedulable`, `ImagePullBackOff`, `OOMKilled` ...
        message: The rest, in one line; may be empty.
    """

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


def state(pod: Object) -> State:
    """What a Pod is, in one word."""
    phase = cast("State", pods.phase(pod))
    if phase in pods.ENDED:
        return phase  # also while it is being deleted: that is what came of it
    if is_going(pod):
        return "Terminating"
    return "Ready" if phase == "Running" and pods.is_ready(pod) else phase


def restarts(pod: Object) -> int:
    """How often containers of a Pod were started again, init containers included."""
    return pods.restarts((*pods.init_containers(pod), *pods.containers(pod)))


def pod_problem(pod: Object) -> PodProblem | None:
    """What keeps a Pod from being ready; None if it is ready, or has succeeded."""
    now = state(pod)
    if now in ("Ready", "Succeeded"):
        return None
    word = _word(pod, now)
    return PodProblem(word, object_state(pod).reason.removeprefix(f"{word}: "))


def _word(pod: Object, now: State) -> str:
    reason, ended_by = status_of(pod).get("reason"), (pods.disruption(pod) or ("",))[0]
    if now == "Failed":
        failures = (ended.get("reason") or "Error" for _, ended in pods.failures(pod))
        return ended_by or reason or next(failures, "Failed")
    if now == "Terminating":
        return ended_by or ("NodeLost" if pods.unreachable_since(pod) else now)
    if pods.unreachable_since(pod):
        return "NodeLost"
    if now == "Unknown" or reason == "NodeLost":
        return "NodeLost"
    if (unscheduled := pods.unscheduled(pod)) is not None:
        return unscheduled.get("reason") or "Unschedulable"
    if held := next(pods.held(pod), None):
        return str(held["reason"])
    if now == "Running":
        return "NotReady"
    inits = pods.init_containers(pod)
    if any(map(pods.is_running, inits)):
        return "Initializing"
    waiting = (
        pods.waiting(container).get("reason") for container in (*inits, *pods.containers(pod))
    )
    return next(filter(None, waiting), now)
