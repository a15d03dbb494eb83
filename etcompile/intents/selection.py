"""Which intent belongs to which job.

Apart from the fold, because a wrong selector is the one mistake that can be seen without
looking at a single worker.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, diagnose
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
    """Brings each intent to the job that it selects by name, in its own namespace.

    A document without a namespace is taken to be in `default`, as by kubectl without a
    context: upstream's own examples name it in the job and leave it out in the scalers.
    """
    found: dict[tuple[str, str], list[Intent]] = {_key(job.namespace, job.name): [] for job in jobs}
    problems = []
    for intent in intents:
        key = _key(intent.namespace, intent.job)
        if key in found:
            found[key].append(intent)
        else:
            problems.append(_no_such_job(intent, jobs))
    pairs = tuple((job, tuple(found[_key(job.namespace, job.name)])) for job in jobs)
    return Selected(pairs, tuple(problems))


def _key(namespace: str | None, name: str) -> tuple[str, str]:
    return namespace or "default", name


def _no_such_job(intent: Intent, jobs: Sequence[Job]) -> Diagnostic:
    place = intent.origin.locate("spec", "selector", "name")
    if elsewhere := [job.namespace for job in jobs if job.name == intent.job]:
        advice = f"the job is in namespace '{elsewhere[0] or 'default'}': name it in both files"
    elif close := probably(intent.job, [job.name for job in jobs]):
        advice = f"did you mean '{close}'?"
    else:
        advice = "render the job and its intents together"
    return diagnose("ET3001", place, intent=intent.title, job=intent.job, advice=advice)
