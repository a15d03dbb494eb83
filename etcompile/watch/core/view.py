"""What the watcher knows of a job: its Pods as they are seen, and what it has written down.

What it must not forget is in the run record. Times are in seconds since 1970.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.k8s.pod_state import BatchView, PodState
from etcompile.model import Job, Settings
from etcompile.model.run_record import RunRecord, Time


class Gone(Struct, frozen=True):
    """A Pod that has vanished, until its place is taken again."""

    # What was seen of it *before* it vanished: the event of its deletion always looks as if it had
    # been asked to go, however it went.
    pod: PodState
    at: float
    unseen: bool = False  # nobody saw it go: a list did not have it any more


class LogRead(Struct, frozen=True, gc=False):
    """What was last read of a Pod's log for one purpose; nothing at first."""

    of: str = ""
    at: float = 0.0  # when it was last requested; 0 if never, or if the Pod has changed since
    lines: tuple[str, ...] | None = None  # each after its time; None until they are read
    until: str = ""  # the time of the last line, as the log has it
    failed: bool = False  # the last request


UNREAD = LogRead()

ANCHOR = "etcompile.dev/anchor"
"""Annotation of `J-hosts`: hosts that it has in common with what a reader saw before, and until
when that matters, in JSON."""


class Anchor(Struct, frozen=True, omit_defaults=True):
    """A host that the live lists keep for a while, even if it is `gone`."""

    until: Time
    gone: bool = False


class HostsRecord(Struct, frozen=True):
    """The live host lists: of each its lines, by the key in `J-hosts`."""

    data: Mapping[str, str]
    anchors: Mapping[str, Anchor] = field(default_factory=dict)


_ANCHORS = msgspec.json.Decoder(dict[str, Anchor])


def hosts_record(data: Mapping[str, str], metadata: Mapping[str, Any]) -> HostsRecord:
    try:
        anchors = (metadata.get("annotations") or {}).get(ANCHOR) or "{}"
        return HostsRecord(data, _ANCHORS.decode(anchors))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return HostsRecord(data)  # not by a watcher: nobody waits for these hosts


class Timeouts(Struct, frozen=True):
    """How long the watcher waits, in seconds."""

    settle: float = 2.0  # until a vanished Pod is created again: its whole job may be about to go
    # The same where a tool syncs Git and somebody deleted the Pod: it may be the tool, whose next
    # step is the job that does without it.
    prune: float = 15.0
    race: float = 3.0  # until a failure ends a run: kubelets may report a success that much later
    verdict: float = 10.0  # until a vanished Pod is lost for good: Git may bring it back
    # Until a replica that failed a third time comes back; each further time twice as long. The
    # first two times it comes back at once.
    backoff: float = 1.0
    longest: float = 300.0
    forget: float = 600.0  # being Ready for so long ends a series of failures
    overlap: float = 2.0  # a host that is gone stays listed, at most, when all others are new
    drain: float = 60.0  # until the Pod of a worker goes that the job does not have any more
    start: float = 60.0  # until it is reported that Pods are missing, or that none finds a node

    def delay(self, failed: int) -> float:
        """Return the seconds until the replacement of what failed so many times in a row."""
        if failed < 3:
            return 0.0
        return min(self.backoff * 2.0 ** min(failed - 3, 60), self.longest)

    def in_a_row(self, failed: int, lived: float) -> int:
        """Return one failure more, or after a long life (in seconds) the first of another row."""
        return (failed if lived < self.forget else 0) + 1


class JobView(Struct, frozen=True):
    """All that is known of a job."""

    job: Job
    settings: Settings
    namespace: str
    spec_hash: str
    pods: Mapping[str, PodState]  # all that carry the job's label, by name; also of other runs
    gone: Mapping[str, Gone] = field(default_factory=dict)  # by name, until it is there again
    record: RunRecord | None = None
    hosts: HostsRecord | None = None
    batch: BatchView | None = None  # the Job of Kubernetes that makes the launcher's Pod, if any
    git_managed: bool = False  # a tool brings back what is deleted, and deletes what Git lacks
    watched_since: float = 0.0  # when the watcher first had the whole picture of the job
    declared_at: float | None = None  # when its ConfigMap was last written, if anything says it
    timeouts: Timeouts = Timeouts()
    logs: Mapping[str, Mapping[str, LogRead]] = field(default_factory=dict)  # by UID and purpose
    notes: Mapping[str, str] = field(default_factory=dict)  # other keys of `J-status`
    config_uid: str = ""
    config_created: float = 0.0
    copied: bool = True  # the copy of the job beside the run record is the job as it is now
    superseded: bool = False  # its ConfigMap describes another run by now, or none
    unreadable: str = ""  # why the ConfigMap cannot be read, in that case

    def log(self, uid: str, purpose: str) -> LogRead:
        reads = self.logs.get(uid)
        return reads.get(purpose, UNREAD) if reads else UNREAD

    @property
    def run_record(self) -> RunRecord | None:
        """The run record, if it is of this run.

        It is not if its job was deleted before the run was over: what was applied since runs anew.
        That a run is over outlives its ConfigMap, or a job that is synced again would train again
        (reference/gitops.md 9).
        """
        record = self.record
        if record is None or record.run != self.spec_hash or self.is_orphaned:
            return None
        return record

    @property
    def begun(self) -> RunRecord:
        """The run record as this decision finds it: a new one, if none is of this run."""
        record = self.run_record
        if record is None:
            return RunRecord(self.spec_hash, config=self.config_uid)
        return record if record.ended else structs.replace(record, config=self.config_uid)

    @property
    def is_orphaned(self) -> bool:
        """Whether the record is of a run that was not over when its `J-etcompile` was deleted."""
        record = self.record
        if record is None or record.ended or not record.config:
            return False
        return record.config != self.config_uid
