"""Tell how far a live object is, and what it waits for (reference/gitops.md 4.3).

Pure; a row of `_KINDS` is a kind. What a rule says is for the person who waits: the container, the
image, the Secret that is missing. How long a reason may last before it counts as a failure is
part of it: an image that cannot be pulled may appear, a Pod that finds no node may wait for one
for days.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from etcompile.k8s import jobs, pods
from etcompile.k8s.objects import Object, condition, is_going, status_of, what_keeps
from etcompile.k8s.path import containers_of
from etcompile.model.protocol import RUN_STATE

Key = tuple[str, str, str, str]
"""API version, kind, namespace and name."""

State = Literal["waiting", "ready", "ended", "failed"]

BACKING_OFF = 120.0
"""Seconds that a container may fail to start, again and again."""
_BY_TAINT = "DeletionByTaintManager"
"""Why a Pod has to go whose node is tainted `NoExecute`, as one is that does not answer."""
_NOT_READY = 60.0
"""Seconds that the source of a Secret may say that it has a problem."""


class ObjectState(Struct, frozen=True):
    """How far an object is.

    Args:
        state: `ready` for others to build on; `ended` when its work is done, too.
        reason: What it waits for, or why it failed; empty if there is nothing to say.
        timeout: Seconds that this very reason may last; None leaves that to the kind's limit,
            infinity means as long as it takes.
        vague: Events may know more.
        over: A run of the object has failed, and nothing but a new one follows.
    """

    state: State
    reason: str = ""
    timeout: float | None = None
    vague: bool = False
    over: bool = False

    @property
    def good(self) -> bool:
        return self.state in ("ready", "ended")


READY = ObjectState("ready")


def object_state(value: Object) -> ObjectState:
    """Return how far a live object is; one without a rule is ready once it is there."""
    if is_going(value):
        return ObjectState("waiting", deleting(value))
    kind = _KINDS.get(value["kind"])
    return kind.rule(value) if kind else READY


def states(values: Iterable[Object]) -> dict[Key, ObjectState]:
    return {
        (
            value["apiVersion"],
            value["kind"],
            metadata.get("namespace") or "",
            metadata["name"],
        ): object_state(value)
        for value in values
        if has_rule(value["kind"])
        for metadata in [value["metadata"]]
    }


def has_rule(kind: str) -> bool:
    return kind in _KINDS


def is_barrier(kind: str) -> bool:
    return kind in _KINDS and _KINDS[kind].is_barrier


def limit(kind: str) -> float | None:
    return _KINDS[kind].limit if kind in _KINDS else None


def deleting(value: Object) -> str:
    if value.get("kind") == "Pod" and pods.is_half_deleted(value):
        name = value["metadata"]["name"]
        return f"its deletion was begun and never finished: kubectl delete pod {name} finishes it"
    blocked = what_keeps(value)
    why = disruption(value)
    is_pod = value["kind"] == "Pod"
    silent = is_pod and bool(pods.unreachable_since(value))
    if silent and not why:
        why = _unreachable(value)
    target = condition(status_of(value), "DisruptionTarget")
    if (silent or (is_pod and target.get("reason") == _BY_TAINT)) and not blocked:
        why += (
            "; it is replaced only when it is gone: if its node is gone for good,"
            f" kubectl delete pod {value['metadata']['name']} --force --grace-period=0"
        )
    return f"it is being deleted{blocked}" + (f": {why}" if why else "")


def _unreachable(pod: Object) -> str:
    node = (pod.get("spec") or {}).get("nodeName") or "its node"
    since = datetime.fromtimestamp(pods.unreachable_since(pod), UTC)
    return (
        f"{node} has not answered since {since:%Y-%m-%d %H:%M:%S} UTC, so the Pod may still be"
        " running"
    )


def deleted(value: Object) -> str:
    why = disruption(value)
    return f"it was deleted: {why}" if why else "it was deleted"


def disruption(value: Object) -> str:
    """Return what ends a Pod early, and why: `Preempted: a Pod of higher priority has …`."""
    word, explanation, message = pods.disruption(value) or ("", "", "")
    return _joined(_joined(word, explanation), message)


def _pod(value: Object) -> ObjectState:
    spec, status = value.get("spec") or {}, status_of(value)
    phase = pods.phase(value)
    if phase == "Succeeded":
        return ObjectState("ended")
    if phase == "Failed":
        ended = ""
        if (failure := next(iter(pods.failures(value)), None)) is not None:
            ended = f"container {failure[0].get('name')} ended{_exit(failure[1])}"
        why = "; ".join(filter(None, (disruption(value), ended)))
        why = why or _joined(status.get("reason") or "", status.get("message") or "")
        return ObjectState("failed", why or "it failed without a reason", over=True)
    if phase == "Unknown" or status.get("reason") == "NodeLost":
        lost = {"status": {"reason": "NodeLost", "message": status.get("message")}}
        return ObjectState("waiting", disruption(value) or disruption(lost))
    if pods.is_ready(value):
        for container in pods.containers(value):
            count, last = container.get("restartCount") or 0, pods.terminated_before(container)
            if count and last:
                times = "once" if count == 1 else f"{count} times"
                words = f"container {container.get('name')} was restarted {times}, and last"
                return ObjectState("ready", f"{words} ended{_exit(last)}")
        return READY
    if pods.unreachable_since(value):
        return ObjectState("waiting", f"NodeLost: {_unreachable(value)}")
    if gates := spec.get("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in gates)
        return ObjectState("waiting", f"held by the scheduling gate {names}", math.inf)
    if (unscheduled := pods.unscheduled(value)) is not None:
        words = unscheduled.get("message") or unscheduled.get("reason") or ""
        return ObjectState("waiting", f"cannot be scheduled: {words}", math.inf)
    if (state := next(_containers(value), None)) is not None:
        return state
    if not spec.get("nodeName"):
        return ObjectState("waiting", "not scheduled yet", vague=True)
    return ObjectState("waiting", "the kubelet has not started it yet", vague=True)


def _containers(value: Object) -> Iterator[ObjectState]:
    """Yield what keeps the containers of a Pod, the most telling first."""
    inits, others = pods.init_containers(value), pods.containers(value)
    specs = [container for _, container in containers_of(value.get("spec"))]
    images = {container.get("name"): container.get("image") for container in specs}
    states = [(container, pods.waiting(container)) for container in (*inits, *others)]
    for container, waiting in states:
        name = f"container {container.get('name')}"
        reason, message = waiting.get("reason") or "", waiting.get("message") or ""
        image = images.get(container.get("name")) or container.get("image")
        if reason in ("InvalidImageName", "ErrImageNeverPull"):
            yield ObjectState("failed", _joined(f"{name}: {reason} {image}", message))
        elif reason in ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"):
            words = _joined(f"{name}: cannot pull the image {image}", message)
            yield ObjectState("waiting", words, BACKING_OFF)
        elif reason == "CrashLoopBackOff":
            ended = (container.get("lastState") or {}).get("terminated") or {}
            yield ObjectState("waiting", f"{name}: keeps crashing{_exit(ended)}", BACKING_OFF)
        elif reason == "CreateContainerConfigError":
            yield ObjectState("waiting", _joined(f"{name}: cannot be created", message))
        elif reason and not pods.is_on_its_way(reason):
            yield ObjectState("waiting", _joined(f"{name}: {reason}", message), BACKING_OFF)
    for container in inits:
        if pods.is_running(container):
            yield ObjectState("waiting", f"init container {container.get('name')} is running")
    for container, waiting in states:
        if waiting:
            reason = waiting.get("reason") or "waiting"
            yield ObjectState("waiting", f"container {container.get('name')}: {reason}", vague=True)
    for container in others:
        if not container.get("ready"):
            ended = pods.terminated(container)
            declared = next((c for c in specs if c.get("name") == container.get("name")), {})
            get = (declared.get("readinessProbe") or {}).get("httpGet") or {}
            mounts = [mount.get("name") for mount in declared.get("volumeMounts") or ()]
            words = "running, but not ready" if pods.is_running(container) else "not started yet"
            if ended.get("exitCode"):
                words = f"ended{_exit(ended)}"
            elif ended:
                words = "completed, but the Pod has not ended yet"
            elif RUN_STATE in mounts and get.get("path") == "/ready":
                # The supervisor of a command that restarts in place answers (docs/recovery.md).
                words = (
                    "its command has ended, waits for the other replicas to begin, or runs "
                    "unsupervised (see the first line of its log)"
                )
            yield ObjectState("waiting", f"container {container.get('name')}: {words}")


def _exit(ended: Object) -> str:
    if not ended:
        return ""
    reason = ended.get("reason") or ""
    code = f" with exit code {ended.get('exitCode')}" if "exitCode" in ended else ""
    return f"{code} ({reason})" if reason and reason != "Error" else code


def _job(value: Object) -> ObjectState:
    if jobs.has_succeeded(value):
        return ObjectState("ended")
    if (failed := jobs.failure(value)) is not None:
        words = _joined(failed.get("reason") or "", failed.get("message") or "")
        return ObjectState("failed", words or "it failed without a reason", over=True)
    if jobs.is_suspended(value):
        return READY
    status = status_of(value)
    if status.get("active") or status.get("succeeded"):
        count = status.get("failed") or 0
        words = f"running again: {'1 Pod' if count == 1 else f'{count} Pods'} of it failed before"
        return ObjectState("ready", words if count else "")
    return ObjectState("waiting", "it has created no Pod yet", vague=True)


def _by_phase(
    phases: Mapping[str, ObjectState], otherwise: ObjectState
) -> Callable[[Object], ObjectState]:
    return lambda value: phases.get(status_of(value).get("phase") or "", otherwise)


def _by_condition(name: str) -> Callable[[Object], ObjectState]:
    def rule(value: Object) -> ObjectState:
        ready = condition(status_of(value), name)
        words = _joined(ready.get("reason") or "", ready.get("message") or "")
        if ready.get("status") == "True":
            return READY
        if ready.get("status") == "False":
            return ObjectState("waiting", words or f"not {name}", _NOT_READY)
        return ObjectState("waiting", f"not {name} yet")

    return rule


def _replicas(value: Object) -> ObjectState:
    """Judge a Deployment or StatefulSet: all replicas are of the newest spec and ready."""
    wanted = (value.get("spec") or {}).get("replicas", 1)
    status = status_of(value)
    if (status.get("observedGeneration") or 0) < (value["metadata"].get("generation") or 0):
        return ObjectState("waiting", "its controller has not observed the latest change yet")
    ready = min(status.get("updatedReplicas") or 0, status.get("readyReplicas") or 0)
    if ready >= wanted:
        return READY
    return ObjectState("waiting", f"{ready} of {wanted} replicas are ready")


class _Kind(Struct, frozen=True):
    """How objects of a kind become ready.

    Args:
        limit: Seconds until one should be ready; None where its user sets that.
        is_barrier: Others cannot do without it once it is there.
    """

    rule: Callable[[Object], ObjectState]
    limit: float | None = None
    is_barrier: bool = False


_KINDS: Mapping[str, _Kind] = {
    "CustomResourceDefinition": _Kind(_by_condition("Established"), 60.0, is_barrier=True),
    "Deployment": _Kind(_replicas),
    "ExternalSecret": _Kind(_by_condition("Ready"), 120.0, is_barrier=True),
    "Job": _Kind(_job),
    "Namespace": _Kind(
        _by_phase(
            {"Active": READY, "Terminating": ObjectState("failed", "it is being deleted")},
            ObjectState("waiting", "not active yet"),
        ),
        60.0,
        is_barrier=True,
    ),
    "PersistentVolumeClaim": _Kind(
        _by_phase(
            {"Bound": READY, "Lost": ObjectState("failed", "its PersistentVolume is lost")},
            ObjectState("waiting", "not bound to a PersistentVolume yet", vague=True),
        ),
        300.0,
    ),
    "Pod": _Kind(_pod, 600.0),
    "SealedSecret": _Kind(_by_condition("Synced"), 120.0, is_barrier=True),
    "StatefulSet": _Kind(_replicas),
}


def _joined(first: str, message: str) -> str:
    words = " ".join(message.split())
    if len(words) > 300:
        words = f"{words[:299]}…"
    return f"{first}: {words}" if first and words else first or words
