"""Read the status of a Pod: its phase, its containers, and who ends it.

Only this module reads it. Watcher, rollout and status phrase it for different readers, but what
counts as ready, ended or disrupted is the same for all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.k8s.objects import Object, condition, is_going, is_true, seconds, status_of

ENDED = frozenset({"Succeeded", "Failed"})
"""Final phases: no container runs or will run again."""

KUBECTL_NAMES = frozenset({"pod", "pods", "po"})

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
"""Reasons of Pods that their kubelet did not admit, in addition to `OutOfcpu` and the like
(k8s.io/kubernetes, pkg/kubelet/lifecycle/predicate.go and cm/)."""

KUEUE_MANAGED = "kueue.x-k8s.io/managed"
"""Kueue's finalizer: a Pod of a group stays until Kueue has counted it."""
_KUEUE_GATE = "kueue.x-k8s.io/admission"

_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits while it starts normally."""


def phase(pod: Object) -> str:
    return status_of(pod).get("phase") or "Pending"


def has_ended(pod: Object) -> bool:
    return phase(pod) in ENDED


def is_ready(pod: Object) -> bool:
    return is_true(status_of(pod), "Ready")


def is_half_deleted(pod: Object) -> bool:
    """Return whether the API server has marked a Pod as deleted but has not removed it.

    It writes a deletion without grace in two steps, and skips the second if the client has
    disconnected in between (k8s.io/apiserver, registry/rest/delete.go, BeforeDelete). No kubelet
    is involved: the Pod has ended, or was never on a node. A second request finishes the deletion.
    """
    metadata = pod["metadata"]
    if not is_going(pod) or metadata.get("finalizers"):
        return False
    on_a_node = bool((pod.get("spec") or {}).get("nodeName"))
    return metadata.get("deletionGracePeriodSeconds") == 0 and (has_ended(pod) or not on_a_node)


def is_left_out_by_kueue(pod: Object) -> bool:
    """Return whether Kueue holds back a Pod for ever: its group finished before the Pod came.

    Kueue's webhook gives each Pod a gate and a finalizer. It removes the gate when it admits the
    Pod, the finalizer when the group has finished.
    """
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    gated = any(gate.get("name") == _KUEUE_GATE for gate in gates)
    return gated and KUEUE_MANAGED not in (pod["metadata"].get("finalizers") or ())


def deletion_requested(pod: Object) -> float:
    """Return when the deletion of a Pod was requested (seconds since 1970); 0 if it was not.

    Its deletionTimestamp is when it should be gone.
    """
    metadata = pod["metadata"]
    due = seconds(metadata.get("deletionTimestamp"))
    return due - (metadata.get("deletionGracePeriodSeconds") or 0) if due is not None else 0.0


def unreachable_since(pod: Object) -> float:
    """Return since when its node does not answer (seconds since 1970); 0 while it does.

    When a kubelet does not answer, the node controller marks its Pods as not Ready and leaves
    their containers alone (k8s.io/kubernetes, pkg/controller/util/node/controller_utils.go,
    MarkPodsNotReady); a kubelet would change both. For a Pod that was not Ready before, the
    status does not show it.
    """
    status = status_of(pod)
    ready = condition(status, "Ready")
    if ready.get("status") != "False" or ready.get("reason") or has_ended(pod):
        return 0.0
    if not is_true(status, "ContainersReady"):
        return 0.0
    return seconds(ready.get("lastTransitionTime")) or 0.0


def unscheduled(pod: Object) -> Mapping[str, Any] | None:
    """Return the condition in which the scheduler says why no node fits the Pod, or None."""
    scheduled = condition(status_of(pod), "PodScheduled")
    return scheduled if scheduled.get("status") == "False" else None


# The end of a Pod ------------------------------------------------------------------------------


def has_stopped(pod: Object) -> bool:
    """Return whether all containers of a Pod have ended and its kubelet starts none of them again.

    The phase says so up to two seconds later, when the kubelet has removed the sandbox
    (k8s.io/kubernetes, pkg/kubelet/status/status_manager.go, mergePodStatus).
    """
    spec: Mapping[str, Any] = pod.get("spec") or {}
    declared, reported = spec.get("containers") or (), containers(pod)
    return (
        spec.get("restartPolicy") == "Never"
        and not any(container.get("restartPolicyRules") for container in declared)
        and len(reported) == len(declared)
        and all(terminated(container) for container in reported)
        and not any(is_running(init) for init in init_containers(pod))
    )


def is_refused(pod: Object) -> bool:
    return phase(pod) == "Failed" and is_refusal(status_of(pod).get("reason") or "")


def is_disrupted(pod: Object) -> bool:
    """Return whether something other than the training ended it early, or never let it start."""
    return disruption(pod) is not None or is_refusal(status_of(pod).get("reason") or "")


def disruption(pod: Object) -> tuple[str, str, str] | None:
    """Return what ends a Pod before its time: a word, an explanation, and its message.

    Schedulers, the taint manager and the eviction API write it to the condition DisruptionTarget,
    kubelets and the node controller to the status itself.
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
    return reason in _REFUSALS or reason.startswith("OutOf")


# Its containers --------------------------------------------------------------------------------


def init_containers(pod: Object) -> Sequence[Mapping[str, Any]]:
    return status_of(pod).get("initContainerStatuses") or ()


def containers(pod: Object) -> Sequence[Mapping[str, Any]]:
    return status_of(pod).get("containerStatuses") or ()


def waiting(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return why a container does not run (`reason`, `message`); empty if it does not wait."""
    state: Mapping[str, Any] = (container.get("state") or {}).get("waiting") or {}
    return state


def terminated(container: Mapping[str, Any]) -> Mapping[str, Any]:
    state: Mapping[str, Any] = (container.get("state") or {}).get("terminated") or {}
    return state


def terminated_before(container: Mapping[str, Any]) -> Mapping[str, Any]:
    state: Mapping[str, Any] = (container.get("lastState") or {}).get("terminated") or {}
    return state


def is_running(container: Mapping[str, Any]) -> bool:
    return "running" in (container.get("state") or {})


def running_init(pod: Object) -> str:
    """Return the init container that a Pod is at; empty if there is none or all have ended."""
    names = [init.get("name") for init in init_containers(pod) if is_running(init)]
    return str(names[-1]) if names and status_of(pod).get("phase") == "Pending" else ""


def current_init(pod: Object) -> str:
    """Return the init container that a Pod is at, or that keeps others from starting by failing."""
    if any(is_running(container) or ends(container) for container in containers(pod)):
        return ""
    failed = [
        str(init.get("name"))
        for init in init_containers(pod)
        if (terminated(init) or terminated_before(init)).get("exitCode")
    ]
    return running_init(pod) or next(reversed(failed), "")


def started_at(container: Mapping[str, Any]) -> str:
    return str(((container.get("state") or {}).get("running") or {}).get("startedAt") or "")


def ends(container: Mapping[str, Any]) -> int:
    """Return how often a container has ended, over all of its starts in the Pod."""
    before: int = container.get("restartCount") or 0
    if is_running(container):
        return before
    return before + bool(terminated(container) or terminated_before(container))


def is_on_its_way(reason: str) -> bool:
    return reason in _ON_ITS_WAY


def restarts(statuses: Iterable[Mapping[str, Any]]) -> int:
    return sum(status.get("restartCount", 0) for status in statuses)


def held(pod: Object) -> Iterator[Mapping[str, Any]]:
    """Yield what keeps containers from starting (`reason`, `message`), init containers first."""
    for container in (*init_containers(pod), *containers(pod)):
        state = waiting(container)
        if state.get("reason") and not is_on_its_way(state["reason"]):
            yield state


def failures(pod: Object) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for container in (*init_containers(pod), *containers(pod)):
        ended = terminated(container)
        if ended.get("exitCode"):
            yield container, ended
