"""What the watcher knows of a job: its Pods as they are seen, and what it has written down.

What it must not forget is in the run record. Times are in seconds since 1970.
"""

import hashlib
from collections.abc import Mapping

from msgspec import Struct, field

from etcompile.failures.log import FailureLog
from etcompile.goodput import Timeline
from etcompile.model import Job, Settings
from etcompile.model.run_record import LATEST, RunRecord
from etcompile.model.supervision import EpochLine
from etcompile.watch.pod_view import BatchView, PodView

LARGEST_COPY = 256 * 1024
"""Bytes of a job of which there is a copy beside the run record."""


def digest(text: str) -> str:
    """What stands for that copy in memory."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class Gone(Struct, frozen=True):
    """A Pod that has vanished, until its place is taken again.

    Args:
        pod: What was seen of it *before* it vanished. The event of its deletion always looks as if
            it had been asked to go, however it went.
        at: When it vanished.
        unseen: Nobody saw it go: a list did not have it any more.
    """

    pod: PodView
    at: float
    unseen: bool = False


class PodLog(Struct, frozen=True, gc=False):
    """What is known of the log of a Pod's main container; nothing at first.

    Args:
        read_at: When somebody last asked when it grew; 0 if nobody has.
        at: When the last line was written; None if that is not known.
        tail_of: Which failure its last lines were asked for to explain.
        tail: The last lines, each after its time; None while nobody has answered.
        epochs_due: When to read it again for epochs.
        epochs_until: The time of the last line that was read for that, as the log has it.
        epochs: The last lines about epochs.
    """

    read_at: float = 0.0
    at: float | None = None
    line: str = ""
    tail_of: str = ""
    tail: tuple[str, ...] | None = None
    epochs_due: float = 0.0
    epochs_until: str = ""
    epochs: tuple[EpochLine, ...] = ()


UNREAD = PodLog()
"""Thousands of Pods have logs that nobody reads, and share this one."""


# Host lists --------------------------------------------------------------------------------------

WRITTEN = "etcompile.dev/written"
"""Annotation of `J-hosts`: when the watcher wrote it, in seconds since 1970."""
ANCHOR = "etcompile.dev/anchor"
"""Annotation of `J-hosts`: hosts that it has in common with what a reader saw before, and until
when that matters, as `HOST=SECONDS,HOST=SECONDS=gone`."""


class Anchor(Struct, frozen=True):
    """A host that the live lists keep for a while, even if it is `gone`."""

    until: float
    gone: bool = False


class HostsRecord(Struct, frozen=True):
    """The live host lists.

    Args:
        data: The `data` of `J-hosts`: key of the list to its lines.
        anchors: Hosts that they have in common with what a reader may have seen before, by name.
    """

    data: Mapping[str, str]
    written: float = 0.0
    anchors: Mapping[str, Anchor] = field(default_factory=dict)


def hosts_annotations(hosts: HostsRecord) -> dict[str, str]:
    """The annotations of `J-hosts`."""
    anchors = ",".join(
        f"{name}={anchor.until!r}{'=gone' if anchor.gone else ''}"
        for name, anchor in hosts.anchors.items()
    )
    return {WRITTEN: repr(hosts.written), **({ANCHOR: anchors} if anchors else {})}


def hosts_record(data: Mapping[str, str], annotations: Mapping[str, str]) -> HostsRecord:
    """The live host lists, read back from `J-hosts`."""
    anchors = {}
    for part in annotations.get(ANCHOR, "").split(","):
        name, _, rest = part.partition("=")
        until, _, gone = rest.partition("=")
        if (at := _time(until)) is not None:  # else not by a watcher: nobody waits for that host
            anchors[name] = Anchor(at, gone == "gone")
    return HostsRecord(data, _time(annotations.get(WRITTEN, "")) or 0.0, anchors)


def _time(text: str) -> float | None:
    try:
        time = float(text)
    except ValueError:
        return None
    return time if abs(time) < LATEST else None


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
        start: Until it is reported that Pods are missing, or that none finds a node.
        report: For supervisors to say what their processes do, and again to read it.
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
        spec_hash: The run's identity.
        pods: The Pods that carry the job's label, by name; also those of other runs.
        gone: Pods that vanished while the watcher looked, by name, until one of that name is there.
        record: The run record; None before the first.
        hosts: The live host lists; None before the first.
        batch: The Job of Kubernetes that makes the launcher's Pod, where there is one.
        git_managed: A tool brings back what is deleted, and deletes what Git does not declare.
        watched_since: When the watcher first had the whole picture of the job.
        declared_at: When the job in its ConfigMap was last written; None if nothing says it.
        logs: What is known of the logs of Pods, by UID, as far as somebody has asked.
        failures, timeline: As they were written last; None before the first time.
        config_uid, config_created: Of the job's ConfigMap.
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
    logs: Mapping[str, PodLog] = field(default_factory=dict)
    failures: FailureLog | None = None
    timeline: Timeline | None = None
    config_uid: str = ""
    config_created: float = 0.0
    copied: bool = True
    superseded: bool = False
    unreadable: str = ""

    def log(self, uid: str) -> PodLog:
        """What is known of the log of the Pod with a UID."""
        return self.logs.get(uid, UNREAD)

    @property
    def own_record(self) -> RunRecord | None:
        """The run record, if it is of this run.

        It is not if it is of another spec hash, nor if its job was deleted before the run was over:
        what was applied since runs anew. That a run is over outlives its ConfigMap, or a job that
        is synced again would train again (reference/gitops.md 9).
        """
        record = self.record
        if record is None or record.run != self.spec_hash or self.is_orphaned:
            return None
        return record

    @property
    def is_orphaned(self) -> bool:
        """Whether the record is of a run that was not over when its `J-etcompile` was deleted."""
        record = self.record
        if record is None or record.ended or not record.config:
            return False
        return record.config != self.config_uid
