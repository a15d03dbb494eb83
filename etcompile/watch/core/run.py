"""Hold what rules and listeners see and decide, as values.

`JobView` is what the watcher knows of a job; what it must not forget is in the run record. One
`Run` goes through all rules, and each of them adds to it, at last the actions. Only `act` carries
them out. Each may be carried out twice without harm: those on Pods name the UID, and the record is
written before anything that must not happen twice. Times are in seconds since 1970.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import BatchView, PodState
from etcompile.model import Job, Member, Role, Settings
from etcompile.model.run_record import ReplicaKey, RunRecord, Time

# What is known of a job --------------------------------------------------------------------------


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
    peers: float = 0.2  # until a Pod is told to stop because a peer failed: most fail, too
    overlap: float = 2.0  # a host that is gone stays listed, at most, when all others are new
    lists: float = 0.5  # until host lists are written again: of many failures, most come at once
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


# Actions ---------------------------------------------------------------------------------------

REPLACED = "PodReplaced"
"""The reason of Events and log lines about a Pod that another one replaces."""


class Note(Struct, frozen=True):
    """Another key of `J-status`: a function that returns its text, and when it needs a write."""

    text: Callable[[], str]
    due: float = float("inf")


class WriteStatus(Struct, frozen=True):
    """Write `J-status`, unless somebody else has written it since it was read."""

    record: RunRecord
    notes: Mapping[str, str] = {}


class WriteHosts(Struct, frozen=True):
    """Write `J-hosts`."""

    hosts: HostsRecord


class PatchPod(Struct, frozen=True):
    """Change something of a Pod.

    `touch` and `notify` set the annotations `TOUCHED`, so that its kubelet fetches its volumes at
    once, and `NOTICE`, which its supervisor reads, to `value`. `end` ends a Pod that Git declares,
    by `activeDeadlineSeconds: 1`. `release` removes a queue's finalizer.
    """

    what: Literal["touch", "notify", "end", "release"]
    name: str
    uid: str
    value: str = ""  # of `end`, why


class CreatePod(Struct, frozen=True):
    """Create a Pod as the compiler builds it; one of the same run under that name is as good.

    With `uid`, the Pod of that name is deleted first, gracefully. If it is not gone at once, a
    later decision creates the Pod.
    """

    name: str
    role: str
    index: int | None
    reason: str
    undeclared: Member | None = None  # a replica that the job does not declare
    lost: str = ""  # the name of the Pod that it replaces, if that is another name
    uid: str = ""
    annotations: Mapping[str, str] = {}  # more than the compiler's
    away_from: tuple[str, ...] = ()  # nodes


class DeletePod(Struct, frozen=True):
    """Delete a Pod, gracefully; with `force` without waiting for its kubelet."""

    name: str
    uid: str
    reason: str
    force: bool = False


class RemoveJob(Struct, frozen=True):
    """Delete all objects of a job whose Pods are gone, its ConfigMap last."""


class Count(Struct, frozen=True):
    """Add to a metric of a listener."""

    name: str
    by: int = 1
    labels: tuple[str, ...] = ()


class ReadLog(Struct, frozen=True):
    """Read a container's log in the background; the result is a `LogRead` of that purpose.

    Args:
        of: What exactly it is read for; copied to the result.
        tail: Read only so many last lines.
        since: Read only lines from this time on (RFC 3339).
        begin: Add the lines that begin so to those that were read before.
        limit: Read at most so many bytes.
    """

    name: str
    uid: str
    container: str
    purpose: str
    of: str = ""
    tail: int | None = None
    since: str = ""
    begin: tuple[str, ...] = ()
    limit: int = 16 * 2**20


class EmitEvent(Struct, frozen=True):
    """Report something of a Pod, or else of the job's ConfigMap. It may get lost.

    Args:
        once: The same is reported only once in the life of this watcher.
    """

    reason: str
    message: str
    pod: str | None = None
    uid: str | None = None
    warning: bool = False
    once: bool = False


class Requeue(Struct, frozen=True):
    """Decide again at a time, in seconds since 1970, if nothing happens before."""

    at: float


Action = (
    CreatePod
    | DeletePod
    | PatchPod
    | WriteStatus
    | WriteHosts
    | RemoveJob
    | ReadLog
    | EmitEvent
    | Count
    | Requeue
)


# A run -----------------------------------------------------------------------------------------

Cause = Literal["failed", "succeeded", "unknown", "deleted", "erased", "vanished", "hung"]
"""How a replica lost its Pod: it failed; it succeeded; its node is unreachable; somebody deleted
it; somebody deleted it by force; nobody saw how; it runs and does nothing."""
State = Literal["there", "awaited", "done", "returning", "left", "lost", "restarting"]
"""`there`: its Pod may be at work, or is being deleted. `awaited`: nobody has created it yet.
`done`: it has succeeded. `returning`: it was decided that it gets another Pod. `left`: that it does
not. `lost`: nothing is decided. `restarting`: its Pod goes with all others."""


class Replica(Struct, frozen=True, gc=False):
    """A declared replica, the Pod in its place, and what has become of it."""

    role: Role
    declared: Member
    member: Member  # the same, or the one that has followed it to its rank
    key: ReplicaKey
    name: str
    pod: PodState | None = None  # if it is of this run
    gone: Gone | None = None  # its last Pod, while the place is empty and somebody saw it vanish
    blocked: bool = False  # a Pod of another run or rank has the name
    others: tuple[PodState, ...] = ()  # of the rank, that have not ended
    supervised: bool = False  # its command restarts in place
    state: State = "there"
    # If it is lost:
    cause: Cause | None = None
    last: PodState | None = None  # its Pod as it was last seen
    since: float = 0.0  # when that vanished; 0 if it is still there
    returns: bool = False  # it gets another Pod

    @property
    def index(self) -> int | None:
        """Return its number in the role; None for a role with a single Pod."""
        return self.member.index

    @property
    def number(self) -> int:
        """Return its rank, which is its number in the role unless others may follow it."""
        return self.key[1]

    @property
    def latest(self) -> PodState | None:
        """Return its Pod, or the one that was seen to go."""
        return self.pod or (self.gone.pod if self.gone is not None else None)

    @property
    def spends_budget(self) -> bool:
        """Return whether its loss counts against the failures of the run: not the node's doing."""
        disrupted = self.last is not None and self.last.disrupted
        return self.cause == "hung" or (self.cause == "failed" and not disrupted)

    @property
    def is_failure(self) -> bool:
        """Return whether its loss counts as a failure.

        Not if its kubelet did not admit the Pod; nor, where commands restart in place, if something
        happened to the Pod from outside.
        """
        if self.supervised and self.last is not None and self.last.disrupted:
            return False
        if self.cause == "hung":
            return self.role.recovery.relaunch is None
        return self.cause == "failed" and not (self.last is not None and self.last.refused)

    @property
    def was_deleted(self) -> bool:
        """Return whether somebody but the watcher has deleted its Pod, which may still end."""
        last = self.latest
        return last is not None and last.deleting and self.state in ("there", "lost")

    def settled(self, timeouts: Timeouts) -> float:
        """Return when its loss is decided: a deletion settles while the Pod still ends."""
        requested = self.last.deletion_requested if self.last is not None else 0.0
        # The API has whole seconds: it was requested up to one later than it says.
        begun = min(self.since, requested + 1) if requested else self.since
        return max(self.since, begun + timeouts.settle)

    @property
    def restarts(self) -> int:
        """Return how often containers of its Pod were restarted, as far as that counts now."""
        if self.state in ("restarting", "returning") or self.supervised:
            return 0  # counted when that was decided, or by the supervisors
        return counted_restarts(self.role, self.pod)


def counts_failures(role: Role) -> bool:
    """Return whether failures of a role's replicas count: not where the first is the last."""
    return role.recovery.restart != "Never"


def counted_restarts(role: Role, pod: PodState | None) -> int:
    """Return how often containers of a Pod were restarted in place, as far as that counts."""
    return pod.restarts + pod.init_restarts if pod is not None and counts_failures(role) else 0


class End(Struct, frozen=True):
    """How a run ends.

    Args:
        message: What is said of it; of a loss, its description.
        final: No restart helps.
        again: The job is restarted instead.
        loss: The replica that it failed for, if it was one.
        sure_at: When it ends the run: a success of the same moment may not be seen yet.
    """

    reason: str
    message: str
    succeeded: bool = False
    final: bool = False
    again: bool = False
    loss: Replica | None = None
    sure_at: float = 0.0


class Restart(Struct, frozen=True):
    """A restart of all replicas together; `counted` among the restarts of the run."""

    message: str
    counted: bool = True


class Run(Struct, frozen=True):
    """A run: what is known of it, what is written down, and what was decided so far.

    Args:
        now: In seconds since 1970.
        record: The run record, with what was learned and decided.
        replicas: Without those whose Pods a Job of Kubernetes creates.
        doubtful: Those of them that may be anything but `there`.
        newest: When the newest Pod was created; 0 if there is none.
        readers: The Pods that read the live host lists and run.
        batch: The Pods that such a Job has created.
        surplus: Pods that no replica is declared for.
        replaced: Pods that have ended and were followed by another one: their logs stay.
        astray: Pods that have the name of a declared replica of another rank.
        lost: UIDs of Pods that run but count as lost.
        end: How a listener ends the run.
        restart: The restart that a listener demands.
        until: No Pod of a joint restart is created before that time.
        described: Describes a loss in a sentence, instead of the core.
        losses: The replicas about whose loss is decided now.
        attempt: The attempt that lost them.
        facts: For other listeners, by a name.
        notes: Keys of `J-status`, besides the record.
    """

    view: JobView
    now: float
    record: RunRecord
    replicas: tuple[Replica, ...] = ()
    doubtful: tuple[Replica, ...] = ()
    newest: float = 0.0
    readers: tuple[PodState, ...] = ()
    batch: tuple[PodState, ...] = ()
    surplus: tuple[PodState, ...] = ()
    replaced: tuple[PodState, ...] = ()
    astray: tuple[PodState, ...] = ()
    actions: tuple[Action, ...] = ()
    lost: frozenset[str] = frozenset()
    end: End | None = None
    restart: Restart | None = None
    until: float = 0.0
    described: "Callable[[Run, Replica], str | None] | None" = None
    losses: tuple[Replica, ...] = ()
    attempt: int = 0
    facts: Mapping[str, Any] = {}
    notes: Mapping[str, Note] = {}

    def adding(self, actions: Iterable[Action] = (), **changes: Any) -> "Run":
        return structs.replace(self, actions=(*self.actions, *actions), **changes)

    def writing(self, *actions: Action, **changes: Any) -> "Run":
        """Return the run with actions, and with changes of its record."""
        return self.adding(actions, record=structs.replace(self.record, **changes))

    @property
    def job(self) -> Job:
        return self.view.job

    @property
    def timeouts(self) -> Timeouts:
        return self.view.timeouts

    @property
    def pods(self) -> Iterator[PodState]:
        for replica in self.replicas:
            if replica.pod is not None:
                yield replica.pod
            yield from replica.others
        yield from self.batch
        yield from self.surplus
        yield from self.replaced

    @property
    def deciding(self) -> list[Replica]:
        """Return the replicas that decide whether the run succeeds."""
        roles = self.job.run.success.roles
        return [replica for replica in self.replicas if replica.role.name in roles]

    @property
    def restarts_together(self) -> bool:
        return self.job.run.together and self.job.run.in_place is None

    def in_state(self, *states: State) -> list[Replica]:
        """Return the replicas in any of these states."""
        replicas = self.replicas if "there" in states else self.doubtful
        return [replica for replica in replicas if replica.state in states]

    @property
    def returning(self) -> list[Replica]:
        """Return the losses to decide about that bring a replica back."""
        return [loss for loss in self.losses if loss.returns]


class Listener(Struct, frozen=True):
    """An optional feature.

    Args:
        observe: Adds to the state of a Pod what only the feature reads of it.
        before: Adds to a run that is not over what is known before the core decides.
        after: Adds to the decision.
        counters: What it counts, by name: the words of the metric, the names of its labels, and
            the values of the label.
    """

    observe: Callable[[PodState, Object, PodState | None], PodState] = lambda state, *_: state
    before: Callable[[Run], Run] = lambda run: run
    after: Callable[[Run], Run] = lambda run: run
    counters: Mapping[str, tuple[str, tuple[str, ...], Sequence[str]]] = {}
