"""A ScalePlan over the replicas of a role: which come, which go, which move.

reference/dlrover.md 3.6 and 5: who comes has the next number and the first rank that is free, who
moves keeps its rank. A plan says several things at once; it counts as a whole or not at all. Where
a master of the job's own reads plans, they are not folded but checked and passed on to it.
"""

import itertools
from collections.abc import Iterator, Mapping

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.model import Job, Labels, Member, Planned, Role, ScalePlan

Members = Mapping[int, Member]


def apply_plan(
    role: Role, members: Members, sizes: Labels, plan: ScalePlan
) -> tuple[Members, Labels, list[Diagnostic]]:
    """The replicas of a role after a plan, which may name other roles, too.

    Args:
        sizes: What earlier plans said that main containers of replicas to come are to have.

    Returns:
        The replicas, the sizes and what is wrong.
    """
    problems = []
    for name in plan.resources:
        if name != role.name:
            place = plan.origin.locate("spec", "replicaResourceSpecs", name, key=True)
            problems.append(_no_role(role, name, plan, place))
    after = dict(members)
    sizes = {**sizes, **plan.resources.get(role.name, {})}

    def join(index: int, rank: int, size: Labels) -> None:
        resources = {**sizes, **size}
        after[index] = Member(index, rank=None if rank == index else rank, resources=resources)

    for pod, is_moved in [
        *((pod, False) for pod in plan.remove),
        *((pod, True) for pod in plan.move),
    ]:
        index = _index(role, after, pod)
        if index is None:
            problems.append(_unknown(role, after, pod, plan))
            continue
        number = next_index(after)
        gone = after.pop(index)
        if is_moved:
            join(number, gone.place or 0, pod.resources)
    for pod in plan.create:
        if pod.role not in (None, role.name):
            problems.append(_no_role(role, pod.role or "", plan, pod.origin.locate()))
            continue
        rank = next(_free_ranks(after)) if pod.rank is None else pod.rank
        holder = next((member for member in after.values() if member.place == rank), None)
        if pod.index in after or holder:
            holder = holder or after[pod.index or 0]
            reason = f"{_title(role, holder)} has its number or its rank already"
            advice = "leave id and rankIndex out, and both are chosen"
            problems.append(_refused(plan, pod.origin.locate(), reason, advice))
            continue
        join(next_index(after) if pod.index is None else pod.index, rank, pod.resources)
    count = plan.replicas.get(role.name)
    if count is None or problems:
        return after, sizes, problems
    for index in sorted(after, reverse=True)[: max(len(after) - count, 0)]:
        after.pop(index)
    return joined(role, after, max(count - len(after), 0), {}, sizes), sizes, []


def joined(role: Role, members: Members, count: int, labels: Labels, resources: Labels) -> Members:
    """The replicas with more: of the numbers after the last, and the first ranks that are free.

    Ranks are the replicas' numbers unless the role tells them apart.
    """
    after, first = dict(members), next_index(members)
    numbers = range(first, first + count)
    ranks = numbers if role.labels.rank is None else _free_ranks(members)
    for index, rank in zip(numbers, ranks, strict=False):
        place = None if rank == index else rank
        after[index] = Member(index, labels, rank=place, resources=resources)
    return after


def next_index(members: Members) -> int:
    """The index after the highest."""
    return max(members, default=-1) + 1


def pass_on(job: Job, plan: ScalePlan) -> tuple[Job, list[Diagnostic]]:
    """The job with the plan among its objects, for its own master to read."""
    problems = [
        _refused(plan, pod.origin.locate(), "DLRover's master passes over it", "remove it")
        for pod in (*plan.create, *plan.remove)
    ]
    return (job if problems else structs.replace(job, custom=(*job.custom, plan.custom))), problems


def _free_ranks(members: Members) -> Iterator[int]:
    used = {member.place for member in members.values()}
    return (rank for rank in itertools.count() if rank not in used)


def _index(role: Role, members: Members, pod: Planned) -> int | None:
    """The number of a replica that a plan names; None if it is none of the role's."""
    if pod.role not in (None, role.name) or pod.index is None or pod.index not in members:
        return None
    right = pod.name is None or pod.name == _title(role, members[pod.index])
    return pod.index if right else None


def _title(role: Role, member: Member) -> str:
    """A replica's Pod, as it is called where a run gives no other name."""
    naming = structs.replace(role.naming, pod_stem=None)
    return structs.replace(role, naming=naming).pod_name(member)


# What cannot be -----------------------------------------------------------------------------------


def _no_role(role: Role, name: str, plan: ScalePlan, place: Location) -> Diagnostic:
    reason = f"of '{name}' the job has none that can be scaled"
    return _refused(plan, place, reason, f"name the type {role.name}, or remove it")


def _unknown(role: Role, members: Members, pod: Planned, plan: ScalePlan) -> Diagnostic:
    names = ", ".join(_title(role, members[index]) for index in sorted(members))
    reason = f"'{pod.name or f'{pod.role} {pod.index}'}' is none of the job's Pods then"
    return _refused(plan, pod.origin.locate(), reason, f"name one of {names}")


def _refused(plan: ScalePlan, place: Location, reason: str, advice: str) -> Diagnostic:
    return diagnose(codes.PLAN_NOT_POSSIBLE, place, intent=plan.title, reason=reason, advice=advice)
