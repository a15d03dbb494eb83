"""Which losses bring a replica back: the table of policies.

reference/et-operator.md 4.1, reference/training-operator.md 2.3 and 5.4. A loss is what became of a
Pod, not whose fault it is.
"""

from typing import Literal

from etcompile.model import Role
from etcompile.watch.state import PodView

Cause = Literal["failed", "succeeded", "unknown", "deleted", "erased", "vanished", "stuck"]
"""How a replica lost its Pod: it failed; it ended well; its node is unreachable; somebody deleted
it; somebody deleted it by force; nobody saw how; it runs and does nothing."""

_ANY: frozenset[Cause] = frozenset(
    {"failed", "succeeded", "unknown", "deleted", "erased", "vanished"}
)
_POLICIES: dict[str, frozenset[Cause]] = {
    "Always": _ANY,
    # A kubelet lets a Pod that it is told to stop fail before it goes; one that is deleted by
    # force just is not there any more (reference/et-operator.md 4.1).
    "OnFailure": frozenset({"failed", "deleted", "vanished"}),
    "ExitCode": frozenset({"failed", "deleted", "vanished"}),
}
_MORE: dict[str, frozenset[Cause]] = {
    "policy": frozenset(),
    "when-gone": frozenset({"deleted", "erased", "vanished"}),
    "always": _ANY - {"succeeded"},
}
_RETRYABLE = range(128, 256)
"""Exit codes after which another try may help: signals. The documented bounds; et-operator leaves
out both ends (reference/et-operator.md 6, defect 18)."""


def comes_back(role: Role, cause: Cause, pod: PodView | None) -> bool:
    """Whether a replica gets another Pod.

    Args:
        role: Its role.
        cause: How it lost its Pod.
        pod: What was last seen of that.
    """
    if cause in _MORE[role.comes_back]:
        return True
    if cause == "failed" and pod is not None and pod.refused:
        return True  # it never ran: the scheduler was wrong, or somebody was faster
    if cause not in _POLICIES.get(role.restart, ()):
        return False
    if cause == "succeeded":
        # Elsewhere a replica that has succeeded is done (reference/training-operator.md 7,
        # defect 9).
        return role.comes_back == "policy"
    return role.restart != "ExitCode" or cause != "failed" or _retryable(role, pod)


def _retryable(role: Role, pod: PodView | None) -> bool:
    # A Pod without an exit code never came to train (reference/training-operator.md 5.4).
    code = None if pod is None or pod.disrupted else exit_code(role, pod)
    return code is None or code in _RETRYABLE


def exit_code(role: Role, pod: PodView) -> int | None:
    """The exit code that counts: the main container's if it failed, else the first that failed.

    None if no container has ended.
    """
    if not pod.exits:
        return None
    codes = dict(pod.exits)
    failed = [code for _, code in pod.exits if code]
    return codes.get(role.template.main) or next(iter(failed), 0)


def why(role: Role, cause: Cause, pod: PodView | None) -> str:
    """A loss in a few words: `exit code 137`, `Evicted`, `deleted`."""
    if cause != "failed" or pod is None:
        words = {
            "unknown": "its node is unreachable",
            "erased": "deleted by force, or taken out of the job",
            "vanished": "its Pod went while no watcher was running, so how it ended is not known",
            "stuck": "it has logged nothing new",
        }
        return words.get(cause, cause)
    code = exit_code(role, pod)
    if pod.reason:
        return pod.reason
    if pod.reasons:
        return pod.reasons[0]
    return "failed" if code is None else f"exit code {code}"
