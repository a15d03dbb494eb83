"""Jobs and scale intents to jobs with the workers that are left."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from etcompile import backend
from etcompile.check import job as job_rules
from etcompile.compiler import intents
from etcompile.compiler.run import run_of
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import Intent, Job, Settings


class FoldedJob(Struct, frozen=True):
    """A job after its intents.

    Args:
        declared: The job as its document describes it.
        job: The job as it is compiled.
        diagnostics: What is wrong with its intents, or with the job after them.
    """

    declared: Job
    job: Job
    diagnostics: tuple[Diagnostic, ...]


def fold(job: Job, wishes: Sequence[Intent], settings: Settings) -> FoldedJob:
    """A job after its intents.

    Args:
        job: The job, as its document describes it.
        wishes: The scale intents that select it.
        settings: How it is compiled.
    """
    folded = intents.fold(job, wishes, any_run=settings.run is not None)
    problems = [*folded.diagnostics]
    its_run = run_of(folded.job, settings)
    problems += job_rules.check_folded(its_run.job, folded.highest_index)
    if job.namespace is not None or not (reason := backend.namespace_reason(folded.job, settings)):
        return FoldedJob(job, folded.job, tuple(problems))
    place = job.origin.locate("metadata", "name")
    problems.append(diagnose(codes.ASSUMED_NAMESPACE, place, job=job.name, reason=reason))
    return FoldedJob(job, structs.replace(folded.job, namespace="default"), tuple(problems))


class FoldedJobs(Struct, frozen=True):
    """The jobs of a run after their intents.

    Args:
        jobs: The jobs, in the order of the input; each says itself what is wrong with it.
        diagnostics: An error for each intent that selects no job.
    """

    jobs: tuple[FoldedJob, ...]
    diagnostics: tuple[Diagnostic, ...]


def folded(jobs: Sequence[Job], wishes: Iterable[Intent], settings: Settings) -> FoldedJobs:
    """All jobs after the intents that select them.

    Args:
        jobs: The jobs, as their documents describe them.
        wishes: All scale intents.
        settings: How the jobs are compiled.
    """
    selected = intents.by_job(jobs, wishes)
    return FoldedJobs(
        tuple(fold(job, its_intents, settings) for job, its_intents in selected.pairs),
        selected.diagnostics,
    )
