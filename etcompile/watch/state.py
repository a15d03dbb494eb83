"""What the watcher knows of a job: its Pods as they are seen, and what it has written down.

Of each Pod only what a rule asks for is kept, a few hundred bytes, because a namespace may have
ten thousand. What the watcher must not forget is in the run record and nowhere else: after a
crash the next watcher reads the same objects and goes on.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.diagnostics.redaction import shown
from etcompile.failures import Failure, FailureLog, failures_of
from etcompile.goodput import Span, Timeline, spans_of
from etcompile.k8s import jobs, pods
from etcompile.k8s.objects import Object, is_going, seconds, status_of
from etcompile.model import Job, Settings
from etcompile.model.notice import Notice, read_notice
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
from etcompile.model.run_record import DIGITS, LATEST, RunRecord
from etcompile.model.supervision import EpochLine, epoch_line

_MOST_CONTAINERS = 64
"""Containers of a Pod that are looked at."""
_LONGEST_TEXT = 4096
_LONGEST_NAME = 317  # a prefix of 253 characters, a slash and a name of 63
_NAMES = frozenset({"name", "namespace", "nodeName", "reason", "type", "uid"})
_SMALL = 16 * 1024
"""Bytes of an object in which nothing need be cut."""
_WHOLE = frozenset({"data", "binaryData", "managedFields"})
"""Fields that are bounded elsewhere (`Store`), or that no text is kept of."""


def bounded(value: Any) -> Any:
    """An object from the API server with every text in it cut, and every list of containers.

    This is where everything that others write enters the watcher: the patterns that look into it
    and the memory that keeps it can rely on these bounds.
    """
    return value if len(msgspec.json.encode(value)) <= _SMALL else _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:_MOST_CONTAINERS]]
    if not isinstance(value, dict):
        return value
    return {
        key[:_LONGEST_NAME]: inner
        if key in _WHOLE
        else inner[:_LONGEST_NAME]
        if key in _NAMES and isinstance(inner, str)
        else _cut(inner)
        for key, inner in value.items()
    }


TOUCHED = "etcompile.dev/touched"
"""Annotation of a Pod: which host lists its kubelet was last told to fetch."""


class RanContainer(Struct, frozen=True):
    """What a container of a Pod ran.

    Args:
        words: Its command and its arguments, as far as they are compared.
    """

    name: str
    image: str
    words: tuple[str, ...]


Ran = tuple[RanContainer, ...]
MOST_WORDS = 200
"""Words of a command that are kept: of longer ones nothing is said."""
_LONGEST_WORD = 200
_LONGEST_IMAGE = 512
_LONGEST_REASON = 128
"""Characters of a UID, a hash, or of a reason in one word."""
_MOST_EPOCHS = 8
_LONGEST_WORDS = 300
"""Characters of what is kept of why a Pod does not start."""


class Waiting(Struct, frozen=True):
    """What keeps a Pod from starting.

    Args:
        reason: In one word: `ImagePullBackOff`.
        message: The rest; may be empty.
    """

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


class PodView(Struct, frozen=True, gc=False):
    """A Pod, as far as rules ask.

    Args:
        index: Its number in the role; None for a role with a single Pod.
        spec_hash: The run that it belongs to.
        phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        deleting: Somebody has asked it to go.
        reason: Why it failed, in one word: `Evicted`, `DeadlineExceeded`; mostly empty.
        disrupted: It failed because of its node, not by itself.
        exits: Name and exit code of its containers that have ended.
        restarts: How often its containers were started again in place.
        init_restarts: The same of its init containers.
        created: When it was created, in seconds since 1970.
        ready_since: When it became Ready.
        touched: What its kubelet was last told to fetch: host lists, or who has succeeded.
        ending: It was given a deadline of a second.
        rank: Its rank, where its role tells ranks from indexes.
        due: By when one that was asked to go should have gone; 0 while that is not known.
        reasons: Why containers ended, where that is more than an exit code: `OOMKilled`.
        half_deleted: Its deletion was begun and never finished: nothing runs, nothing holds it.
        controller: The UID of the object whose controller made it; empty if nobody says so.
        owner: The UID of the object with which it goes.
        ran: What its containers ran, once it has ended.
        refused: It never trained: its kubelet did not admit it, or its preflight sent it away.
        made_here: A watcher has created it.
        waiting: What keeps one that is Pending from starting, as far as it says.
        notice: What its supervisor was asked last.
        epochs: What its supervisor said of epochs in the termination messages of its containers.
        node: Where it runs; empty before it does.
        asked: When it was asked to go, in seconds since 1970; 0 if it was not.
        failures: What it says that it has failed of.
        spans: When its containers ran.
        unreachable_since: Since when its node has not answered, in seconds since 1970; 0 if it
            does, as far as the Pod says.
    """

    name: str
    uid: str
    role: str
    index: int | None
    spec_hash: str
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    reason: str = ""
    disrupted: bool = False
    exits: tuple[tuple[str, int], ...] = ()
    restarts: int = 0
    init_restarts: int = 0
    created: float = 0.0
    ready_since: float | None = None
    touched: str = ""
    ending: bool = False
    rank: int | None = None
    due: float = 0.0
    reasons: tuple[str, ...] = ()
    half_deleted: bool = False
    controller: str = ""
    owner: str = ""
    ran: Ran = ()
    refused: bool = False
    made_here: bool = False
    waiting: Waiting | None = None
    notice: Notice = Notice()
    epochs: tuple[EpochLine, ...] = ()
    node: str = ""
    asked: float = 0.0
    failures: tuple[Failure, ...] = ()
    spans: tuple[Span, ...] = ()
    unreachable_since: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether none of its containers runs or will run again."""
        return self.phase in pods.ENDED


def how_it_ended(pod: PodView, reason: str) -> str:
    """What has become of a Pod, in a few words: `failed (exit code 137, OOMKilled)`.

    Args:
        pod: What was known of it last.
        reason: Why it is replaced. A Pod that was deleted may have failed of that.
    """
    if reason == "deleted":
        return "deleted"
    if pod.phase != "Failed":
        return "succeeded" if pod.phase == "Succeeded" else "deleted"
    code = next((f"exit code {code}" for _, code in pod.exits if code), "")
    said = dict.fromkeys(filter(None, (code, pod.reason, *pod.reasons)))
    return f"failed ({', '.join(said)})" if said else "failed"


def pod_view(pod: Object, before: Sequence[Span] = ()) -> PodView:
    """A Pod, as the API server describes it.

    Args:
        pod: The Pod, JSON; one that etcompile has labelled.
        before: When its containers ran, as it was seen before.
    """
    metadata, status, spec = pod["metadata"], status_of(pod), pod.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owners = metadata.get("ownerReferences") or ()
    conditions = {reported.get("type"): reported for reported in status.get("conditions") or ()}
    ready, phase = conditions.get("Ready") or {}, status.get("phase") or "Pending"
    is_ready = ready.get("status") == "True"
    containers, inits = pods.containers(pod), pods.init_containers(pod)
    restarts, init_restarts = pods.restarts(containers), pods.restarts(inits)
    going = is_going(pod)
    # This is asked of every event of every Pod, and most say that a Pod is well.
    ended = [container for container in containers if pods.terminated(container)]
    reason = shown(status.get("reason") or "", _LONGEST_REASON)
    troubled = phase == "Failed" or bool(reason) or "DisruptionTarget" in conditions
    failed = troubled or bool(ended or restarts or init_restarts) or phase == "Pending"
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        role=labels.get(ROLE_LABEL, ""),
        index=_number(labels.get(INDEX_LABEL, "")),
        spec_hash=annotations.get(SPEC_HASH, "")[:_LONGEST_REASON],
        phase=phase,
        ready=is_ready,
        deleting=going,
        reason=reason,
        disrupted=(troubled and pods.is_disrupted(pod)) or (failed and _is_sent_away(inits)),
        exits=tuple((c["name"], pods.terminated(c).get("exitCode", 0)) for c in ended),
        restarts=restarts,
        init_restarts=init_restarts,
        created=seconds(metadata.get("creationTimestamp")) or 0.0,
        ready_since=seconds(ready.get("lastTransitionTime")) if is_ready else None,
        touched=annotations.get(TOUCHED, "")[:_LONGEST_REASON],
        ending=spec.get("activeDeadlineSeconds") == 1,
        rank=_number(labels[RANK_LABEL]) if RANK_LABEL in labels else None,
        due=(seconds(metadata["deletionTimestamp"]) or 0.0) if going else 0.0,
        reasons=tuple(_reasons(ended)) if ended else (),
        half_deleted=going and pods.is_half_deleted(pod),
        controller=next(
            (
                str(owner.get("uid"))[:_LONGEST_REASON]
                for owner in owners
                if owner.get("controller")
            ),
            "",
        )
        if owners
        else "",
        owner=str(owners[0].get("uid"))[:_LONGEST_REASON] if owners else "",
        ran=ran(spec) if phase in pods.ENDED else (),
        refused=(troubled and pods.is_refused(pod)) or (failed and _is_sent_away(inits)),
        made_here=_is_made_here(metadata),
        waiting=_waiting(pod) if phase == "Pending" else None,
        notice=read_notice(annotations.get(NOTICE, "")[:_LONGEST_REASON]),
        epochs=tuple(_epochs(containers)) if ended or restarts else (),
        node=str(spec.get("nodeName") or ""),
        asked=pods.asked_to_go(pod) if going else 0.0,
        failures=tuple(failures_of(pod)) if failed else (),
        spans=spans_of(pod, before),
        unreachable_since=0.0 if is_ready or not ready else pods.unreachable_since(pod),
    )


def _is_sent_away(inits: Iterable[Object]) -> bool:
    """Whether the preflight of a Pod has said that it belongs on another node."""
    return any(
        (pods.terminated(init) or pods.terminated_before(init)).get("exitCode") == OTHER_NODE
        for init in inits
        if init.get("name") == PREFLIGHT
    )


def _epochs(containers: Iterable[Object]) -> Iterator[EpochLine]:
    """The last lines about epochs that containers have ended with, the older container first."""
    for container in containers:
        for how in (pods.terminated_before(container), pods.terminated(container)):
            at = seconds(how.get("finishedAt")) or 0.0
            lines = (epoch_line(line, at) for line in str(how.get("message") or "").splitlines())
            yield from [line for line in lines if line is not None][-_MOST_EPOCHS:]


def _waiting(pod: Object) -> Waiting | None:
    """What keeps a Pod from starting, in the words of its kubelet or of the scheduler."""
    if found := next(pods.held(pod), None):
        # An image is pulled, and pulled again: two words for one trouble, of which an Event tells
        # once. `status` says what it is just now, as `kubectl get pods` does.
        reason = "ImagePullBackOff" if found["reason"] == "ErrImagePull" else found["reason"]
        return _told(reason, found.get("message"))
    if found := pods.unscheduled(pod):
        return _told(found.get("reason") or "Unschedulable", found.get("message"))
    return None


def _told(reason: str, message: str | None) -> Waiting:
    """As much of it as is kept of each of thousands of Pods."""
    words, reason = " ".join((message or "").split()), shown(reason, _LONGEST_REASON)
    return Waiting(reason, shown(words, max(1, _LONGEST_WORDS - len(f"{reason}: "))))


def _is_made_here(metadata: Mapping[str, Any]) -> bool:
    """Whether it was a watcher that created a Pod: who does owns its containers."""
    return any(
        "f:containers" in (entry.get("fieldsV1") or {}).get("f:spec", ())
        for entry in metadata.get("managedFields") or ()
        if entry.get("manager") == WATCHER
    )


def ran(spec: Mapping[str, Any]) -> Ran:
    """What the containers of a Pod run."""
    return tuple(
        _ran(
            str(container["name"]),
            str(container.get("image") or ""),
            words(container)[-MOST_WORDS:],
        )
        for container in spec.get("containers") or ()
    )


def words(container: Mapping[str, Any]) -> tuple[str, ...]:
    """The command and the arguments of a container."""
    return tuple(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))


@lru_cache(maxsize=128)
def _ran(name: str, image: str, told: tuple[str, ...]) -> RanContainer:
    """Thousands of Pods run the same, and each keeps this one."""
    return RanContainer(name, image[:_LONGEST_IMAGE], tuple(word[:_LONGEST_WORD] for word in told))


def _number(label: str) -> int | None:
    """The number that a label is; one that no replica can have is none."""
    return int(label) if label.isdecimal() and len(label) <= DIGITS else None


def _reasons(ended: Iterable[Object]) -> Iterator[str]:
    for container in ended:
        reason = pods.terminated(container).get("reason")
        if reason not in (None, "Completed", "Error"):
            yield shown(reason, _LONGEST_REASON)


class BatchView(Struct, frozen=True):
    """A Job of Kubernetes that makes the Pod of a role.

    Args:
        succeeded: It has the condition Complete.
        failed: The reason of its condition Failed: `BackoffLimitExceeded`; empty without one.
    """

    name: str
    succeeded: bool = False
    failed: str = ""
    uid: str = ""


def batch_view(value: Object) -> BatchView:
    """A Job of Kubernetes, as the API server describes it.

    Args:
        value: The Job, JSON.
    """
    failed = jobs.failure(value)
    return BatchView(
        value["metadata"]["name"],
        succeeded=jobs.has_succeeded(value),
        failed="" if failed is None else shown(failed.get("reason") or "Failed", _LONGEST_REASON),
        uid=value["metadata"].get("uid") or "",
    )


def size_of(view: PodView) -> int:
    """Bytes that a Pod takes besides its share of the maps, as its JSON has them."""
    return len(msgspec.json.encode(view))


def without_details(view: PodView) -> PodView:
    """A Pod without what only explains it, for a namespace that has used its memory."""
    return structs.replace(
        view,
        ran=(),
        waiting=None,
        failures=tuple(structs.replace(f, tail="") for f in view.failures[:1]),
    )


class Gone(Struct, frozen=True):
    """A Pod that has vanished, until its place is taken again.

    Args:
        pod: What was last seen of it *before* it vanished. Not what the event of its deletion
            says: that always looks as if it had been asked to go, however it went.
        at: When it vanished, in seconds since 1970.
        unseen: Nobody saw it go: a list did not have it any more.
    """

    pod: PodView
    at: float
    unseen: bool = False


class EpochLog(Struct, frozen=True, gc=False):
    """What the log of a Pod says of epochs.

    Args:
        due: When to read it again, in seconds since 1970.
        until: The time of the last line that was read, as the log has it; empty if none was.
        lines: The last lines about epochs.
    """

    due: float
    until: str = ""
    lines: tuple[EpochLine, ...] = ()


class LogActivity(Struct, frozen=True, gc=False):
    """What is known of a Pod's log.

    Args:
        asked: When it was last asked for, in seconds since 1970.
        at: When the last line was written; None if that is not known.
        line: The last line.
    """

    asked: float
    at: float | None = None
    line: str = ""


class Tail(Struct, frozen=True, gc=False):
    """The last lines of a container's log.

    Args:
        of: Which failure they are to explain.
        lines: Each after the time at which it was written; None while nobody has answered.
    """

    of: str
    lines: tuple[str, ...] | None = None


# What is written down --------------------------------------------------------------------------

LARGEST_COPY = 256 * 1024
"""Bytes of a job of which there is a copy beside the run record."""


def digest(text: str) -> str:
    """What stands for that copy in memory."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class Anchor(Struct, frozen=True):
    """A host that the live lists keep for a while, even if it goes.

    Args:
        until: Until when, in seconds since 1970.
        gone: It has gone, and is listed for its readers' sake only.
    """

    until: float
    gone: bool = False


class HostsRecord(Struct, frozen=True):
    """The live host lists.

    Args:
        data: The `data` of `J-hosts`: key of the list to its lines.
        written: When they were written, in seconds since 1970: its annotation `WRITTEN`.
        anchors: Hosts that they have in common with what a reader may have seen before, by name:
            its annotation `ANCHOR`.
    """

    data: Mapping[str, str]
    written: float = 0.0
    anchors: Mapping[str, Anchor] = field(default_factory=dict)


WRITTEN = "etcompile.dev/written"
"""Annotation of `J-hosts`: when the watcher wrote it, in seconds since 1970."""
ANCHOR = "etcompile.dev/anchor"
"""Annotation of `J-hosts`: hosts that it has in common with what a reader saw before, and until
when that matters, as `HOST=SECONDS,HOST=SECONDS=gone`."""


def hosts_annotations(hosts: HostsRecord) -> dict[str, str]:
    """The annotations of `J-hosts`."""
    anchors = ",".join(
        f"{name}={anchor.until!r}{'=gone' if anchor.gone else ''}"
        for name, anchor in hosts.anchors.items()
    )
    return {WRITTEN: repr(hosts.written), **({ANCHOR: anchors} if anchors else {})}


def hosts_record(data: Mapping[str, str], annotations: Mapping[str, str]) -> HostsRecord:
    """The live host lists, read back.

    Args:
        data: The `data` of `J-hosts`.
        annotations: The annotations of `J-hosts`.
    """
    try:
        written = float(annotations.get(WRITTEN, 0))
    except ValueError:
        written = 0.0
    if not abs(written) < LATEST:
        written = 0.0
    return HostsRecord(data, written, dict(_anchors(annotations.get(ANCHOR, ""))))


def _anchors(text: str) -> Iterator[tuple[str, Anchor]]:
    for part in text.split(","):
        name, _, rest = part.partition("=")
        until, _, gone = rest.partition("=")
        try:
            if abs(at := float(until)) < LATEST:
                yield name, Anchor(at, gone == "gone")
        except ValueError:
            continue  # not by a watcher: nobody waits for that host


# The whole -------------------------------------------------------------------------------------


class Timeouts(Struct, frozen=True):
    """How long the watcher waits, in seconds.

    Args:
        settle: Until a Pod that vanished is made again: its whole job may be about to go.
        prune: The same where a tool syncs Git and somebody deleted the Pod: it may be the tool,
            whose next step is the job that does without it.
        verdict: Until a Pod that vanished counts as lost for good: Git may bring it back.
        backoff: Until a replica that failed a third time comes back; each further time twice as
            long. The first two times it comes back at once.
        longest: The longest such wait.
        forget: Being Ready for so long ends a series of failures.
        overlap: How long a host that is gone stays listed, at most, when all others are new.
        drain: Until the Pod of a worker goes that the job does not have any more.
        start: Until it is told that Pods are missing, or that none finds a node.
        report: For supervisors to tell what their processes do, and again to read it.
    """

    settle: float = 2.0
    prune: float = 15.0
    verdict: float = 10.0
    backoff: float = 1.0
    longest: float = 300.0
    forget: float = 600.0
    overlap: float = 2.0
    drain: float = 60.0
    start: float = 60.0
    report: float = 8.0


class JobView(Struct, frozen=True):
    """All that is known of a job.

    Args:
        job: The job in its ConfigMap, as the run that it is.
        settings: How it was compiled.
        namespace: Where it is.
        spec_hash: The run's identity.
        pods: The Pods that carry the job's label, by name; also those of other runs.
        gone: Pods that vanished while the watcher looked, by name, until a Pod of that name
            is there again.
        record: The run record; None before the first.
        hosts: The live host lists; None before the first.
        batch: The Job of Kubernetes that makes the launcher's Pod, where there is one.
        git_managed: A tool brings back what is deleted, and deletes what Git does not declare.
        watched_since: When the watcher first had the whole picture of the job.
        declared_at: When the job in its ConfigMap was last written; None if nothing says it.
        timeouts: How long the watcher waits.
        heard: What is known of the logs of Pods, by UID, where the job limits their silence.
        tails: The last lines of the logs of Pods that were asked for, by UID.
        epochs: What the logs of Pods say of epochs, by UID, where commands restart in place.
        failures: What the run has failed of; None if of nothing.
        timeline: When it was in training, as that was written last; None before the first time.
        config_uid: The UID of the job's ConfigMap.
        config_created: When that was created, in seconds since 1970.
        copied: The copy of the job beside the run record is the job as it is now.
        superseded: The job's ConfigMap describes another run by now, or none; this is the one
            whose Pods are there.
        unreadable: Why the job's ConfigMap cannot be read, in that case; empty if it can.
    """

    job: Job
    settings: Settings
    namespace: str
    spec_hash: str
    pods: Mapping[str, PodView]
    gone: Mapping[str, Gone] = field(default_factory=dict)
    record: RunRecord | None = None
    hosts: HostsRecord | None = None
    batch: BatchView | None = None
    git_managed: bool = False
    watched_since: float = 0.0
    declared_at: float | None = None
    timeouts: Timeouts = Timeouts()
    heard: Mapping[str, LogActivity] = field(default_factory=dict)
    tails: Mapping[str, Tail] = field(default_factory=dict)
    epochs: Mapping[str, EpochLog] = field(default_factory=dict)
    failures: FailureLog | None = None
    timeline: Timeline | None = None
    config_uid: str = ""
    config_created: float = 0.0
    copied: bool = True
    superseded: bool = False
    unreadable: str = ""

    @property
    def own_record(self) -> RunRecord | None:
        """The run record, if it is of this run.

        It is not if it is of another spec hash, nor if its job was deleted before the run was over:
        what was applied since runs anew. That a run is over outlives its ConfigMap, or a job that
        is synced again would train again (reference/gitops.md 9).
        """
        record = self.record
        if record is None or record.run != self.spec_hash:
            return None
        return None if self.is_orphaned else record

    @property
    def is_orphaned(self) -> bool:
        """Whether the record is of a run that was not over when its `J-etcompile` was deleted."""
        record = self.record
        if record is None or record.ended or not record.config:
            return False
        return record.config != self.config_uid
