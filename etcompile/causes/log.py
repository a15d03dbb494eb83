"""Keep the failures of a run in the key `failures` of `J-status`, which outlives the Pods.

Before a Pod is deleted, the watcher writes down which of its containers failed, with their last
lines. The first failure is not written down: it follows from the entries (`first_causes`), because
kubelets report late and out of order. The log is bounded: if many fail of the same cause, the
earliest entries stay and the rest are counted.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from etcompile.causes import causes
from etcompile.causes.causes import OTHER_NODE_WANTED, PROBE_FAILED, Cause, cause_of, signal_of
from etcompile.diagnostics.redaction import shown
from etcompile.k8s import pods
from etcompile.k8s.objects import Object, condition, is_going, seconds, status_of
from etcompile.model.protocol import OTHER_NODE, PREFLIGHT, ROLE_LABEL
from etcompile.model.run_record import DIGITS, FAILURES, Count, Time, labelled_rank, read_key

LATE = "DeadlineExceeded"
"""The reason of a Pod that ran longer than its activeDeadlineSeconds."""
COMMAND_ENDED = "CommandEnded"
"""The reason of a command that ended in a container that stays."""
MOST = 20  # entries of a log
LARGEST_TAIL = 4096  # bytes of the last lines of an entry in the ConfigMap
_OTHERS = 9  # entries of the newest attempt that always stay, besides its first
_LARGEST_MESSAGE = 512
_LONGEST_REASON = 128
_SUPERVISOR = re.compile(r"etcompile: (?:epoch \d+ begins|the command ended|waiting for)")
_COMMAND_ENDED = re.compile(
    r"etcompile: the command ended in epoch (\d{1,9}): exit code \d", re.ASCII
)
_EPOCH_BEGAN = re.compile(r"etcompile: epoch \d+ begins")
_MOST_NODES = 100
_MOST_ATTEMPTS = 50
_MOST_AVOIDED = 50  # nodes at once: each is a line in every Pod that replaces another


class Failure(Struct, frozen=True, omit_defaults=True):
    """A container or Pod of a run that failed.

    Args:
        index: Its rank, where others may follow it.
        uid: The UID of the Pod, and how often its container had ended by then, as `UID.ENDS`:
            so that nothing is written down twice.
        attempt: How often the whole run had been restarted before, in place or with new Pods.
        at: In seconds since 1970; None if nothing says when it ended.
        container: Empty if the Pod as a whole failed.
        signal: The number of the signal that ended it; 0 if none did.
        reason: In one word, as Kubernetes has it: `OOMKilled`, `Error`, `Evicted`.
        tail: The last lines that it wrote, without credentials.
        is_sidecar: Whether the container is restarted whatever happens to the others.
    """

    role: str
    index: Count
    pod: str
    uid: str = ""
    attempt: Count = 0
    at: Time | None = None
    node: str = ""
    container: str = ""
    code: Annotated[int, Meta(gt=-(10**DIGITS), lt=10**DIGITS)] | None = None
    signal: Count = 0
    reason: str = ""
    message: Annotated[str, Meta(max_length=_LARGEST_MESSAGE + 1)] = ""
    tail: Annotated[str, Meta(max_length=LARGEST_TAIL)] = ""
    is_sidecar: bool = False

    @property
    def is_unread(self) -> bool:
        return self.reason == COMMAND_ENDED and not (self.tail or self.message)

    @property
    def cause(self) -> Cause:
        if self.container == PREFLIGHT and self.code:
            return cause_of(
                OTHER_NODE_WANTED if self.code == OTHER_NODE else causes.PREFLIGHT_FAILED
            )
        job = self.pod.rpartition(f"-{self.role}-")[0] if self.role else ""
        return cause_of(self.reason, self.code, self.signal, self.message, self.tail, job)

    @property
    def likelihood(self) -> tuple[int, float, int, float, str, int]:
        """Order the failures of an attempt: the first is the most likely to have caused others."""
        cause, at = self.cause, self.at if self.at is not None else math.inf
        standing = 2 if cause.is_consequence else int(cause.may_follow or self.is_sidecar)
        whole = math.floor(at) if at != math.inf else at
        vague = cause.is_vague + (cause.name == "Terminated")
        return standing, whole, vague, at, self.role, self.index

    @property
    def in_words(self) -> str:
        """Describe its cause, and in parentheses how it ended unless the cause says that already.

        `ran out of memory (OOMKilled, exit code 137, SIGKILL)`, `ended with exit code 3`.
        """
        parts = [] if self.reason in ("", "Error", COMMAND_ENDED) else [self.reason]
        if self.code is not None:
            number = self.signal or signal_of(self.code)
            parts += [f"exit code {self.code}"]
            parts += [causes.SIGNALS.get(number, f"signal {number}")] if number else []
        if self.message and (self.code is None or self.reason == PROBE_FAILED):
            parts.append(self.message)
        text = self.cause.text
        how = ", ".join(part for part in parts if part not in text)
        return f"{text} ({how})" if how else text


def failures_of(pod: Object, requested: float = 0.0) -> Iterator[Failure]:
    """Yield the failures that a labelled Pod reports, without their attempt.

    What its containers do after a request to end does not count.

    Args:
        requested: When its deletion was first requested, in seconds since 1970, if known: the API
            server moves the deletionTimestamp when the Pod finally goes.
    """
    status, metadata, spec = status_of(pod), pod["metadata"], pod.get("spec") or {}
    containers = pods.containers(pod)
    ended = [
        (container, how)
        for container in (*pods.init_containers(pod), *containers)
        if (how := pods.terminated(container) or pods.terminated_before(container)).get("exitCode")
    ]
    disruption, deadline = pods.disruption(pod), spec.get("activeDeadlineSeconds")
    is_late = status.get("reason") == LATE
    if is_late and deadline == 1:
        return  # the watcher ended it in this way
    if is_late:
        # Its kubelet kills the containers, nobody else.
        disruption = LATE, "", status.get("message") or ""
        begun = seconds(status.get("startTime"))
        end_requested = begun + deadline if begun is not None and deadline is not None else None
    elif disruption is None and not ended and pods.phase(pod) == "Failed":
        # It was not admitted, or was ended as a whole.
        disruption = status.get("reason") or "", "", status.get("message") or ""
        end_requested = seconds(metadata.get("creationTimestamp"))
    else:
        since = seconds(condition(status, "DisruptionTarget").get("lastTransitionTime"))
        requested = requested or pods.deletion_requested(pod)
        end_requested = min(filter(None, (requested, since)), default=None)
    if not ended and disruption is None:
        return
    labels, uid = metadata.get("labels") or {}, metadata["uid"]
    base = Failure(
        labels.get(ROLE_LABEL, ""),
        labelled_rank(labels),
        metadata["name"],
        node=spec.get("nodeName") or "",
    )
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    ends = []
    for container, how in ended:
        at, name = seconds(how.get("finishedAt")), str(container.get("name"))
        ends += [at] if at is not None else []
        if at is not None and end_requested is not None and at >= end_requested:
            continue
        if disruption is not None and (end_requested is None or at is None):
            continue
        if name in sidecars and all(map(pods.terminated, containers)):
            continue  # the kubelet ends them when all others have ended
        # Where commands restart in place, earlier lines may be of an earlier command.
        lines = str(how.get("message") or "").splitlines()
        last = max((n for n, line in enumerate(lines) if _SUPERVISOR.match(line)), default=-1)
        yield structs.replace(
            base,
            uid=f"{uid}.{name}.{pods.ends(container)}",
            at=at,
            container=name,
            code=how["exitCode"],
            signal=how.get("signal") or 0,
            reason=shown(how.get("reason") or "", _LONGEST_REASON),
            tail=tail_of("\n".join(lines[last + 1 :])),
            is_sidecar=name in sidecars,
        )
    word, explanation, message = disruption or ("", "", "")
    is_silent = not is_going(pod) and not any(map(pods.terminated, containers))
    if word or (disruption is not None and is_silent):  # it has failed, and nothing says why
        reason, message = shown(word, _LONGEST_REASON), _message(message or explanation)
        at = end_requested if end_requested is not None else max(ends, default=None)
        yield structs.replace(base, uid=f"{uid}.{reason}", at=at, reason=reason, message=message)


def first_causes(failures: Sequence[Failure]) -> dict[int, Failure]:
    """Return the failure of each attempt that the others followed from, as far as is known.

    A container that lost a peer is a consequence, whenever it ended, and a sidecar that is
    restarted ends nothing. The earliest of the rest counts. Kubelets report whole seconds: within
    one second, a cause comes before a bare exit code, and that before a termination.
    """
    firsts: dict[int, Failure] = {}
    for failure in sorted(failures, key=lambda failure: failure.likelihood):
        firsts.setdefault(failure.attempt, failure)
    return firsts


def tied_with(first: Failure, failures: Iterable[Failure]) -> list[Failure]:
    """Return the failures of other replicas that are as likely to be the first as `first` is."""
    rank = first.likelihood[:3]
    return [
        other
        for other in failures
        if other.attempt == first.attempt
        and (other.role, other.index) != (first.role, first.index)
        and other.likelihood[:3] == rank
        # Reports of supervisors have parts of a second.
        and (other.at == first.at or None in (other.at, first.at))
    ]


class FailureLog(Struct, frozen=True, omit_defaults=True):
    """The failures of a run.

    Args:
        run: The run's spec hash.
        failures: In the order in which they were reported.
        noted: `Failure.uid` of what must not be written down again, while its Pod may be visible.
        left_out: How many failures of each attempt have no entry.
        nodes: By node and name of a cause: how often it happened there.
        written: When something was last added, in seconds since 1970.
    """

    run: str
    failures: Annotated[tuple[Failure, ...], Meta(max_length=MOST)] = ()
    noted: tuple[str, ...] = ()
    left_out: dict[int, int] = field(default_factory=dict)
    nodes: Annotated[dict[str, dict[str, int]], Meta(max_length=_MOST_NODES)] = field(
        default_factory=dict
    )
    written: float = 0.0

    def with_failures(
        self, new: Sequence[Failure], visible: Iterable[str], now: float
    ) -> "FailureLog":
        """Return the log with the failures that are new; itself if there are none.

        Args:
            visible: The UIDs of the Pods that may still be listed.
            now: In seconds since 1970.
        """
        known = set(self.noted)
        fresh = [
            structs.replace(failure, message=_message(failure.message), tail=tail_of(failure.tail))
            for failure in new
            if failure.uid not in known
        ]
        if not fresh:
            return self
        there = set(visible)
        noted = [uid for uid in self.noted if uid.partition(".")[0] in there]
        noted += dict.fromkeys(failure.uid for failure in fresh)
        # The first failure and the earliest others of the newest attempt stay: their lines may yet
        # show that another one was the first. Then come the first failures of older attempts, and
        # late failures of the newest.
        failures = (*self.failures, *fresh)
        newest, firsts = max(failure.attempt for failure in failures), first_causes(failures)
        others = [failure for failure in failures if failure is not firsts[failure.attempt]]
        others.sort(key=lambda failure: (-failure.attempt, failure.likelihood[3]))
        late = min(_OTHERS, sum(failure.attempt == newest for failure in others))
        in_order = [firsts[number] for number in sorted(firsts, reverse=True)]
        entries = {id(failure) for failure in (*others[:late], *in_order, *others[late:])[:MOST]}
        counts = Counter(self.left_out)
        counts.update(failure.attempt for failure in failures if id(failure) not in entries)
        return structs.replace(
            self,
            failures=tuple(failure for failure in failures if id(failure) in entries),
            noted=tuple(noted),
            left_out={attempt: counts[attempt] for attempt in sorted(counts)[-_MOST_ATTEMPTS:]},
            nodes=_by_node(self.nodes, fresh),
            written=now,
        )

    def with_read(self, read: Mapping[str, Failure]) -> "FailureLog":
        new = [read[failure.uid] for failure in self.failures if failure.uid in read]
        if not new:
            return self
        failures = tuple(read.get(failure.uid, failure) for failure in self.failures)
        return structs.replace(self, failures=failures, nodes=_by_node(self.nodes, new))


def avoided_nodes(log: FailureLog, limit: int | None) -> tuple[str, ...]:
    """Return the nodes that Pods of a run avoid: those with `limit` failures by the node's fault.

    With `limit` None no number is enough. A node whose preflight asked for another one always
    counts.
    """
    bad = [
        node
        for node, counts in log.nodes.items()
        if OTHER_NODE_WANTED in counts
        or (limit and sum(n for name, n in counts.items() if causes.is_strike(name)) >= limit)
    ]
    return tuple(sorted(bad[-_MOST_AVOIDED:]))


def _by_node(
    counted: Mapping[str, Mapping[str, int]], new: Iterable[Failure]
) -> dict[str, dict[str, int]]:
    """Add failures that neither a peer nor the platform caused to the counts of their nodes."""
    nodes = {node: dict(counts) for node, counts in counted.items()}
    for failure in new:
        cause = failure.cause
        # A failure whose lines are unread counts when they are read (`with_read`).
        is_stopped = cause.blame == "platform" or cause.name in ("Stuck", PROBE_FAILED)
        if not failure.node or failure.is_unread or cause.may_follow or is_stopped:
            continue
        counts = nodes.pop(failure.node, {})
        nodes[failure.node] = counts | {cause.name: counts.get(cause.name, 0) + 1}  # newest last
    return dict(list(nodes.items())[-_MOST_NODES:])


def _message(text: str) -> str:
    return shown(" ".join(text.split()), _LARGEST_MESSAGE + 1)


def tail_of(text: str) -> str:
    """Return the last lines of a text, at most `LARGEST_TAIL` bytes.

    Credentials and control characters of terminals are removed.
    """
    text = text.strip()[-4 * LARGEST_TAIL :]
    clean = shown(text, len(text) + 1, keep="\n\t")
    while (size := len(json.dumps(clean, ensure_ascii=False).encode())) > LARGEST_TAIL:
        # A character is at most four bytes, and an escape two.
        clean = clean[max(1, (size - LARGEST_TAIL) // 4) :]
        if "\n" in clean[:-1]:
            clean = clean.partition("\n")[2]
    return clean


def with_lines(failure: Failure, lines: Sequence[str]) -> Failure:
    """Add the lines before the end of a command; `lines` may include those of the next epoch."""
    parts = [line.partition(" ") for line in lines]
    epoch = failure.uid.rpartition("-")[2]
    for place, (time, _, text) in enumerate(parts):
        if (ended := _COMMAND_ENDED.match(text)) and ended[1] == epoch:
            texts = [text for _, _, text in parts[:place]]
            began = max((n for n, line in enumerate(texts) if _EPOCH_BEGAN.match(line)), default=-1)
            tail, at = tail_of("\n".join(texts[began + 1 :])), seconds(time) or failure.at
            message = "" if tail else "it wrote nothing"
            return structs.replace(failure, at=at, tail=tail, message=message)
    return structs.replace(failure, message="its log could not be read")


# In J-status -----------------------------------------------------------------------------------


class _Written(Struct, frozen=True):
    log: FailureLog
    version: Literal[1] = 1


_WRITTEN = msgspec.json.Decoder(_Written)


def log_text(log: FailureLog) -> str:
    return msgspec.json.encode(_Written(log)).decode()


def read_log(data: Mapping[str, Any]) -> FailureLog | None:
    """Read the failures from the `data` of `J-status`; None if absent or unreadable."""
    written = read_key(data, FAILURES, _WRITTEN)
    return written.log if written is not None else None
