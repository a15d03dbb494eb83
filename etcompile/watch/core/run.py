"""Hold a run as rules and listeners see it: one value, to which each of them adds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState
from etcompile.model import Job, Member, Role
from etcompile.model.run_record import ReplicaKey, RunRecord
from etcompile.watch.core.actions import Action, Note
from etcompile.watch.core.view import Gone, JobView, Timeouts

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
