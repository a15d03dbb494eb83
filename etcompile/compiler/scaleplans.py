"""A ScalePlan over the replicas of a role: which come, which go, which move.

reference/dlrover.md 3.6 and 5: who comes has the next number and the first rank that is free, who
moves keeps its rank. A plan says several things at once; it counts as a whole or not at all. Where
a master of the job's own reads plans, they are not folded but checked and passed on to it.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.model import Bounds, Intent, Job, Labels, Member, Planned, Role, ScalePlan

Members = Mapping[int, Member]


def apply_plan(
    role: Role, members: dict[int, Member], sizes: Labels, plan: ScalePlan
) -> tuple[dict[int, Member], Labels, list[Diagnostic]]:
    """The replicas of a role after a plan.

    Args:
        sizes: What earlier plans said that main containers of replicas to come are to have.
        plan: What comes, goes and moves; it may name other roles, too.

    Returns:
        The replicas, the sizes and what is wrong; with any of that, nothing has changed.
    """
    problems = [
        _no_role(
            role, name, plan, plan.origin.locate("spec", "replicaResourceSpecs", name, key=True)
        )
        for name in plan.resources
        if name != role.name
    ]
    after = dict(members)
    new_sizes = {**sizes, **plan.resources.get(role.name, {})}

    def join(index: int, rank: int, size: Labels) -> None:
        after[index] = Member(index, rank=None if rank == index else rank, resources=size)

    for pod in plan.remove:
        index = _index(role, after, pod)
        if index is None:
            problems.append(_unknown(role, after, pod, plan))
        else:
            after.pop(index)
    for pod in plan.move:
        index = _index(role, after, pod)
        if index is None:
            problems.append(_unknown(role, after, pod, plan))
        else:
            number = next_index(after)
            join(number, after.pop(index).place or 0, {**new_sizes, **pod.resources})
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
        number = next_index(after) if pod.index is None else pod.index
        join(number, rank, {**new_sizes, **pod.resources})
    count = plan.replicas.get(role.name)
    if count is not None and not problems:
        for index in sorted(after, reverse=True)[: max(len(after) - count, 0)]:
            after.pop(index)
        first, more = next_index(after), max(count - len(after), 0)
        for number, rank in zip(range(first, first + more), _free_ranks(after), strict=False):
            join(number, rank, new_sizes)
    if len(after) != len(members):
        # One that joins beyond the bounds makes all others start again.
        path = ("spec", "replicaResourceSpecs", role.name, "replicas")
        problems += beyond_bounds(role, len(after), plan, partial(plan.origin.locate, *path))
    return (members, sizes, problems) if problems else (after, new_sizes, [])


def joining(role: Role, members: Members, count: int, labels: Labels) -> Iterator[Member]:
    """The replicas that come: of the numbers after the last, and the first ranks that are free.

    Args:
        role: The role; ranks are its replicas' numbers unless it tells them apart.
    """
    first = next_index(members)
    if role.labels.rank is None:
        yield from (Member(index, labels) for index in range(first, first + count))
        return
    for index, rank in zip(range(first, first + count), _free_ranks(members), strict=False):
        yield Member(index, labels, rank=None if rank == index else rank)


def beyond_bounds(
    role: Role, count: int, intent: Intent, place: Callable[[], Location]
) -> Iterator[Diagnostic]:
    """An error if an intent leaves a role more or fewer replicas than it may have."""
    bounds = role.bounds or Bounds()
    least, most = bounds.names
    facts = {"intent": intent.title, "replicas": max(count, 0) + bounds.others}
    if bounds.maximum is not None and count > bounds.maximum:
        maximum = bounds.maximum + bounds.others
        yield diagnose(codes.ABOVE_MAX, place(), **facts, limit=most, maximum=maximum)
    elif count < bounds.minimum:
        lowest = bounds.minimum + bounds.others
        floor, advice = f"{least} is {lowest}", f"leave {lowest} at least, or lower {least}"
        if lowest <= 1:
            floor, advice = "at least one must stay", "delete the job instead, or remove fewer"
        yield diagnose(codes.BELOW_MIN, place(), **facts, floor=floor, advice=advice)


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
