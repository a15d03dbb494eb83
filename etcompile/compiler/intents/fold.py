"""One job and its intents, in order, to the job with the workers that are left.

The rules are those of reference/et-operator.md 5.2 and 5.3: a ScaleOut numbers its workers on
from the highest index there is, so that an index freed by a ScaleIn is used again; a ScaleIn
by count takes the highest indexes, one by names exactly those. What et-operator gets wrong is
refused: unknown names (defect 1), bounds (defect 5), counts of workers that are not there
(defect 22).
"""

import re
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, structs

from etcompile.compiler.intents import plans
from etcompile.compiler.intents.order import ordered
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import (
    MOST_PODS,
    Bounds,
    Intent,
    Job,
    Labels,
    Member,
    Role,
    ScaleIn,
    ScaleOut,
    ScalePlan,
)

_LABEL_LIMIT = 63
"""Characters of a label's value (Kubernetes' own limit)."""


class Folded(Struct, frozen=True):
    """A job after its intents.

    Args:
        job: The job with its final workers; a refused intent left no trace in it.
        highest_index: The highest worker index that was ever given out, -1 if none.
        diagnostics: An error for each refused intent.
    """

    job: Job
    highest_index: int
    diagnostics: tuple[Diagnostic, ...]


class _State(Struct, frozen=True):
    role: Role
    members: dict[int, Member]
    removed: dict[str, str]
    """Host name to the title of the intent that removed it."""
    run_names: re.Pattern[str] | None
    """How the Pods of a run are named, if their names count."""


def fold(job: Job, intents: Sequence[Intent], *, any_run: bool = False) -> Folded:
    """The job after all its intents, and what was wrong with them.

    Args:
        job: The job as its document describes it.
        intents: The intents that select it, in the order of the input.
        any_run: Workers may be named as the Pods of a run are, whichever run it was; so may those
            of a job that asks for a run itself.

    Returns:
        The job with the workers that are left, and the errors.
    """
    role = job.scaled_role
    if role is None:
        return _unfolded(job, intents)
    in_order, problems = ordered(intents)
    standing = {m.index: m for m in role.members if m.index is not None}
    runs = _run_names(job, role) if any_run or job.run.run_id else None
    state = _State(role, standing, {}, runs)
    highest = max(state.members, default=-1)
    sizes: Labels = {}
    for intent in in_order:
        if isinstance(intent, ScaleOut):
            problems += _scale_out(state, intent)
        elif isinstance(intent, ScaleIn):
            problems += _scale_in(state, intent)
        elif isinstance(intent, ScalePlan):
            planning = plans.carried_out(role, state.members, sizes, intent)
            problems += planning.diagnostics
            state, sizes = structs.replace(state, members=dict(planning.members)), planning.sizes
        highest = max((highest, *state.members))
    members = tuple(state.members[index] for index in sorted(state.members))
    roles = tuple(structs.replace(r, members=members) if r is role else r for r in job.roles)
    return Folded(structs.replace(job, roles=roles), highest, tuple(problems))


def _unfolded(job: Job, intents: Sequence[Intent]) -> Folded:
    """A job without a role to scale; its own master may still read plans."""
    problems = []
    for intent in ordered(intents)[0] if job.keeps_plans else intents:
        if job.keeps_plans and isinstance(intent, ScalePlan):
            job, told = plans.kept(job, intent)
            problems += told
        else:
            problems.append(_not_scalable(job, intent))
    return Folded(job, -1, tuple(problems))


def _scale_out(state: _State, intent: ScaleOut) -> list[Diagnostic]:
    replicas = len(state.members) + intent.count
    if replicas > MOST_PODS:
        what = f"the number of workers after {intent.title}"
        place = intent.origin.locate("spec", "toAdd", "count")
        return [diagnose(codes.TOO_MANY_PODS, place, what=what, count=replicas, limit=MOST_PODS)]
    maximum = _bounds(state).maximum
    if maximum is not None and replicas > maximum:
        place = intent.origin.locate("spec", "toAdd", "count")
        limit = _bounds(state).names[1]
        beside = _bounds(state).beside
        facts = {"intent": intent.title, "replicas": replicas + beside, "maximum": maximum + beside}
        return [diagnose(codes.ABOVE_MAX, place, **facts, limit=limit)]
    first = max(state.members, default=-1) + 1
    # A generated name is only known to a cluster; the first index keeps it unique here.
    name = f"{intent.name}{first}" if intent.generated else intent.name
    labels = {intent.label: name} if intent.label else {}
    if labels and len(name) > _LABEL_LIMIT:
        place = intent.origin.locate("metadata", "generateName" if intent.generated else "name")
        return [diagnose(codes.INTENT_NAME, place, intent=intent.kind, length=len(name))]
    for member in [*plans.joining(state.role, state.members, intent.count, labels)]:
        state.members[member.index or 0] = member
        state.removed.pop(_called(state, member), None)
    return []


def _scale_in(state: _State, intent: ScaleIn) -> list[Diagnostic]:
    if intent.pods:
        chosen, problems = _named(state, intent)
        count = len(chosen)
        place = partial(intent.origin.locate, "spec", "toDelete", "podNames", key=True)
    else:
        count = intent.count or 0
        chosen, problems = sorted(state.members, reverse=True)[:count], []
        place = partial(intent.origin.locate, "spec", "toDelete", "count")
    problems += _anchored(state, intent, chosen)
    left, minimum = len(state.members) - count, _bounds(state).minimum
    if not problems and left < minimum:
        least = _bounds(state).names[0]
        beside = _bounds(state).beside
        floor = (
            f"{least} is {minimum + beside}" if minimum + beside > 1 else "at least one must stay"
        )
        advice = (
            f"remove at most {max(len(state.members) - minimum, 0)}, or lower {least}"
            if minimum + beside > 1
            else "delete the job instead, or remove fewer"
        )
        facts = {"intent": intent.title, "replicas": max(left, 0) + beside, "floor": floor}
        problems = [diagnose(codes.BELOW_MIN, place(), **facts, advice=advice)]
    if problems:
        return problems
    for index in chosen:
        state.removed[_called(state, state.members.pop(index))] = intent.title
    return []


def _named(state: _State, intent: ScaleIn) -> tuple[list[int], list[Diagnostic]]:
    names = {_called(state, member): index for index, member in state.members.items()}
    workers = _shortened([name for name, _ in sorted(names.items(), key=lambda n: n[1])])
    problems = []
    hosts = [(pod, _host(state, pod)) for pod in intent.pods]
    for pod, host in hosts:
        if host in names:
            continue
        before = state.removed.get(host)
        facts = {
            "intent": intent.title,
            "pod": pod,
            "problem": f"{before} has removed already" if before else "is no worker of the job",
            "workers": workers,
        }
        problems.append(diagnose(codes.NO_SUCH_WORKER, intent.pod_origins[pod].locate(), **facts))
    # A worker may be named twice: as a host, and as a Pod of a run.
    return list(dict.fromkeys(names[host] for _, host in hosts if host in names)), problems


def _anchored(state: _State, intent: ScaleIn, chosen: Sequence[int]) -> list[Diagnostic]:
    """An error for each worker that must stay although it is named, or counted."""
    if state.role.anchored is None:
        return []
    count, reason = state.role.anchored
    named = {_host(state, pod): origin for pod, origin in intent.pod_origins.items()}
    problems = []
    for index in chosen:
        if index < count:
            pod = _called(state, state.members[index])
            field = "podNames" if intent.pods else "count"
            place = intent.origin.locate("spec", "toDelete", field)
            if origin := named.get(pod):
                place = origin.locate()
            advice = _movable(state, intent, count)
            facts = {"intent": intent.title, "pod": pod, "reason": reason, "advice": advice}
            problems.append(diagnose(codes.ANCHORED_WORKER, place, **facts))
    return problems


def _movable(state: _State, intent: ScaleIn, anchored: int) -> str:
    """What an intent that takes a worker which must stay can remove instead."""
    free = [index for index in sorted(state.members) if index >= anchored]
    most = min(len(free), len(state.members) - _bounds(state).minimum)
    if most < 1:
        return "no other worker can go either: delete the job instead"
    if not intent.pods:
        return f"remove at most {most}"
    names = _shortened([_called(state, state.members[index]) for index in free])
    return f"name at most {most} of the others: {names}"


def _run_names(job: Job, role: Role) -> re.Pattern[str]:
    own = re.escape(role.naming.stem.removeprefix(f"{job.name}-"))
    return re.compile(rf"{re.escape(job.name)}-[-a-z0-9]+-{own}-(?P<index>\d+)", re.ASCII)


def _host(state: _State, pod: str) -> str:
    """The host of a Pod, whichever run the Pod belongs to."""
    found = state.run_names.fullmatch(pod) if state.run_names else None
    return f"{state.role.naming.stem}-{found['index']}" if found else pod


def _called(state: _State, member: Member) -> str:
    """A replica as people call it: by its number, also where its Service is its rank's."""
    return state.role.host_name(structs.replace(member, rank=None))


def _bounds(state: _State) -> Bounds:
    return state.role.bounds or Bounds()


def _shortened(names: list[str]) -> str:
    shown = names if len(names) <= 8 else [*names[:4], "...", *names[-3:]]
    return ", ".join(shown)


def _not_scalable(job: Job, intent: Intent) -> Diagnostic:
    place = intent.origin.locate("spec", "selector", "name")
    facts = {"intent": intent.title, "job": job.name}
    if job.role("worker") is None and job.fixed is None:
        return diagnose(
            codes.NOT_SCALABLE, place, **facts, problem="has no workers", advice="remove it"
        )
    problem = "is not elastic" + (f": {job.fixed}" if job.fixed else "")
    anew = "change its replicas, in another run (etcompile.dev/run)"
    advice = f"make it elastic, if its kind can be; or {anew}"
    return diagnose(codes.NOT_SCALABLE, place, **facts, problem=problem, advice=advice)
