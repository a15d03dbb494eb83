"""Reduce a Pod to what decisions need, in a few hundred bytes.

A namespace may have ten thousand Pods. Every text is cut and made printable here.
"""

from typing import Any

from msgspec import Struct

from etcompile.diagnostics.redaction import shown
from etcompile.k8s import jobs, pods
from etcompile.k8s.objects import Object, is_going, seconds, status_of
from etcompile.model.protocol import (
    INDEX_LABEL,
    NOTICE,
    OTHER_NODE,
    PREFLIGHT,
    RANK_LABEL,
    ROLE_LABEL,
    SPEC_HASH,
    WATCHER,
)
from etcompile.model.run_record import label_number
from etcompile.model.schedulers import KUEUE_GROUP, KUEUE_QUEUE
from etcompile.model.supervision import EpochLine, Notice, read_notice

TOUCHED = "etcompile.dev/touched"
"""Annotation of a Pod: which host lists its kubelet was last told to fetch."""
_LONGEST_REASON = 128  # of a UID, a hash or a reason in one word
_LONGEST_WAITING = 300


class Waiting(Struct, frozen=True):
    """What keeps a Pod from starting; the reason is one word: `ImagePullBackOff`."""

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


class PodState(Struct, frozen=True, gc=False):
    """A Pod, reduced to what rules ask. Times are in seconds since 1970, 0 if unknown."""

    name: str
    uid: str
    role: str
    index: int | None  # its number in the role; None for a role with a single Pod
    spec_hash: str
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    reason: str = ""  # why it failed, in one word: `Evicted`, `DeadlineExceeded`; mostly empty
    disrupted: bool = False  # it failed because of its node, not by itself
    exits: tuple[tuple[str, int], ...] = ()  # name and exit code of containers that have ended
    ended_at: float = 0.0  # when the last of those ended, by its node's clock
    restarts: int = 0  # how often its containers were started again in place
    init_restarts: int = 0
    created: float = 0.0
    ready_since: float | None = None
    touched: str = ""  # what its kubelet was last told to fetch: host lists, or who has succeeded
    stopped: bool = False  # its containers have all ended, and none of them starts again
    ending: bool = False  # it has a deadline of one second
    rank: int | None = None  # set if its role distinguishes ranks from indexes
    due: float = 0.0  # when a Pod whose deletion was requested should be gone
    reasons: tuple[str, ...] = ()  # of containers, if more than an exit code: `OOMKilled`
    half_deleted: bool = False  # its deletion was begun and never finished; nothing holds it
    controller: str = ""  # UID of the object whose controller created it
    refused: bool = False  # it never trained: its kubelet or its preflight rejected it
    created_here: bool = False  # by a watcher
    waiting: Waiting | None = None
    notice: Notice = Notice()  # the last request to its supervisor
    epochs: tuple[EpochLine, ...] = ()  # from the termination messages of its containers
    node: str = ""
    deletion_requested: float = 0.0
    failures: tuple[Any, ...] = ()  # the failures it reports (`etcompile.causes`)
    spans: tuple[Any, ...] = ()  # when its containers ran (`etcompile.causes.goodput`)
    unreachable_since: float = 0.0  # since when its node does not answer
    held_by_queue: bool = False  # only Kueue's finalizer delays its deletion
    stopped_by_queue: bool = False  # with its group, whose quota another one gets
    left_out_by_queue: bool = False  # its group finished without it: it is never admitted
    queued_alone: bool = False  # it is beyond the minimum of its job's group

    @property
    def number(self) -> int:
        """Return its number in the role: the rank if it has one, else the index, else 0."""
        return self.rank if self.rank is not None else self.index or 0

    @property
    def ended(self) -> bool:
        return self.phase in pods.ENDED


def how_it_ended(pod: PodState, reason: str) -> str:
    """Say how a Pod ended, in a few words: `failed (exit code 137, OOMKilled)`.

    Args:
        reason: Why it is replaced. A Pod that was deleted may have failed because of that.
    """
    if reason == "deleted" or (reason == "Restart" and pod.deletion_requested):
        return "deleted"
    if pod.phase != "Failed":
        return "succeeded" if pod.phase == "Succeeded" else "deleted"
    codes = [
        f"{name}: exit code {code}" if len(pod.exits) > 1 else f"exit code {code}"
        for name, code in pod.exits
        if code
    ]
    if not codes:  # an init container failed
        codes = [
            f"{failure.container}: exit code {failure.code}"
            for failure in pod.failures
            if failure.code
        ]
    causes = dict.fromkeys(filter(None, (*codes[:1], pod.reason, *pod.reasons)))
    return f"failed ({', '.join(causes)})" if causes else "failed"


def pod_state(pod: Object, before: "PodState | None" = None) -> PodState:
    """Read a Pod with etcompile's labels; `before` is its state at the previous event."""
    metadata, status, spec = pod["metadata"], status_of(pod), pod.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owners = metadata.get("ownerReferences") or ()
    conditions = {reported.get("type"): reported for reported in status.get("conditions") or ()}
    ready, phase = conditions.get("Ready") or {}, status.get("phase") or "Pending"
    is_ready = ready.get("status") == "True"
    containers, inits = pods.containers(pod), pods.init_containers(pod)
    restarts, init_restarts = pods.restarts(containers), pods.restarts(inits)
    going = is_going(pod)
    requested = before.deletion_requested if before is not None else 0.0
    if going and not requested:
        requested = pods.deletion_requested(pod)
    # This runs for every event of every Pod, and most events say that a Pod is well.
    ended = [container for container in containers if pods.terminated(container)]
    reason = shown(status.get("reason") or "", _LONGEST_REASON)
    troubled = phase == "Failed" or bool(reason) or "DisruptionTarget" in conditions
    failed = troubled or bool(ended or restarts or init_restarts) or phase == "Pending"
    # The preflight of a Pod may have reported that it belongs on another node.
    sent_away = failed and any(
        (pods.terminated(init) or pods.terminated_before(init)).get("exitCode") == OTHER_NODE
        for init in inits
        if init.get("name") == PREFLIGHT
    )
    controller = next((owner.get("uid") for owner in owners if owner.get("controller")), "")
    return PodState(
        name=metadata["name"],
        uid=metadata["uid"],
        role=labels.get(ROLE_LABEL, ""),
        index=label_number(labels.get(INDEX_LABEL)),
        spec_hash=annotations.get(SPEC_HASH, "")[:_LONGEST_REASON],
        phase=phase,
        ready=is_ready,
        deleting=going,
        reason=reason,
        disrupted=(troubled and pods.is_disrupted(pod)) or sent_away,
        exits=tuple((c["name"], pods.terminated(c).get("exitCode", 0)) for c in ended),
        ended_at=max(
            (seconds(pods.terminated(c).get("finishedAt")) or 0.0 for c in ended), default=0.0
        ),
        restarts=restarts,
        init_restarts=init_restarts,
        created=seconds(metadata.get("creationTimestamp")) or 0.0,
        ready_since=seconds(ready.get("lastTransitionTime")) if is_ready else None,
        touched=annotations.get(TOUCHED, "")[:_LONGEST_REASON],
        stopped=bool(ended) and pods.has_stopped(pod),
        ending=spec.get("activeDeadlineSeconds") == 1,
        rank=label_number(labels.get(RANK_LABEL)),
        due=(seconds(metadata["deletionTimestamp"]) or 0.0) if going else 0.0,
        reasons=tuple(
            shown(why, _LONGEST_REASON)
            for container in ended
            if (why := pods.terminated(container).get("reason") or "Error")
            not in ("Completed", "Error")
        ),
        half_deleted=going and pods.is_half_deleted(pod),
        controller=str(controller)[:_LONGEST_REASON],
        refused=(troubled and pods.is_refused(pod)) or sent_away,
        # The manager that owns `containers` created the Pod.
        created_here=any(
            "f:containers" in (entry.get("fieldsV1") or {}).get("f:spec", ())
            for entry in metadata.get("managedFields") or ()
            if entry.get("manager") == WATCHER
        ),
        waiting=_waiting(pod) if phase == "Pending" else None,
        notice=read_notice(annotations.get(NOTICE, "")[:_LONGEST_REASON]),
        node=str(spec.get("nodeName") or ""),
        deletion_requested=requested,
        unreachable_since=0.0 if is_ready or not ready else pods.unreachable_since(pod),
        stopped_by_queue="TerminationTarget" in conditions,
        held_by_queue=metadata.get("finalizers") == [pods.KUEUE_MANAGED],
        left_out_by_queue=phase == "Pending" and pods.is_left_out_by_kueue(pod),
        queued_alone=KUEUE_QUEUE in labels and KUEUE_GROUP not in labels,
    )


def _waiting(pod: Object) -> Waiting | None:
    if held := next(pods.held(pod), None):
        # A failing image pull alternates between two reasons; one Event must report it once.
        # `status` shows the current one, as `kubectl get pods` does.
        reason = "ImagePullBackOff" if held["reason"] == "ErrImagePull" else held["reason"]
        message = held.get("message")
    elif unscheduled := pods.unscheduled(pod):
        reason, message = unscheduled.get("reason") or "Unschedulable", unscheduled.get("message")
    else:
        return None
    text, reason = " ".join((message or "").split()), shown(reason, _LONGEST_REASON)
    return Waiting(reason, shown(text, max(1, _LONGEST_WAITING - len(f"{reason}: "))))


class BatchView(Struct, frozen=True):
    """A Kubernetes Job that creates the Pod of a role."""

    name: str
    succeeded: bool = False
    failed: str = ""  # reason of its condition Failed: `BackoffLimitExceeded`
    uid: str = ""


def batch_view(value: Object) -> BatchView:
    failed = jobs.failure(value)
    return BatchView(
        value["metadata"]["name"],
        succeeded=jobs.has_succeeded(value),
        failed="" if failed is None else shown(failed.get("reason") or "Failed", _LONGEST_REASON),
        uid=value["metadata"].get("uid") or "",
    )
