"""A ScalePlan over the replicas of a role: which come, which go, which move.

reference/dlrover.md 3.6 and 5: who comes has the next number and the first rank that is free, who
moves keeps its rank. Apart from the fold, which orders intents, because a plan says more at once
than the others do; it counts as a whole or not at all. Where a master of the job's own reads plans,
they are not folded but checked and kept.
"""

import itertools
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.model import Job, Labels, Member, Planned, Role, ScalePlan

Members = Mapping[int, Member]


class Planning(Struct, frozen=True):
    """A role after a plan.

    Args:
        members: Its replicas by index.
        sizes: What the main containers of replicas to come are to have.
        diagnostics: What is wrong; with any, nothing has changed.
    """

    members: Members
    sizes: Labels
    diagnostics: tuple[Diagnostic, ...] = ()


def carried_out(role: Role, members: Members, sizes: Labels, plan: ScalePlan) -> Planning:
    """The replicas of a role after a plan.

    Args:
        role: The role as the job declares it.
        members: Its replicas before, by index.
        sizes: What earlier plans said of replicas to come.
        plan: The plan, which may be about several roles.
    """
    problems = [*_of_other_roles(role, plan)]
    given = plan.resources.get(role.name, {})
    then, sizes_then = dict(members), {**sizes, **given}
    for pod in plan.remove:
        problems += _removed(role, then, pod, plan)
    for pod in plan.move:
        problems += _moved(role, then, pod, plan, sizes_then)
    for pod in plan.create:
        problems += _created(role, then, pod, plan, sizes_then)
    if (count := plan.replicas.get(role.name)) is not None and not problems:
        _resized(then, count, sizes_then)
    problems += _beyond(role, then, members, plan)
    if problems:
        return Planning(members, sizes, tuple(problems))
    return Planning(then, sizes_then)


def joining(role: Role, members: Members, count: int, labels: Labels) -> Iterator[Member]:
    """The replicas that come: of the numbers after the last, and the first ranks that are free.

    Args:
        role: The role; ranks are its replicas' numbers unless it tells them apart.
        members: Its replicas.
        count: How many come.
        labels: Labels of their Pods.
    """
    first = _next_index(members)
    if role.labels.rank is None:
        yield from (Member(index, labels) for index in range(first, first + count))
        return
    for index, rank in zip(range(first, first + count), _free_ranks(members), strict=False):
        yield Member(index, labels, rank=None if rank == index else rank)


def kept(job: Job, plan: ScalePlan) -> tuple[Job, list[Diagnostic]]:
    """The job with the plan among its objects, for its own master to read."""
    problems = [
        _refused(plan, pod.origin.locate(), "DLRover's master passes over it", "remove it")
        for pod in (*plan.create, *plan.remove)
    ]
    if problems:
        return job, problems
    custom = plan.custom
    return structs.replace(job, custom=(*job.custom, custom)), []


def _next_index(members: Members) -> int:
    return max(members, default=-1) + 1


def _free_ranks(members: Members) -> Iterator[int]:
    taken = {member.place for member in members.values()}
    return (rank for rank in itertools.count() if rank not in taken)


def _free_rank(members: Members) -> int:
    return next(_free_ranks(members))


def _joined(members: dict[int, Member], rank: int, sizes: Labels, index: int | None = None) -> None:
    number = _next_index(members) if index is None else index
    members[number] = Member(number, rank=None if rank == number else rank, resources=sizes)


def _resized(members: dict[int, Member], count: int, sizes: Labels) -> None:
    for index in sorted(members, reverse=True)[: max(len(members) - count, 0)]:
        members.pop(index)
    first, more = _next_index(members), max(count - len(members), 0)
    numbers = range(first, first + more)
    for number, rank in zip(numbers, _free_ranks(members), strict=False):
        _joined(members, rank, sizes, number)


def _removed(
    role: Role, members: dict[int, Member], pod: Planned, plan: ScalePlan
) -> Iterator[Diagnostic]:
    index = _index(role, members, pod)
    if index is None:
        yield _unknown(role, members, pod, plan)
    else:
        members.pop(index)


def _moved(
    role: Role, members: dict[int, Member], pod: Planned, plan: ScalePlan, sizes: Labels
) -> Iterator[Diagnostic]:
    index = _index(role, members, pod)
    if index is None:
        yield _unknown(role, members, pod, plan)
        return
    number = _next_index(members)
    old = members.pop(index)
    _joined(members, old.place or 0, {**sizes, **pod.resources}, number)


def _created(
    role: Role, members: dict[int, Member], pod: Planned, plan: ScalePlan, sizes: Labels
) -> Iterator[Diagnostic]:
    if pod.role not in (None, role.name):
        yield _no_role(role, pod.role or "", plan, pod.origin.locate())
        return
    rank = _free_rank(members) if pod.rank is None else pod.rank
    taken = next((member for member in members.values() if member.place == rank), None)
    if pod.index in members or taken:
        holder = taken or members[pod.index or 0]
        reason = f"{_title(role, holder)} has its number or its rank already"
        advice = "leave id and rankIndex out, and both are chosen"
        yield _refused(plan, pod.origin.locate(), reason, advice)
        return
    _joined(members, rank, {**sizes, **pod.resources}, pod.index)


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


def _of_other_roles(role: Role, plan: ScalePlan) -> Iterator[Diagnostic]:
    for name in plan.resources:
        if name != role.name:
            place = plan.origin.locate("spec", "replicaResourceSpecs", name, key=True)
            yield _no_role(role, name, plan, place)


def _no_role(role: Role, name: str, plan: ScalePlan, place: Location) -> Diagnostic:
    reason = f"of '{name}' the job has none that can be scaled"
    return _refused(plan, place, reason, f"name the type {role.name}, or remove it")


def _unknown(role: Role, members: Members, pod: Planned, plan: ScalePlan) -> Diagnostic:
    called = pod.name or f"{pod.role} {pod.index}"
    names = ", ".join(_title(role, members[index]) for index in sorted(members))
    reason = f"'{called}' is none of the job's Pods then"
    return _refused(plan, pod.origin.locate(), reason, f"name one of {names}")


def _beyond(role: Role, then: Members, before: Members, plan: ScalePlan) -> Iterator[Diagnostic]:
    """Bounds that a plan breaks: one that joins beyond them makes all others start again."""
    bounds, count = role.bounds, len(then)
    if bounds is None or count == len(before):
        return
    path = ("spec", "replicaResourceSpecs", role.name, "replicas")
    least, most = bounds.names
    if bounds.maximum is not None and count > bounds.maximum:
        facts = {"replicas": count, "limit": most, "maximum": bounds.maximum}
        yield diagnose(codes.ABOVE_MAX, plan.origin.locate(*path), intent=plan.title, **facts)
    elif count < bounds.minimum:
        floor = f"{least} is {bounds.minimum}"
        advice = f"leave {bounds.minimum} at least, or lower {least}"
        facts = {"replicas": count, "floor": floor, "advice": advice}
        yield diagnose(codes.BELOW_MIN, plan.origin.locate(*path), intent=plan.title, **facts)


def _refused(plan: ScalePlan, place: Location, reason: str, advice: str) -> Diagnostic:
    return diagnose(codes.PLAN_NOT_POSSIBLE, place, intent=plan.title, reason=reason, advice=advice)
