"""Who has a rank: the Pod that is declared, or the one that has followed it.

Where failed replicas are followed by others, several Pods may carry the same rank, and at most one
of them may be at work: two with one rank would throw each other out of the rendezvous
(reference/dlrover.md 4.5). The declared Pod has precedence, because a tool that syncs Git brings it
back whenever it is gone; then the one that the run record names; then whoever lives.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, structs

from etcompile.model import Member, Role
from etcompile.model.completion import holder
from etcompile.watch.state import PodView, RestartHistory, RunRecord


class Holder(Struct, frozen=True):
    """Who has a rank.

    Args:
        rank: The rank.
        key: What the run record calls it: `worker/3`.
        member: The replica that has it, or is to have it.
        declared: The job declares that replica.
        others: Other Pods of the rank that have not ended.
        hash: The run.
    """

    rank: int
    key: str
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
        role: The role.
        own: The Pods of the run.
        record: The run record.
    """
    by_rank: dict[int, list[PodView]] = {}
    for pod in own:
        if pod.role == role.name:
            rank = pod.index if pod.rank is None else pod.rank
            by_rank.setdefault(rank or 0, []).append(pod)
    for member in role.members:
        rank = member.place or 0
        key = f"{role.name}/{rank}"
        pods = by_rank.get(rank, [])
        trial = record.trials.get(key)
        # Of whom it was decided that another follows is out, even while it lives.
        out = trial.uid if trial is not None and not trial.left else ""
        found = _holder(member, [pod for pod in pods if pod.uid != out], record.lines.get(key))
        name = role.pod_name(found)
        others = tuple(pod for pod in pods if pod.name != name and not pod.ended)
        yield Holder(rank, key, found, found is member, others, record.run)


def follower(declared: Member, line: RestartHistory) -> Member:
    """The replica that has the rank of a declared one.

    Args:
        declared: The declared one.
        line: Who has had the rank.
    """
    if line.index is None:
        return declared
    memory = {"memory": line.memory} if line.memory else {}
    return Member(
        line.index,
        declared.labels,
        rank=declared.place,
        relaunches=line.relaunches,
        resources={**declared.resources, **memory},
    )


def next_number(role: Role, pods: Mapping[str, PodView], record: RunRecord) -> int:
    """The number of who follows next: none that a replica ever had, or that Git may yet give.

    Scaling gives numbers up to the most that the role may have. A plan that moves a replica may
    give a higher one all the same: whoever has it then makes room (`rivals`).

    Args:
        role: The role.
        pods: All Pods of the job, by name.
        record: The run record.
    """
    numbers = [pod.index for pod in pods.values() if pod.role == role.name and pod.index]
    numbers += [member.index for member in role.members if member.index]
    least = (role.bounds.maximum if role.bounds else None) or len(role.members)
    return max(least, max(numbers, default=0) + 1, record.numbers.get(role.name, -1) + 1)


def noted(
    index: int | None, line: RestartHistory | None, declared: int | None, followed: Member | None
) -> RestartHistory:
    """What the record is to say of a rank.

    Args:
        index: The number of who has it.
        line: What the record says.
        declared: The number of the replica that is declared.
        followed: The replica that has it, if that is another one.
    """
    before = line or RestartHistory(relaunches=followed.relaunches if followed else 0)
    own = None if index == declared else index
    return before if before.index == own else structs.replace(before, index=own)


def _holder(member: Member, pods: list[PodView], line: RestartHistory | None) -> Member:
    recorded = line.index if line is not None else None
    found = holder(member.index, recorded, pods, written=line is not None)
    if found == member.index:
        return member
    if line is not None and found == recorded:
        return follower(member, line)
    return follower(member, RestartHistory(found, relaunches=len(pods) - 1))
