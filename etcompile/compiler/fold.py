"""Jobs and their scale intents to jobs with the replicas that are left when all are done.

Each ScaleOut, ScaleIn and ScalePlan is a file in Git. So the order in which they count follows from
the files (`ordered`), and each must be possible at its turn. The rules are those of
reference/et-operator.md 5.2 and 5.3: a ScaleOut numbers its workers on from the highest index there
is, so that an index freed by a ScaleIn is used again; a ScaleIn by count takes the highest indexes,
one by names exactly those. What et-operator gets wrong is refused: unknown names (defect 1), bounds
(defect 5), counts of workers that are not there (defect 22).
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct, structs

from etcompile import backend
from etcompile.check.job_rules import check_longest_name
from etcompile.compiler import scaleplans
from etcompile.compiler.run import run_of
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.model import (
    MOST_PODS,
    Intent,
    Job,
    Labels,
    Member,
    Role,
    ScaleIn,
    ScaleOut,
    ScalePlan,
    Settings,
)

_LABEL_LIMIT = 63
"""Characters of a label's value (Kubernetes' own limit)."""


class FoldedJob(Struct, frozen=True):
    """A job after its intents.

    Args:
        declared: The job as its document describes it.
        job: The job as it is compiled; a refused intent left no trace in it.
        diagnostics: What is wrong with its intents, or with the job after them.
    """

    declared: Job
    job: Job
    diagnostics: tuple[Diagnostic, ...]


def fold(
    jobs: Sequence[Job], intents: Iterable[Intent], settings: Settings
) -> tuple[list[FoldedJob], list[Diagnostic]]:
    """All jobs after the intents that select them, and an error for each intent without a job."""
    pairs, problems = by_job(jobs, intents)
    return [fold_job(job, its_intents, settings) for job, its_intents in pairs], problems


def fold_job(job: Job, intents: Sequence[Intent], settings: Settings) -> FoldedJob:
    """A job after the intents that select it, in the order of the input."""
    # Where there are runs, workers may be named as the Pods of a run are, whichever run it was.
    run_names_count = settings.run is not None or job.run.run_id is not None
    folded, highest, problems = _with_intents(job, intents, run_names_count=run_names_count)
    problems += check_longest_name(run_of(folded, settings).job, highest)
    if job.namespace is None and (reason := backend.namespace_reason(folded, settings)):
        place = job.origin.locate("metadata", "name")
        problems.append(diagnose(codes.ASSUMED_NAMESPACE, place, job=job.name, reason=reason))
        folded = structs.replace(folded, namespace="default")
    return FoldedJob(job, folded, tuple(problems))


def by_job(
    jobs: Sequence[Job], intents: Iterable[Intent]
) -> tuple[list[tuple[Job, list[Intent]]], list[Diagnostic]]:
    """Each job with the intents that select it by kind and name, in its own namespace.

    A document without a namespace counts as one in `default`, as with kubectl without a context:
    upstream's own examples name it in the job and leave it out in the scalers.

    Returns:
        The pairs, in the order of the input, and an error for each intent that selects no job.
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
            # et-operator's own: it knows TrainingJobs only.
            advice += f", with a {intent.kind} of etcompile.dev/v1alpha1"
    elif close := probably(intent.job, [job.name for job in possible]):
        advice = f"did you mean '{close}'?"
    else:
        advice = "render the job and its intents together"
    return diagnose(codes.NO_SUCH_JOB, place, intent=intent.title, job=intent.job, advice=advice)


def ordered(intents: Iterable[Intent]) -> tuple[list[Intent], list[Diagnostic]]:
    """The intents of one job in the order in which they count.

    A cluster executes intents as they come, and et-operator the newest first (reference defect
    24). Files have no time. So intents that a cluster has already received count first, by their
    creationTimestamp; then those numbered by the annotation `etcompile.dev/sequence`; then all
    others, in the order of the input files and of the documents in them.

    Returns:
        The intents, and an error for each sequence number that is used twice.
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


class _Workers(Struct, frozen=True):
    """The replicas of a role while its intents are folded."""

    role: Role
    members: dict[int, Member]
    removed: dict[str, str]
    """Host name to the title of the intent that removed it."""
    run_names: re.Pattern[str] | None
    """How the Pods of a run are named, if their names count."""

    def host_of(self, member: Member) -> str:
        """A replica as people call it: by its number, also where its Service is its rank's."""
        return self.role.host_name(structs.replace(member, rank=None))

    def host_of_pod(self, pod: str) -> str:
        """The host of a Pod, whichever run the Pod belongs to."""
        match = self.run_names.fullmatch(pod) if self.run_names else None
        return f"{self.role.naming.stem}-{match['index']}" if match else pod


def _with_intents(
    job: Job, intents: Sequence[Intent], *, run_names_count: bool
) -> tuple[Job, int, list[Diagnostic]]:
    """The job, the highest worker index that was ever given out (-1 if none), and the errors."""
    in_order, problems = ordered(intents)
    role = job.scaled_role
    if role is None:
        problems = []
        for intent in in_order if job.keeps_plans else intents:
            if job.keeps_plans and isinstance(intent, ScalePlan):
                job, refused = scaleplans.pass_on(job, intent)
                problems += refused
            else:
                problems.append(_not_scalable(job, intent))
        return job, -1, problems
    run_names = None
    if run_names_count:
        own = re.escape(role.naming.stem.removeprefix(f"{job.name}-"))
        pattern = rf"{re.escape(job.name)}-[-a-z0-9]+-{own}-(?P<index>\d+)"
        run_names = re.compile(pattern, re.ASCII)
    standing = {member.index: member for member in role.members if member.index is not None}
    workers = _Workers(role, standing, {}, run_names)
    highest = max(workers.members, default=-1)
    sizes: Labels = {}
    for intent in in_order:
        if isinstance(intent, ScaleOut):
            problems += _scale_out(workers, intent)
        elif isinstance(intent, ScaleIn):
            problems += _scale_in(workers, intent)
        elif isinstance(intent, ScalePlan):
            members, sizes, refused = scaleplans.apply_plan(role, workers.members, sizes, intent)
            problems += refused
            workers = structs.replace(workers, members=members)
        highest = max((highest, *workers.members))
    members_left = tuple(workers.members[index] for index in sorted(workers.members))
    roles = (structs.replace(r, members=members_left) if r is role else r for r in job.roles)
    return structs.replace(job, roles=tuple(roles)), highest, problems


def _not_scalable(job: Job, intent: Intent) -> Diagnostic:
    problem = "is not elastic" + (f": {job.fixed}" if job.fixed else "")
    advice = (
        "make it elastic, if its kind allows that; "
        "or change its replicas in a new run (etcompile.dev/run)"
    )
    if job.role("worker") is None and job.fixed is None:
        problem, advice = "has no workers", "remove it"
    facts = {"intent": intent.title, "job": job.name, "problem": problem, "advice": advice}
    return diagnose(codes.NOT_SCALABLE, intent.origin.locate("spec", "selector", "name"), **facts)


def _scale_out(workers: _Workers, intent: ScaleOut) -> list[Diagnostic]:
    place = partial(intent.origin.locate, "spec", "toAdd", "count")
    replicas = len(workers.members) + intent.count
    if replicas > MOST_PODS:
        what = f"the number of workers after {intent.title}"
        return [diagnose(codes.TOO_MANY_PODS, place(), what=what, count=replicas, limit=MOST_PODS)]
    if problems := [*scaleplans.beyond_bounds(workers.role, replicas, intent, place)]:
        return problems
    first = scaleplans.next_index(workers.members)
    # A generated name is only known to a cluster; the first index makes it unique here.
    name = f"{intent.name}{first}" if intent.generated else intent.name
    labels = {intent.label: name} if intent.label else {}
    if labels and len(name) > _LABEL_LIMIT:
        where = intent.origin.locate("metadata", "generateName" if intent.generated else "name")
        return [diagnose(codes.INTENT_NAME, where, intent=intent.kind, length=len(name))]
    for member in [*scaleplans.joining(workers.role, workers.members, intent.count, labels)]:
        workers.members[member.index or 0] = member
        workers.removed.pop(workers.host_of(member), None)
    return []


def _scale_in(workers: _Workers, intent: ScaleIn) -> list[Diagnostic]:
    if intent.pods:
        chosen, problems = _named(workers, intent)
        count = len(chosen)
        place = partial(intent.origin.locate, "spec", "toDelete", "podNames", key=True)
    else:
        count = intent.count or 0
        chosen, problems = sorted(workers.members, reverse=True)[:count], []
        place = partial(intent.origin.locate, "spec", "toDelete", "count")
    problems += _anchored(workers, intent, chosen)
    if not problems:
        left = len(workers.members) - count
        problems += scaleplans.beyond_bounds(workers.role, left, intent, place)
    if problems:
        return problems
    for index in chosen:
        workers.removed[workers.host_of(workers.members.pop(index))] = intent.title
    return []


def _named(workers: _Workers, intent: ScaleIn) -> tuple[list[int], list[Diagnostic]]:
    """The workers that an intent names, each once, and an error for each that is not there."""
    index_of = {workers.host_of(member): index for index, member in workers.members.items()}
    chosen: dict[int, None] = {}
    problems = []
    for pod in intent.pods:
        # A worker may be named twice: as a host, and as a Pod of a run.
        host = workers.host_of_pod(pod)
        if host in index_of:
            chosen[index_of[host]] = None
            continue
        before = workers.removed.get(host)
        facts = {
            "intent": intent.title,
            "pod": pod,
            "problem": f"{before} has removed already" if before else "is no worker of the job",
            "workers": _shortened(sorted(index_of, key=lambda name: index_of[name])),
        }
        problems.append(diagnose(codes.NO_SUCH_WORKER, intent.pod_origins[pod].locate(), **facts))
    return [*chosen], problems


def _anchored(workers: _Workers, intent: ScaleIn, chosen: Sequence[int]) -> list[Diagnostic]:
    """An error for each worker that must stay although it is named, or counted."""
    if workers.role.anchored is None:
        return []
    anchored, reason = workers.role.anchored
    chosen = [index for index in chosen if index < anchored]
    if not chosen:
        return []
    free = [index for index in sorted(workers.members) if index >= anchored]
    minimum = workers.role.bounds.minimum if workers.role.bounds else 1
    most = min(len(free), len(workers.members) - minimum)
    if most < 1:
        advice = "no other worker can go either: delete the job instead"
    elif not intent.pods:
        advice = f"remove at most {most}"
    else:
        names = _shortened([workers.host_of(workers.members[index]) for index in free])
        advice = f"name at most {most} of the others: {names}"
    origins = {workers.host_of_pod(pod): origin for pod, origin in intent.pod_origins.items()}
    problems = []
    for index in chosen:
        pod = workers.host_of(workers.members[index])
        if origin := origins.get(pod):
            place = origin.locate()
        else:
            field = "podNames" if intent.pods else "count"
            place = intent.origin.locate("spec", "toDelete", field)
        facts = {"intent": intent.title, "pod": pod, "reason": reason, "advice": advice}
        problems.append(diagnose(codes.ANCHORED_WORKER, place, **facts))
    return problems


def _shortened(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 8 else [*names[:4], "...", *names[-3:]])
