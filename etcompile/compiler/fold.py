"""Apply scale intents to jobs.

Each ScaleOut, ScaleIn and ScalePlan is a file in Git, so their order follows from the files
(`ordered`), and each must be possible at its turn. The rules are those of reference/et-operator.md
5.2 and 5.3: a ScaleOut numbers its workers from the highest existing index, so that an index freed
by a ScaleIn is used again; a ScaleIn by count removes the highest indexes, one by names exactly
those. Errors of et-operator are refused: unknown names (defect 1), bounds (defect 5), counts of
workers that do not exist (defect 22).
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, structs

from etcompile import backend
from etcompile.check.job_rules import check_longest_name
from etcompile.compiler.run_objects import run_of
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.model import (
    MOST_PODS,
    Bounds,
    Intent,
    Job,
    Labels,
    Member,
    Origin,
    Role,
    ScaleIn,
    ScaleOut,
    ScalePlan,
    Settings,
)

_LABEL_LIMIT = 63  # the most characters of a label's value in Kubernetes


class FoldedJob(Struct, frozen=True):
    """A job after its intents.

    Args:
        declared: The job of the document.
        job: The job that is compiled, without the effects of refused intents.
        diagnostics: Problems of its intents, and of the job after them.
    """

    declared: Job
    job: Job
    diagnostics: tuple[Diagnostic, ...]


def fold(
    jobs: Sequence[Job], intents: Iterable[Intent], settings: Settings
) -> tuple[list[FoldedJob], list[Diagnostic]]:
    pairs, problems = by_job(jobs, intents)
    return [fold_job(job, its_intents, settings) for job, its_intents in pairs], problems


def fold_job(job: Job, intents: Sequence[Intent], settings: Settings) -> FoldedJob:
    # If there are runs, an intent may name a worker as the Pod of any run.
    run_names_count = settings.run is not None or job.run.run_id is not None
    folded, highest, problems = _with_intents(job, intents, run_names_count=run_names_count)
    problems += check_longest_name(run_of(folded, settings), highest)
    if job.namespace is None and (reason := backend.namespace_reason(folded, settings)):
        place = job.origin.locate("metadata", "name")
        problems.append(diagnose(codes.ASSUMED_NAMESPACE, place, job=job.name, reason=reason))
        folded = structs.replace(folded, namespace="default")
    return FoldedJob(job, folded, tuple(problems))


def by_job(
    jobs: Sequence[Job], intents: Iterable[Intent]
) -> tuple[list[tuple[Job, list[Intent]]], list[Diagnostic]]:
    """Pair each job with the intents that select it by kind, name and namespace.

    A document without a namespace counts as one in `default`, as with kubectl without a context:
    upstream's examples name it in the job and leave it out in the scalers.
    """
    pairs: list[tuple[Job, list[Intent]]] = [(job, []) for job in jobs]
    by_name: dict[tuple[str, str], list[tuple[Job, list[Intent]]]] = {}
    for pair in pairs:
        job = pair[0]
        by_name.setdefault((job.namespace or "default", job.name), []).append(pair)
    problems: list[Diagnostic] = []
    for intent in intents:
        for job, its_intents in by_name.get((intent.namespace or "default", intent.job), ()):
            if _is_of_kind(job, intent):
                its_intents.append(intent)
                break
        else:
            problems.append(_no_such_job(intent, jobs))
    return pairs, problems


def _is_of_kind(job: Job, intent: Intent) -> bool:
    version, kind = intent.of
    return job.kind == kind and version in (None, job.api_version)


def _no_such_job(intent: Intent, jobs: Sequence[Job]) -> Diagnostic:
    place = intent.origin.locate("spec", "selector", "name")
    possible = [job for job in jobs if _is_of_kind(job, intent)]
    if elsewhere := [job.namespace for job in possible if job.name == intent.job]:
        advice = f"the job is in namespace '{elsewhere[0] or 'default'}': name it in both files"
    elif others := [job for job in jobs if job.name == intent.job]:
        advice = f"that is a {others[0].kind} of {others[0].api_version}: select it as one"
        if "kind" not in intent.origin.source.data["spec"].get("selector", {"kind": ""}):
            # An intent of et-operator, which selects TrainingJobs only.
            advice += f", with a {intent.kind} of etcompile.dev/v1alpha1"
    elif close := probably(intent.job, [job.name for job in possible]):
        advice = f"did you mean '{close}'?"
    else:
        advice = "render the job and its intents together"
    return diagnose(codes.NO_SUCH_JOB, place, intent=intent.title, job=intent.job, advice=advice)


def ordered(intents: Iterable[Intent]) -> tuple[list[Intent], list[Diagnostic]]:
    """Sort the intents of one job, which are in the order of `compiler.lower`.

    A cluster executes intents as they arrive, and et-operator the newest first (reference defect
    24). Files have no time. So intents that a cluster has already received come first, by their
    creationTimestamp; then those numbered by the annotation `etcompile.dev/sequence`; then all
    others. Intents that are equal in this are in the order of the files, not of the command line.
    """
    intents = list(intents)
    problems = []
    by_number: dict[int, Intent] = {}
    for intent in intents:
        if intent.sequence is None or intent.created is not None:
            continue
        first = by_number.setdefault(intent.sequence, intent)
        if first is not intent:
            place = intent.origin.locate("metadata", "annotations", "etcompile.dev/sequence")
            facts = {"intent": intent.title, "sequence": intent.sequence, "other": first.title}
            problems.append(diagnose(codes.SAME_SEQUENCE, place, **facts))

    def turn(intent: Intent) -> tuple[int, str, int]:
        if intent.created is not None:
            return (0, intent.created, 0)
        return (2, "", 0) if intent.sequence is None else (1, "", intent.sequence)

    # sorted() is stable: equal keys stay in the order of the files.
    return sorted(intents, key=turn), problems


# One job ------------------------------------------------------------------------------------------

Members = Mapping[int, Member]
_Outcome = tuple[Members, Callable[[], Location], list[Diagnostic]]
"""The replicas after an intent, the place of its count, and why it is refused."""


def _with_intents(
    job: Job, intents: Sequence[Intent], *, run_names_count: bool
) -> tuple[Job, int, list[Diagnostic]]:
    """Return the job, the highest worker index ever assigned (-1 if none), and problems."""
    in_order, problems = ordered(intents)
    role = job.scaled_role
    if role is None:
        return _with_plans(job, in_order)
    run_names = None
    if run_names_count:
        name = re.escape(role.naming.stem.removeprefix(f"{job.name}-"))
        pattern = rf"{re.escape(job.name)}-[-a-z0-9]+-{name}-(?P<index>\d+)"
        run_names = re.compile(pattern, re.ASCII)
    members: Members = {member.index: member for member in role.members if member.index is not None}
    highest = max(members, default=-1)
    removed_by: dict[str, str] = {}
    sizes: Labels = {}
    for intent in in_order:
        new_sizes = sizes
        match intent:
            case ScaleOut():
                after, place, refused = _scale_out(role, members, intent)
            case ScaleIn():
                after, place, refused = _scale_in(role, members, intent, removed_by, run_names)
            case ScalePlan():
                after, new_sizes, refused = _apply_plan(role, members, sizes, intent)
                path = ("spec", "replicaResourceSpecs", role.name, "replicas")
                place = partial(intent.origin.locate, *path)
        if not refused and len(after) != len(members):
            refused = [*_beyond_bounds(role, len(after), intent, place)]
        problems += refused
        if refused:
            continue
        removed_by |= {_host(role, members[n]): intent.title for n in members.keys() - after.keys()}
        for number in after.keys() - members.keys():
            removed_by.pop(_host(role, after[number]), None)
        members, sizes = after, new_sizes
        highest = max((highest, *members))
    left = tuple(members[index] for index in sorted(members))
    roles = (structs.replace(r, members=left) if r is role else r for r in job.roles)
    return structs.replace(job, roles=tuple(roles)), highest, problems


def _with_plans(job: Job, intents: Sequence[Intent]) -> tuple[Job, int, list[Diagnostic]]:
    """Pass ScalePlans to the master of a job without a scaled role, and refuse other intents."""
    problems: list[Diagnostic] = []
    for intent in intents:
        if not (job.keeps_plans and isinstance(intent, ScalePlan)):
            problem = "is not elastic" + (f": {job.fixed}" if job.fixed else "")
            advice = (
                "make it elastic, if its kind allows that; "
                "or change its replicas in a new run (etcompile.dev/run)"
            )
            if job.role("worker") is None and job.fixed is None:
                problem, advice = "has no workers", "remove it"
            facts = {"intent": intent.title, "job": job.name, "problem": problem, "advice": advice}
            place = intent.origin.locate("spec", "selector", "name")
            problems.append(diagnose(codes.NOT_SCALABLE, place, **facts))
        elif unread := [*intent.create, *intent.remove]:
            reason = "DLRover's master passes over it"
            places = [pod.origin.locate() for pod in unread]
            problems += [_refused(intent, place, reason, "remove it") for place in places]
        else:
            job = structs.replace(job, custom=(*job.custom, intent.custom))
    return job, -1, problems


def _host(role: Role, member: Member) -> str:
    """Return the name of a replica by its number, even if its Service is named for its rank."""
    return role.host_name(structs.replace(member, rank=None))


def _beyond_bounds(
    role: Role, count: int, intent: Intent, place: Callable[[], Location]
) -> Iterator[Diagnostic]:
    bounds = role.bounds or Bounds()
    least, most = bounds.names
    facts = {"intent": intent.title, "replicas": count + bounds.others}
    wider = f"{bounds.wider(count)} in the job"
    if bounds.maximum is not None and count > bounds.maximum:
        maximum = bounds.maximum + bounds.others
        yield diagnose(codes.ABOVE_MAX, place(), **facts, limit=most, maximum=maximum, wider=wider)
    elif count < bounds.minimum:
        lowest = bounds.minimum + bounds.others
        floor, advice = f"{least} is {lowest}", f"{wider}, or leave {lowest} at least"
        if lowest <= 1:
            floor, advice = "at least one must stay", "delete the job instead, or remove fewer"
        yield diagnose(codes.BELOW_MIN, place(), **facts, floor=floor, advice=advice)


def _scale_out(role: Role, members: Members, intent: ScaleOut) -> _Outcome:
    place = partial(intent.origin.locate, "spec", "toAdd", "count")
    replicas = len(members) + intent.count
    if replicas > MOST_PODS:
        what = f"the number of workers after {intent.title}"
        facts = {"what": what, "count": replicas, "limit": MOST_PODS}
        return members, place, [diagnose(codes.TOO_MANY_PODS, place(), **facts)]
    # Only a cluster generates the name; the first index makes it unique here.
    first = _next_index(members)
    name = f"{intent.name}{first}" if intent.generated else intent.name
    labels = {intent.label: name} if intent.label else {}
    problems = []
    if labels and len(name) > _LABEL_LIMIT:
        where = intent.origin.locate("metadata", "generateName" if intent.generated else "name")
        problems = [diagnose(codes.INTENT_NAME, where, intent=intent.kind, length=len(name))]
    return _joined(role, members, intent.count, labels, {}), place, problems


def _scale_in(
    role: Role,
    members: Members,
    intent: ScaleIn,
    removed_by: Mapping[str, str],
    run_names: re.Pattern[str] | None,
) -> _Outcome:
    problems: list[Diagnostic] = []
    if intent.pods:
        index_of = {_host(role, member): index for index, member in members.items()}
        place = partial(intent.origin.locate, "spec", "toDelete", "podNames", key=True)
        named: dict[int, Origin] = {}
        for pod in intent.pods:
            match = run_names.fullmatch(pod) if run_names else None
            host = f"{role.naming.stem}-{match['index']}" if match else pod
            if host in index_of:
                # An intent may name a worker both as a host and as a Pod of a run.
                named[index_of[host]] = intent.pod_origins[pod]
                continue
            before = removed_by.get(host)
            facts = {
                "intent": intent.title,
                "pod": pod,
                "problem": f"{before} has removed already" if before else "is no worker of the job",
                "workers": _shortened(sorted(index_of, key=lambda name: index_of[name])),
            }
            where = intent.pod_origins[pod].locate()
            problems.append(diagnose(codes.NO_SUCH_WORKER, where, **facts))
    else:
        place = partial(intent.origin.locate, "spec", "toDelete", "count")
        origin = intent.origin.at("spec", "toDelete", "count")
        named = dict.fromkeys(sorted(members, reverse=True)[: intent.count or 0], origin)
    problems += _anchored(role, members, intent, named)
    left = {index: member for index, member in members.items() if index not in named}
    return left, place, problems


def _anchored(
    role: Role, members: Members, intent: ScaleIn, named: Mapping[int, Origin]
) -> list[Diagnostic]:
    anchored, reason = role.anchored or (0, "")
    chosen = [index for index in named if index < anchored]
    if not chosen:
        return []
    free = [index for index in sorted(members) if index >= anchored]
    most = min(len(free), len(members) - (role.bounds.minimum if role.bounds else 1))
    if most < 1:
        advice = "no other worker can go either: delete the job instead"
    elif not intent.pods:
        advice = f"remove at most {most}"
    else:
        names = _shortened([_host(role, members[index]) for index in free])
        advice = f"name at most {most} of the others: {names}"
    facts = {"intent": intent.title, "reason": reason, "advice": advice}
    return [
        diagnose(
            codes.ANCHORED_WORKER, named[index].locate(), **facts, pod=_host(role, members[index])
        )
        for index in chosen
    ]


def _shortened(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 8 else [*names[:4], "...", *names[-3:]])


# ScalePlans ---------------------------------------------------------------------------------------
#
# A new replica has the next number and the first free rank; one that moves keeps its rank
# (reference/dlrover.md 3.6 and 5). A plan applies as a whole or not at all.


def _apply_plan(
    role: Role, members: Members, sizes: Labels, plan: ScalePlan
) -> tuple[Members, Labels, list[Diagnostic]]:
    """Apply a ScalePlan to a role, and return its replicas and the sizes of new ones."""
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
        index = pod.index if pod.role in (None, role.name) else None
        if index not in after or pod.name not in (None, _title(role, after[index])):
            names = ", ".join(_title(role, after[known]) for known in sorted(after))
            reason = f"'{pod.name or f'{pod.role} {pod.index}'}' is none of the job's Pods then"
            problems.append(_refused(plan, pod.origin.locate(), reason, f"name one of {names}"))
            continue
        number = _next_index(after)
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
        join(_next_index(after) if pod.index is None else pod.index, rank, pod.resources)
    count = plan.replicas.get(role.name)
    if count is None or problems:
        return after, sizes, problems
    for index in sorted(after, reverse=True)[: max(len(after) - count, 0)]:
        after.pop(index)
    return _joined(role, after, max(count - len(after), 0), {}, sizes), sizes, []


def _joined(role: Role, members: Members, count: int, labels: Labels, resources: Labels) -> Members:
    """Add replicas with the next numbers, and the first free ranks if ranks are separate."""
    after, first = dict(members), _next_index(members)
    numbers = range(first, first + count)
    ranks = numbers if role.labels.rank is None else _free_ranks(members)
    for index, rank in zip(numbers, ranks, strict=False):
        place = None if rank == index else rank
        after[index] = Member(index, labels, rank=place, resources=resources)
    return after


def _next_index(members: Members) -> int:
    return max(members, default=-1) + 1


def _free_ranks(members: Members) -> Iterator[int]:
    used = {member.place for member in members.values()}
    return (rank for rank in itertools.count() if rank not in used)


def _title(role: Role, member: Member) -> str:
    """Return the name of a replica's Pod outside of runs."""
    naming = structs.replace(role.naming, pod_stem=None)
    return structs.replace(role, naming=naming).pod_name(member)


def _no_role(role: Role, name: str, plan: ScalePlan, place: Location) -> Diagnostic:
    reason = f"of '{name}' the job has none that can be scaled"
    return _refused(plan, place, reason, f"name the type {role.name}, or remove it")


def _refused(plan: ScalePlan, place: Location, reason: str, advice: str) -> Diagnostic:
    return diagnose(codes.PLAN_NOT_POSSIBLE, place, intent=plan.title, reason=reason, advice=advice)
