"""Which intent belongs to which job.

Apart from the fold, because a wrong selector is the one mistake that can be seen without
looking at a single worker.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.model import Intent, Job


class Selected(Struct, frozen=True):
    """Jobs with their intents.

    Args:
        pairs: Each job with the intents that select it, in the order of the input.
        diagnostics: An error for each intent that selects no job.
    """

    pairs: tuple[tuple[Job, tuple[Intent, ...]], ...]
    diagnostics: tuple[Diagnostic, ...]


def by_job(jobs: Sequence[Job], intents: Iterable[Intent]) -> Selected:
    """Brings each intent to the job that it selects by kind and name, in its own namespace.

    A document without a namespace is taken to be in `default`, as by kubectl without a
    context: upstream's own examples name it in the job and leave it out in the scalers.
    """
    named: dict[tuple[str, str], list[int]] = {}
    for place, job in enumerate(jobs):
        named.setdefault((job.namespace or "default", job.name), []).append(place)
    found: list[list[Intent]] = [[] for _ in jobs]
    problems: list[Diagnostic] = []
    for intent in intents:
        places = named.get((intent.namespace or "default", intent.job), [])
        meant = [place for place in places if _is_meant(jobs[place], intent)]
        if meant:
            found[meant[0]].append(intent)
        else:
            problems.append(_no_such_job(intent, jobs))
    pairs = zip(jobs, map(tuple, found), strict=True)
    return Selected(tuple(pairs), tuple(problems))


def _is_meant(job: Job, intent: Intent) -> bool:
    version, kind = intent.of
    return job.kind == kind and version in (None, job.api_version)


def _no_such_job(intent: Intent, jobs: Sequence[Job]) -> Diagnostic:
    place = intent.origin.locate("spec", "selector", "name")
    meant = [job for job in jobs if _is_meant(job, intent)]
    if elsewhere := [job.namespace for job in meant if job.name == intent.job]:
        advice = f"the job is in namespace '{elsewhere[0] or 'default'}': name it in both files"
    elif others := [job for job in jobs if job.name == intent.job]:
        advice = f"that is a {others[0].kind} of {others[0].api_version}: select it as one"
        if "kind" not in intent.origin.source.data["spec"].get("selector", {"kind": ""}):
            # et-operator's own: it knows TrainingJobs only.
            advice += f", with a {intent.kind} of etcompile.dev/v1alpha1"
    elif close := probably(intent.job, [job.name for job in meant]):
        advice = f"did you mean '{close}'?"
    else:
        advice = "render the job and its intents together"
    return diagnose(codes.NO_SUCH_JOB, place, intent=intent.title, job=intent.job, advice=advice)
