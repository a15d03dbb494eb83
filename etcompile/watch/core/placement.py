"""The declared replicas of a job, each with the Pod that has its place.

Pods are found by the name that the compiler gives them, or, where others may follow a replica, by
its rank; and only those of this run.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from etcompile.k8s.pod_state import PodState
from etcompile.model import Job, Member, Role
from etcompile.model.run_completion import Ranked, holder
from etcompile.model.run_record import ReplicaKey, RestartHistory, RunRecord
from etcompile.model.supervision import is_supervised
from etcompile.watch.core.view import Gone, JobView, Timeouts

Cause = Literal["failed", "succeeded", "unknown", "deleted", "erased", "vanished", "hung"]
"""How a replica lost its Pod: it failed; it ended well; its node is unreachable; somebody deleted
it; somebody deleted it by force; nobody saw how; it runs and does nothing."""
State = Literal["there", "awaited", "done", "returning", "left", "lost", "restarting"]
"""`there`: its Pod may be at work, or is on its way out. `awaited`: nobody has created it yet.
`done`: it has succeeded. `returning`: it was decided that it gets another Pod. `left`: that it does
not. `lost`: nothing is decided. `restarting`: its Pod goes with all others."""


class Replica(Struct, frozen=True, gc=False):
    """A declared replica, the Pod that has its place, and what has become of it."""

    role: Role
    index: int | None  # its number in the role; None for a role with a single Pod
    key: ReplicaKey
    name: str
    pod: PodState | None = None  # if it is of this run
    gone: Gone | None = None  # its last Pod, while the place is empty and somebody saw it vanish
    blocked: bool = False  # a Pod of another run or rank has the name
    rank: int | None = None  # where others may follow it
    follower: Member | None = None  # the replica that has the rank, if it is not the declared one
    others: tuple[PodState, ...] = ()  # of the rank, that have not ended
    supervised: bool = False  # its command restarts in place
    state: State = "there"
    # If it was just lost:
    cause: Cause | None = None
    last: PodState | None = None  # what was last seen of its Pod
    since: float = 0.0  # when that vanished; 0 if it is still there
    returns: bool = False  # it gets another Pod

    @property
    def number(self) -> int:
        """Its number in the role, which of those who follow is the rank; 0 where it has none."""
        return self.rank if self.rank is not None else self.index or 0

    @property
    def declared_member(self) -> Member:
        """The replica that the job declares for its rank."""
        return next(member for member in self.role.members if (member.place or 0) == self.number)

    @property
    def is_failure(self) -> bool:
        """Whether its loss counts as one: not if its kubelet did not admit the Pod.

        Where commands restart in place, what happens to a Pod from outside does not count either.
        """
        if self.supervised and self.last is not None and self.last.disrupted:
            return False
        if self.cause == "hung":
            return self.role.recovery.relaunch is None
        return self.cause == "failed" and not (self.last is not None and self.last.refused)

    @property
    def was_deleted(self) -> bool:
        """Whether somebody else than the watcher has deleted its Pod, which may still end."""
        last = self.pod or (self.gone.pod if self.gone else None)
        return last is not None and last.deleting and self.state in ("there", "lost")

    def settled(self, timeouts: Timeouts) -> float:
        """Return from when on its loss is decided: a deletion settles while the Pod still ends."""
        requested = self.last.deletion_requested if self.last is not None else 0.0
        return max(self.since, (requested or self.since) + timeouts.settle)

    @property
    def restarts(self) -> int:
        """How often containers of its Pod were started again, as far as that counts now."""
        if self.state in ("restarting", "returning") or self.supervised:
            return 0  # counted when that was decided, or by the supervisors
        return counted_restarts(self.role, self.pod)


def counts_failures(role: Role) -> bool:
    """Return whether failures of a role's replicas count: not where the first is the last."""
    return role.recovery.restart != "Never"


def counted_restarts(role: Role, pod: PodState | None) -> int:
    """Return how often containers of a Pod were started again in place, as far as that counts."""
    if pod is None or not counts_failures(role):
        return 0
    return pod.restarts + pod.init_restarts


class Placement(Struct, frozen=True):
    """The Pods of a run."""

    view: JobView
    replicas: tuple[Replica, ...]  # without those whose Pods a Job of Kubernetes creates
    batch: tuple[PodState, ...]  # what such a Job has created
    surplus: tuple[PodState, ...]  # no replica is declared for them
    replaced: tuple[PodState, ...] = ()  # have ended, and another one has followed: their logs stay
    astray: tuple[PodState, ...] = ()  # have the name of a declared replica of another rank

    @property
    def job(self) -> Job:
        """The job."""
        return self.view.job

    @property
    def restarts_together(self) -> bool:
        """Whether one lost replica has the watcher recreate all."""
        return self.job.run.together and self.job.run.in_place is None

    @property
    def of_this_run(self) -> Iterator[PodState]:
        """All Pods of this run."""
        for replica in self.replicas:
            if replica.pod is not None:
                yield replica.pod
            yield from replica.others
        yield from self.batch
        yield from self.surplus
        yield from self.replaced

    @property
    def readers(self) -> list[PodState]:
        """The Pods that read the live host lists and run."""
        reading = {role.name for role in self.job.roles if role.additions.reads_hosts}
        pods = [
            replica.pod for replica in self.replicas if replica.pod and replica.role.name in reading
        ]
        pods += (pod for pod in self.batch if pod.role in reading)
        return [pod for pod in pods if pod.phase == "Running" and not pod.deleting]


def placement(view: JobView) -> Placement:
    """Return the Pods of a run by their places."""
    own = [pod for pod in view.pods.values() if pod.spec_hash == view.spec_hash]
    replicas = tuple(_replicas(view, own))
    names = {replica.name for replica in replicas}
    names.update(pod.name for replica in replicas for pod in replica.others)
    roles = {role.name: role for role in view.job.roles}
    batch: list[PodState] = []
    surplus: list[PodState] = []
    replaced: list[PodState] = []
    for pod in own:
        role = roles.get(pod.role)
        if role is not None and role.batch:
            batch.append(pod)
        elif role is not None and pod.name not in names:
            # Of those who can be followed, who has ended says why, and is in nobody's way.
            (replaced if role.recovery.relaunch and pod.ended else surplus).append(pod)
    ranks = {
        role.pod_name(member): member.place
        for role in view.job.roles
        if role.recovery.relaunch
        for member in role.members
    }
    ranked = [pod for pod in own if ranks and pod.rank is not None]
    astray = tuple(pod for pod in ranked if ranks.get(pod.name, pod.rank) != pod.rank)
    return Placement(view, replicas, tuple(batch), tuple(surplus), tuple(replaced), astray)


def _replicas(view: JobView, own: Sequence[PodState]) -> Iterator[Replica]:
    run = view.spec_hash
    record = view.own_record or RunRecord(run)
    for role in view.job.roles:
        if role.batch:
            continue
        supervised = is_supervised(view.job, role)
        ranks = role.recovery.relaunch is not None
        holders: Iterable[_Holder] = [(member, member, ()) for member in role.members]
        for declared, member, of_rank in _ranks(role, own, record) if ranks else holders:
            name = role.pod_name(member)
            number = (declared.place if ranks else member.index) or 0
            pod, gone = view.pods.get(name), view.gone.get(name)
            ours = pod
            if pod is not None:
                gone = None
                is_of_rank = not ranks or pod.rank in (None, number)
                ours = pod if is_of_rank and pod.spec_hash == run else None
            elif gone is not None and gone.pod.spec_hash != run:
                gone = None
            yield Replica(
                role,
                member.index,
                (role.name, number),
                name,
                ours,
                gone,
                blocked=pod is not ours,
                rank=number if ranks else None,
                follower=None if member is declared else member,
                others=tuple(pod for pod in of_rank if pod.name != name and not pod.ended)
                if of_rank
                else (),
                supervised=supervised,
            )


# Who has a rank ----------------------------------------------------------------------------------
#
# The Pod that is declared, or the one that has followed it. Several Pods may carry the same rank,
# and at most one of them may be at work: two with one rank would throw each other out of the
# rendezvous (reference/dlrover.md 4.5). The declared Pod has precedence, because a tool that syncs
# Git brings it back whenever it is gone; then the one that the run record names; then whoever
# lives.

_Holder = tuple[Member, Member, Sequence[PodState]]
"""A declared replica, the one that has its rank, and the Pods of that rank."""


def _ranks(role: Role, own: Iterable[PodState], record: RunRecord) -> Iterator[_Holder]:
    """Yield the ranks of a role in which others follow who is lost."""
    by_rank: dict[int, list[PodState]] = {}
    for pod in own:
        if pod.role == role.name:
            by_rank.setdefault((pod.index if pod.rank is None else pod.rank) or 0, []).append(pod)
    for declared in role.members:
        rank = declared.place or 0
        written = record.replica((role.name, rank))
        history, of_rank = written.history, by_rank.get(rank, [])
        # Of whom it was decided that another follows is out, even while it lives.
        candidates = [pod for pod in of_rank if pod.uid != written.out]
        recorded = history.index if history is not None else None
        ranked = [Ranked(p.index, p.created, not (p.ended or p.deleting)) for p in candidates]
        index = holder(declared.index, recorded, ranked, written=history is not None)
        member = declared
        if index != declared.index:
            if history is None or index != recorded:
                history = RestartHistory(index, relaunches=len(candidates) - 1)
            member = follower(declared, history)
        yield declared, member, of_rank


def follower(declared: Member, history: RestartHistory) -> Member:
    """Return the replica that has the rank of a declared one, which may be that itself."""
    if history.index is None:
        return declared
    memory = {"memory": history.memory} if history.memory else {}
    return Member(
        history.index,
        declared.labels,
        rank=declared.place,
        relaunches=history.relaunches,
        resources={**declared.resources, **memory},
    )
