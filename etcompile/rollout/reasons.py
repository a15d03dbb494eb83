"""A live object to how far it is, and what keeps it: the rules of reference/gitops.md 4.3.

Pure, and a function per kind. What a rule says is for the person who waits: the container, the
image, the Secret that is missing. How long a reason may last before it counts as a failure is
part of it: an image that cannot be pulled may appear, a Pod that finds no node may wait for one
for days.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.k8s.pods import is_half_deleted

State = Literal["waiting", "ready", "ended", "failed"]

BACKING_OFF = 120.0
"""Seconds that a container may fail to start, again and again."""
_BY_TAINT = "DeletionByTaintManager"
"""Why a Pod has to go whose node is tainted `NoExecute`, as one is that does not answer."""
_NOT_READY = 60.0
"""Seconds that the source of a Secret may say that it has a problem."""
_POD = 600.0

LIMITS: Mapping[str, float] = {
    "CustomResourceDefinition": 60.0,
    "ExternalSecret": 120.0,
    "Namespace": 60.0,
    "PersistentVolumeClaim": 300.0,
    "Pod": _POD,
    "SealedSecret": 120.0,
}
"""Seconds until an object should be ready, by kind. A Job has none: its user sets that."""


class Standing(Struct, frozen=True):
    """How far an object is.

    Args:
        state: `ready` for others to build on; `ended` when its work is done, too.
        reason: What it waits for, or why it failed; empty if there is nothing to say.
        patience: Seconds that this very reason may last; None leaves that to the kind's limit,
            infinity means as long as it takes.
        vague: Events may know more.
        over: A run of the object has failed, and nothing but a new one follows.
    """

    state: State
    reason: str = ""
    patience: float | None = None
    vague: bool = False
    over: bool = False

    @property
    def good(self) -> bool:
        """Whether others can build on it."""
        return self.state in ("ready", "ended")


READY = Standing("ready")
_ENDED_BY: Mapping[str, tuple[str, str]] = {
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
}
"""A word and an explanation for what ends a Pod before its time, by the reason of its status or of
its condition DisruptionTarget."""


def standing(value: Object) -> Standing:
    """How far a live object is. One of a kind without a rule is ready as soon as it is there."""
    if value["metadata"].get("deletionTimestamp"):
        return Standing("waiting", deleting(value))
    rule = _RULES.get(value["kind"])
    return rule(value) if rule else READY


def has_rule(kind: str) -> bool:
    """Whether objects of the kind take time to become ready."""
    return kind in _RULES


def deleting(value: Object) -> str:
    """That an object is going, why, and what keeps it."""
    if value.get("kind") == "Pod" and is_half_deleted(value):
        name = value["metadata"]["name"]
        return f"its deletion was begun and never finished: kubectl delete pod {name} finishes it"
    finalizers = value["metadata"].get("finalizers") or ()
    kept = f", kept by the finalizers {', '.join(finalizers)}" if finalizers else ""
    why = disruption(value.get("status") or {})
    target = _condition(value.get("status") or {}, "DisruptionTarget")
    if value["kind"] == "Pod" and target.get("reason") == _BY_TAINT and not finalizers:
        force = f"kubectl delete pod {value['metadata']['name']} --force --grace-period=0"
        why += f"; nothing can replace it before it has gone: if its node never will, {force}"
    return f"it is being deleted{kept}" + (f": {why}" if why else "")


def deleted(value: Object) -> str:
    """That an object is gone, and why, as far as it told before."""
    why = disruption(value.get("status") or {})
    return f"it was deleted: {why}" if why else "it was deleted"


def disruption(status: Object) -> str:
    """Who ends a Pod before its time, and why: `Preempted: a Pod of higher priority has …`.

    Schedulers, the taint manager and the eviction API say it in the condition DisruptionTarget,
    kubelets and the node controller in the status itself.

    Args:
        status: The Pod's; another object's says nothing of the kind.
    """
    reason, message = status.get("reason") or "", status.get("message") or ""
    if reason not in _ENDED_BY:
        target = _condition(status, "DisruptionTarget")
        if target.get("status") != "True":
            return ""
        reason, message = target.get("reason") or "DisruptionTarget", target.get("message") or ""
    word, explanation = _ENDED_BY.get(reason, (reason, ""))
    return _joined(_joined(word, explanation), message)


def _pod(value: Object) -> Standing:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return Standing("ended")
    if phase == "Failed":
        return Standing("failed", _why_failed(status), over=True)
    if phase == "Unknown" or status.get("reason") == "NodeLost":
        lost = {"reason": "NodeLost", "message": status.get("message")}
        return Standing("waiting", disruption(status) or disruption(lost))
    if _condition(status, "Ready").get("status") == "True":
        return READY
    if gates := spec.get("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in gates)
        return Standing("waiting", f"held by the scheduling gate {names}", math.inf)
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        told = scheduled.get("message") or scheduled.get("reason") or ""
        return Standing("waiting", f"cannot be scheduled: {told}", math.inf)
    for found in _containers(spec, status):
        return found
    if not spec.get("nodeName"):
        return Standing("waiting", "not scheduled yet", vague=True)
    return Standing("waiting", "the kubelet has not started it yet", vague=True)


def _containers(spec: Object, status: Object) -> Iterator[Standing]:
    """What keeps the containers, the most telling first."""
    images = {
        one.get("name"): one.get("image")
        for part in ("initContainers", "containers")
        for one in spec.get(part) or ()
    }
    told = [
        (part == "initContainerStatuses", one, (one.get("state") or {}).get("waiting") or {})
        for part in ("initContainerStatuses", "containerStatuses")
        for one in status.get(part) or ()
    ]
    for _, one, waiting in told:
        name = one.get("name")
        reason, message = waiting.get("reason") or "", waiting.get("message") or ""
        image = images.get(name) or one.get("image")
        if reason in ("InvalidImageName", "ErrImageNeverPull"):
            yield Standing("failed", _joined(f"container {name}: {reason} {image}", message))
        elif reason in ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"):
            words = _joined(f"container {name}: cannot pull the image {image}", message)
            yield Standing("waiting", words, BACKING_OFF)
        elif reason == "CrashLoopBackOff":
            ended = (one.get("lastState") or {}).get("terminated") or {}
            words = f"container {name}: keeps crashing{_exit(ended)}"
            yield Standing("waiting", words, BACKING_OFF)
        elif reason == "CreateContainerConfigError":
            yield Standing("waiting", _joined(f"container {name}: cannot be created", message))
        elif reason and reason not in ("ContainerCreating", "PodInitializing"):
            yield Standing("waiting", _joined(f"container {name}: {reason}", message), BACKING_OFF)
    for init, one, _ in told:
        if init and "running" in (one.get("state") or {}):
            yield Standing("waiting", f"init container {one.get('name')} is running")
    for _, one, waiting in told:
        if waiting:
            reason = waiting.get("reason") or "waiting"
            yield Standing("waiting", f"container {one.get('name')}: {reason}", vague=True)
    for init, one, _ in told:
        if not init and not one.get("ready"):
            ended = (one.get("state") or {}).get("terminated")
            words = _ended(ended) if ended else "running, but not ready"
            yield Standing("waiting", f"container {one.get('name')}: {words}")


def _why_failed(status: Object) -> str:
    """Why a Pod failed: who ended it, and how its containers ended."""
    ended = _how_ended(status)
    if words := disruption(status):
        return f"{words}; {ended}" if ended else words
    if ended:
        return ended
    words = _joined(status.get("reason") or "", status.get("message") or "")
    return words or "it failed without a reason"


def _how_ended(status: Object) -> str:
    """How the first container ended that did not end well; empty if none tells."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(part) or ():
            ended = (one.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode"):
                return f"container {one.get('name')} ended{_exit(ended)}"
    return ""


def _ended(ended: Object) -> str:
    """What became of a container that has terminated."""
    return f"ended{_exit(ended)}" if ended.get("exitCode") else "completed"


def _exit(ended: Object) -> str:
    if not ended:
        return ""
    reason = ended.get("reason") or ""
    code = f" with exit code {ended.get('exitCode')}" if "exitCode" in ended else ""
    return f"{code} ({reason})" if reason and reason != "Error" else code


def _job(value: Object) -> Standing:
    status = value.get("status") or {}
    if _condition(status, "Complete").get("status") == "True":
        return Standing("ended")
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        words = _joined(failed.get("reason") or "", failed.get("message") or "")
        return Standing("failed", words or "it failed without a reason", over=True)
    if (value.get("spec") or {}).get("suspend"):
        return READY
    if status.get("active") or status.get("succeeded"):
        return READY
    return Standing("waiting", "it has created no Pod yet", vague=True)


def _claim(value: Object) -> Standing:
    phase = (value.get("status") or {}).get("phase")
    if phase == "Bound":
        return READY
    if phase == "Lost":
        return Standing("failed", "its PersistentVolume is lost")
    return Standing("waiting", "not bound to a PersistentVolume yet", vague=True)


def _namespace(value: Object) -> Standing:
    phase = (value.get("status") or {}).get("phase")
    if phase == "Terminating":
        return Standing("failed", "it is being deleted")
    return READY if phase == "Active" else Standing("waiting", "not active yet")


def _definition(value: Object) -> Standing:
    status = value.get("status") or {}
    if _condition(status, "Established").get("status") == "True":
        return READY
    refused = _condition(status, "NamesAccepted")
    if refused.get("status") == "False":
        return Standing("failed", refused.get("message") or "its names are already in use")
    return Standing("waiting", "not served by the API server yet")


def _by(condition: str) -> Callable[[Object], Standing]:
    """The rule of a kind that says in a condition whether it is ready."""

    def rule(value: Object) -> Standing:
        found = _condition(value.get("status") or {}, condition)
        words = _joined(found.get("reason") or "", found.get("message") or "")
        if found.get("status") == "True":
            return READY
        if found.get("status") == "False":
            return Standing("waiting", words or f"not {condition}", _NOT_READY)
        return Standing("waiting", f"not {condition} yet")

    return rule


def _replicas(value: Object) -> Standing:
    """Deployment, StatefulSet and the like: all replicas are of the newest spec and ready."""
    wanted = (value.get("spec") or {}).get("replicas", 1)
    status = value.get("status") or {}
    if (status.get("observedGeneration") or 0) < (value["metadata"].get("generation") or 0):
        return Standing("waiting", "its controller has not observed the latest change yet")
    ready = min(status.get("updatedReplicas") or 0, status.get("readyReplicas") or 0)
    if ready >= wanted:
        return READY
    return Standing("waiting", f"{ready} of {wanted} replicas are ready")


_RULES: Mapping[str, Callable[[Object], Standing]] = {
    "CustomResourceDefinition": _definition,
    "Deployment": _replicas,
    "ExternalSecret": _by("Ready"),
    "Job": _job,
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "Pod": _pod,
    "SealedSecret": _by("Synced"),
    "StatefulSet": _replicas,
}

BARRIERS = frozenset({"CustomResourceDefinition", "ExternalSecret", "Namespace", "SealedSecret"})
"""Kinds that others cannot do without once they are there: what comes later waits for them."""


def _condition(status: Object, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(
        (one for one in status.get("conditions") or () if one.get("type") == name), {}
    )
    return found


def _joined(first: str, message: str) -> str:
    words = " ".join(message.split())
    if len(words) > 300:
        words = f"{words[:299]}…"
    return f"{first}: {words}" if first and words else first or words
