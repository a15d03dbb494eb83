"""The declared replicas of a job, each with the Pod that has its place.

Pods are found by the name that the compiler gives them, where others may follow a replica by its
rank; and only those of this run: a Pod of an earlier run that ended well says nothing about this
one.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, structs

from etcompile.model import Job, Member, Role
from etcompile.model.completion import attempt_name, holder
from etcompile.model.run_record import NOTHING, ReplicaKey, RestartHistory, RunRecord
from etcompile.model.supervision import is_supervised
from etcompile.watch.state import Gone, JobView, PodView


class Place(Struct, frozen=True, gc=False):
    """A declared replica.

    Args:
        index: Its number in the role; None for a role with a single Pod.
        key: What the run record calls it.
        name: Its Pod's name.
        pod: Its Pod, if that is of this run.
        gone: Its last Pod, while the place is empty and somebody saw it vanish.
        taken: A Pod of another run or rank has the name.
        rank: Its rank, where others may follow it.
        follower: The replica that has the rank, if it is not the one that is declared.
        others: Other Pods of the rank that have not ended.
        declared: The name that its first Pod has, where each has another one.
        supervised: Its command restarts in place.
    """

    role: Role
    index: int | None
    key: ReplicaKey
    name: str
    pod: PodView | None = None
    gone: Gone | None = None
    taken: bool = False
    rank: int | None = None
    follower: Member | None = None
    others: tuple[PodView, ...] = ()
    declared: str = ""
    supervised: bool = False

    @property
    def number(self) -> int:
        """Its number in the role, which of those who follow is the rank; 0 where it has none."""
        return self.rank if self.rank is not None else self.index or 0

    @property
    def declared_member(self) -> Member:
        """The replica that the job declares for its rank."""
        return next(member for member in self.role.members if (member.place or 0) == self.number)


class Placement(Struct, frozen=True):
    """Who is there.

    Args:
        view: What is known of the job.
        places: The declared replicas whose Pods are not made by a Job of Kubernetes.
        batch: The Pods of this run that are.
        surplus: The Pods of this run that no replica is declared for.
        kept: Pods that have ended and that somebody has followed: their logs stay.
        astray: Pods that have the name of a declared replica of another rank.
    """

    view: JobView
    places: tuple[Place, ...]
    batch: tuple[PodView, ...]
    surplus: tuple[PodView, ...]
    kept: tuple[PodView, ...] = ()
    astray: tuple[PodView, ...] = ()

    @property
    def job(self) -> Job:
        """The job."""
        return self.view.job

    @property
    def of_this_run(self) -> Iterator[PodView]:
        """All Pods of this run."""
        for place in self.places:
            if place.pod is not None:
                yield place.pod
            yield from place.others
        yield from self.batch
        yield from self.surplus
        yield from self.kept

    @property
    def readers(self) -> list[PodView]:
        """The Pods that read the live host lists and run."""
        reading = {role.name for role in self.job.roles if role.additions.reads_hosts}
        found = [place.pod for place in self.places if place.pod and place.role.name in reading]
        return [
            pod
            for pod in (*found, *(pod for pod in self.batch if pod.role in reading))
            if pod.phase == "Running" and not pod.deleting
        ]


def placement(view: JobView) -> Placement:
    """Who is there."""
    own = [pod for pod in view.pods.values() if pod.spec_hash == view.spec_hash]
    places = tuple(_places(view, own))
    names = {place.name for place in places}
    names.update(pod.name for place in places for pod in place.others)
    batch = {role.name for role in view.job.roles if role.batch}
    known = {role.name for role in view.job.roles}
    followed = {role.name for role in view.job.roles if role.recovery.relaunch}
    rest = [
        pod for pod in own if pod.name not in names and pod.role in known and pod.role not in batch
    ]
    # Of those who can be followed, who has ended says why, and is in nobody's way.
    kept = [pod for pod in rest if pod.role in followed and pod.ended]
    surplus = [pod for pod in rest if pod.role not in followed or not pod.ended]
    if renames(view):
        there = {
            (place.role.name, place.index) for place in places if not place.role.recovery.relaunch
        }
        before = [pod for pod in surplus if (pod.role, pod.index) in there]
        surplus = [pod for pod in surplus if (pod.role, pod.index) not in there]
        kept += before
    return Placement(
        view,
        places,
        tuple(pod for pod in own if pod.role in batch),
        tuple(surplus),
        tuple(kept),
        tuple(_astray(view, own)) if followed else (),
    )


def _astray(view: JobView, own: Iterable[PodView]) -> Iterator[PodView]:
    ranks = {
        role.pod_name(member): member.place
        for role in view.job.roles
        if role.recovery.relaunch
        for member in role.members
    }
    for pod in own:
        if pod.rank is not None and ranks.get(pod.name, pod.rank) != pod.rank:
            yield pod


def _ranked(view: JobView, role: Role, own: Iterable[PodView]) -> Iterator[Place]:
    """The ranks of a role in which others follow who is lost."""
    for held in holders(role, own, view.own_record or RunRecord(view.spec_hash)):
        name = role.pod_name(held.member)
        pod, last = view.pods.get(name), view.gone.get(name)
        ours = pod if pod is not None and held.has(pod) else None
        yield Place(
            role,
            held.member.index,
            held.key,
            name,
            ours,
            last if pod is None and last and last.pod.spec_hash == view.spec_hash else None,
            taken=pod is not None and ours is None,
            rank=held.rank,
            follower=None if held.declared else held.member,
            others=held.others,
        )


def _places(view: JobView, own: Iterable[PodView]) -> Iterator[Place]:
    pods, gone, run = view.pods, view.gone, view.spec_hash
    record = view.own_record or RunRecord(run)
    for role in view.job.roles:
        if role.batch:
            continue
        if role.recovery.relaunch:
            yield from _ranked(view, role, own)
            continue
        supervised = is_supervised(view.job, role)
        written = record.replicas.get(role.name, {})
        for member in role.members:
            key = role.name, member.index or 0
            first = role.pod_name(member)
            name = attempt_name(first, written.get(key[1], NOTHING).attempt)
            if view.git_managed and _is_back(pods.get(first), run):
                name = first  # its tool would bring it back for ever
            declared = first if renames(view) else ""
            pod, last = pods.get(name), gone.get(name)
            ours = pod if pod is not None and pod.spec_hash == run else None
            if pod is not None or (last is not None and last.pod.spec_hash != run):
                last = None
            yield Place(
                role,
                member.index,
                key,
                name,
                ours,
                last,
                taken=pod is not None and ours is None,
                declared=declared,
                supervised=supervised,
            )


def _is_back(pod: PodView | None, run: str) -> bool:
    """Whether a Pod that had been replaced is at work again, because a tool has created it."""
    return pod is not None and pod.spec_hash == run and not (pod.ended or pod.deleting)


def renames(view: JobView) -> bool:
    """Whether each Pod of a replica needs a name of its own.

    Kueue keeps a Pod that failed, or that it has taken away, until another one of another name has
    its place (reference/gang-scheduling.md 4.5).
    """
    return view.settings.gang == "kueue"


# Who has a rank ----------------------------------------------------------------------------------
#
# The Pod that is declared, or the one that has followed it. Where failed replicas are followed by
# others, several Pods may carry the same rank, and at most one of them may be at work: two with one
# rank would throw each other out of the rendezvous (reference/dlrover.md 4.5). The declared Pod has
# precedence, because a tool that syncs Git brings it back whenever it is gone; then the one that
# the run record names; then whoever lives.


class Holder(Struct, frozen=True):
    """Who has a rank.

    Args:
        key: What the run record calls it.
        member: The replica that has it, or is to have it.
        declared: The job declares that replica.
        others: Other Pods of the rank that have not ended.
        hash: The run.
    """

    rank: int
    key: ReplicaKey
    member: Member
    declared: bool
    others: tuple[PodView, ...]
    hash: str

    def has(self, pod: PodView) -> bool:
        """Whether a Pod with the replica's name is that replica."""
        return pod.spec_hash == self.hash and pod.rank in (None, self.rank)


def holders(role: Role, own: Iterable[PodView], record: RunRecord) -> Iterator[Holder]:
    """Who has each declared rank of a role.

    Args:
        role: The role, with the replicas that it declares.
        own: The Pods of the run.
        record: The run record: who has which rank.
    """
    by_rank: dict[int, list[PodView]] = {}
    for pod in own:
        if pod.role == role.name:
            rank = pod.index if pod.rank is None else pod.rank
            by_rank.setdefault(rank or 0, []).append(pod)
    for member in role.members:
        rank = member.place or 0
        key = role.name, rank
        pods = by_rank.get(rank, [])
        written = record.replica(key)
        # Of whom it was decided that another follows is out, even while it lives.
        found = _holder(member, [pod for pod in pods if pod.uid != written.out], written.history)
        name = role.pod_name(found)
        others = tuple(pod for pod in pods if pod.name != name and not pod.ended)
        yield Holder(rank, key, found, found is member, others, record.run)


def follower(declared: Member, history: RestartHistory) -> Member:
    """The replica that has the rank of a declared one.

    Args:
        declared: The replica that the job declares for the rank.
        history: Who has had the rank.
    """
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


def successor(place: Place, history: RestartHistory) -> Member | None:
    """The replica that is to follow; None if it is the one that is declared."""
    return None if history.index is None else follower(place.declared_member, history)


def next_number(role: Role, pods: Mapping[str, PodView], record: RunRecord) -> int:
    """The number of who follows next: none that a replica ever had, or that Git may yet give.

    Scaling gives numbers up to the most that the role may have. A plan that moves a replica may
    give a higher one all the same: whoever has it then makes room (`termination.duplicates`).

    Args:
        role: The role that it will belong to.
        pods: All Pods of the job, by name.
        record: The run record, with the numbers that were given so far.
    """
    numbers = [pod.index for pod in pods.values() if pod.role == role.name and pod.index]
    numbers += [member.index for member in role.members if member.index]
    least = (role.bounds.maximum if role.bounds else None) or len(role.members)
    return max(least, max(numbers, default=0) + 1, record.numbers.get(role.name, -1) + 1)


def noted(
    index: int | None, history: RestartHistory | None, declared: int | None, followed: Member | None
) -> RestartHistory:
    """What the record is to say of a rank.

    Args:
        index: The number of who has it.
        history: What the record says.
        declared: The number of the replica that is declared.
        followed: The replica that has it, if that is another one.
    """
    before = history or RestartHistory(relaunches=followed.relaunches if followed else 0)
    own = None if index == declared else index
    return before if before.index == own else structs.replace(before, index=own)


def _holder(member: Member, pods: list[PodView], history: RestartHistory | None) -> Member:
    recorded = history.index if history is not None else None
    found = holder(member.index, recorded, pods, written=history is not None)
    if found == member.index:
        return member
    if history is not None and found == recorded:
        return follower(member, history)
    return follower(member, RestartHistory(found, relaunches=len(pods) - 1))
