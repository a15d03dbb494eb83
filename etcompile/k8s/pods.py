"""What the status of a Pod means: how far it is, how its containers are, and who ends it.

The one place that reads it. Watcher, rollout and status put it into words of their own, for
different readers; what is ready, has ended or was disrupted is the same for all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.k8s.objects import Object, condition, is_going, is_true, seconds, status_of

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases that a Pod does not leave: none of its containers runs or will run again."""

KUBECTL_NAMES = frozenset({"pod", "pods", "po"})
"""What kubectl calls the kind."""

_DISRUPTIONS: Mapping[str, tuple[str, str]] = {
    "PreemptionByScheduler": ("Preempted", "a Pod of higher priority has its place"),
    "DeletionByTaintManager": ("Evicted", "its node has a taint that it does not tolerate"),
    "EvictionByEvictionAPI": ("Evicted", "through the API, as when a node is drained"),
    "DeletionByPodGC": ("NodeLost", "its node no longer exists"),
    "TerminationByKubelet": ("Terminated", "by its node"),
    "NodeLost": ("NodeLost", "its node does not answer"),
    "Preempting": ("Preempted", "its node gave its place to a Pod of higher priority"),
    "Evicted": ("Evicted", ""),
    "NodeShutdown": ("NodeShutdown", "its node is shutting down"),
    "Shutdown": ("Shutdown", "its node was shut down"),
    "Terminated": ("Terminated", "by its node"),
}
"""A word and an explanation for what ends a Pod before its time, by the reason of its status or of
its condition DisruptionTarget."""

_REFUSALS = frozenset(
    {
        *("HostPortConflict", "InvalidNodeInfo", "NodeAffinity", "NodeName", "NodePorts"),
        *("PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "SysctlForbidden"),
        *("TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError"),
    }
)
"""Reasons of Pods that their kubelet did not admit, beside `OutOfcpu` and the like
(k8s.io/kubernetes, pkg/kubelet/lifecycle/predicate.go and cm/)."""

KUEUE_MANAGED = "kueue.x-k8s.io/managed"
"""The finalizer of Kueue: a Pod of a group stays until Kueue has counted it."""
_KUEUE_GATE = "kueue.x-k8s.io/admission"

_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container waits for that starts as it should."""


def phase(pod: Object) -> str:
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    return status_of(pod).get("phase") or "Pending"


def has_ended(pod: Object) -> bool:
    """Whether none of its containers runs or will run again."""
    return phase(pod) in ENDED


def is_ready(pod: Object) -> bool:
    """Whether it is Ready: others can reach it."""
    return is_true(status_of(pod), "Ready")


def is_half_deleted(pod: Object) -> bool:
    """Whether the API server has marked a Pod as deleted and has only to remove it.

    It writes a deletion without grace in two steps, and leaves out the second when whoever asked
    is gone in between (k8s.io/apiserver, registry/rest/delete.go, BeforeDelete). No kubelet is
    waited for: the Pod has ended, or was never on a node. Who asks again finishes it.
    """
    metadata = pod["metadata"]
    if not is_going(pod) or metadata.get("finalizers"):
        return False
    on_a_node = bool((pod.get("spec") or {}).get("nodeName"))
    return metadata.get("deletionGracePeriodSeconds") == 0 and (has_ended(pod) or not on_a_node)


def is_left_out_by_kueue(pod: Object) -> bool:
    """Whether Kueue holds a Pod back and has given it up: its group had finished before it came.

    Kueue's webhook gives each Pod a gate and a finalizer. The gate goes when the Pod is admitted,
    the finalizer when its group has finished.
    """
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    gated = any(gate.get("name") == _KUEUE_GATE for gate in gates)
    return gated and KUEUE_MANAGED not in (pod["metadata"].get("finalizers") or ())


def deletion_requested(pod: Object) -> float:
    """When somebody requested its deletion, in seconds since 1970; 0 if nobody has.

    Its deletionTimestamp is when it should have gone.
    """
    metadata = pod["metadata"]
    due = seconds(metadata.get("deletionTimestamp"))
    return due - (metadata.get("deletionGracePeriodSeconds") or 0) if due is not None else 0.0


def unreachable_since(pod: Object) -> float:
    """Since when its node has not answered, in seconds since 1970; 0 as long as it does.

    When a kubelet does not answer, the node controller calls its Pods not Ready, and says nothing
    about their containers (k8s.io/kubernetes, pkg/controller/util/node/controller_utils.go,
    MarkPodsNotReady): a kubelet would. Of a Pod that was not Ready before nothing is known.
    """
    status = status_of(pod)
    ready = condition(status, "Ready")
    if ready.get("status") != "False" or ready.get("reason") or has_ended(pod):
        return 0.0
    if not is_true(status, "ContainersReady"):
        return 0.0
    return seconds(ready.get("lastTransitionTime")) or 0.0


def unscheduled(pod: Object) -> Mapping[str, Any] | None:
    """The condition in which the scheduler says why no node takes the Pod; None if it does not."""
    scheduled = condition(status_of(pod), "PodScheduled")
    return scheduled if scheduled.get("status") == "False" else None


# Who ends a Pod --------------------------------------------------------------------------------


def is_refused(pod: Object) -> bool:
    """Whether its kubelet did not admit it: it has failed, and never ran."""
    return phase(pod) == "Failed" and is_refusal(status_of(pod).get("reason") or "")


def is_disrupted(pod: Object) -> bool:
    """Whether somebody ends it before its time, or did not let it begin: not the training."""
    return disruption(pod) is not None or is_refusal(status_of(pod).get("reason") or "")


def disruption(pod: Object) -> tuple[str, str, str] | None:
    """Who ends a Pod before its time: a word, an explanation, and the message that goes with it.

    Schedulers, the taint manager and the eviction API say it in the condition DisruptionTarget,
    kubelets and the node controller in the status itself.
    """
    status: Mapping[str, Any] = status_of(pod)
    if status.get("reason") not in _DISRUPTIONS:
        if not is_true(status, "DisruptionTarget"):
            return None
        status = condition(status, "DisruptionTarget")
    reason = status.get("reason") or "DisruptionTarget"
    word, explanation = _DISRUPTIONS.get(reason, (reason, ""))
    return word, explanation, status.get("message") or ""


def is_refusal(reason: str) -> bool:
    """Whether the reason of a Pod that has failed says that its kubelet did not admit it."""
    return reason in _REFUSALS or reason.startswith("OutOf")


# Its containers --------------------------------------------------------------------------------


def init_containers(pod: Object) -> Sequence[Mapping[str, Any]]:
    """The statuses of its init containers."""
    return status_of(pod).get("initContainerStatuses") or ()


def containers(pod: Object) -> Sequence[Mapping[str, Any]]:
    """The statuses of its containers, without its init containers."""
    return status_of(pod).get("containerStatuses") or ()


def waiting(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why a container does not run, with `reason` and `message`; empty if it does not wait."""
    state: Mapping[str, Any] = (container.get("state") or {}).get("waiting") or {}
    return state


def terminated(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container has ended, with `exitCode` and `reason`; empty if it has not."""
    state: Mapping[str, Any] = (container.get("state") or {}).get("terminated") or {}
    return state


def terminated_before(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container ended the time before this; empty if it never did."""
    state: Mapping[str, Any] = (container.get("lastState") or {}).get("terminated") or {}
    return state


def is_running(container: Mapping[str, Any]) -> bool:
    """Whether a container runs."""
    return "running" in (container.get("state") or {})


def running_init(pod: Object) -> str:
    """Return the name of the init container that a Pod is at; empty if it has begun, or none."""
    names = [init.get("name") for init in init_containers(pod) if is_running(init)]
    return str(names[-1]) if names and status_of(pod).get("phase") == "Pending" else ""


def started_at(container: Mapping[str, Any]) -> str:
    """When a container was started that runs, in the kubelet's words; empty if it does not run."""
    return str(((container.get("state") or {}).get("running") or {}).get("startedAt") or "")


def ends(container: Mapping[str, Any]) -> int:
    """How often a container has ended, of all the times that it was started in its Pod."""
    before: int = container.get("restartCount") or 0
    if is_running(container):
        return before
    return before + bool(terminated(container) or terminated_before(container))


def is_on_its_way(reason: str) -> bool:
    """Whether a container that waits with this reason starts as it should."""
    return reason in _ON_ITS_WAY


def restarts(statuses: Iterable[Mapping[str, Any]]) -> int:
    """How often containers were started again in place."""
    return sum(status.get("restartCount", 0) for status in statuses)


def held(pod: Object) -> Iterator[Mapping[str, Any]]:
    """What keeps containers from starting, with `reason` and `message`; init containers first."""
    for container in (*init_containers(pod), *containers(pod)):
        state = waiting(container)
        if state.get("reason") and not is_on_its_way(state["reason"]):
            yield state


def failures(pod: Object) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The containers that have not ended well, each with how it ended; init containers first."""
    for container in (*init_containers(pod), *containers(pod)):
        ended = terminated(container)
        if ended.get("exitCode"):
            yield container, ended
