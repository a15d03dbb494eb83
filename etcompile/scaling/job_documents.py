"""Finds the documents of a job in a source tree: the job itself and the intents that select it.

Mistakes in other jobs are not reported, and a folder may hold YAML that is no manifest. A file that
cannot be read is reported if it names the job, because it may hold one of its intents.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from etcompile import compiler, frontends
from etcompile.compiler.choices import Options
from etcompile.compiler.lower import lower
from etcompile.compiler.runtimes import is_runtime, named_runtimes
from etcompile.diagnostics import Diagnostic, Severity, codes, diagnose, has_errors
from etcompile.diagnostics.spelling import probably
from etcompile.load import Document, access

_LISTED = 8


class Chosen(Struct, frozen=True):
    """A job and what belongs to it.

    Args:
        documents: It and its intents, in the order of the input.
        names: Namespace and name of all scale intents of the input.
        runtimes: The runtimes of the input that it names, if it is a TrainJob.
    """

    job: Document
    documents: tuple[Document, ...]
    names: frozenset[tuple[str, str]]
    runtimes: tuple[Document, ...] = ()


def chosen(
    name: str, paths: Sequence[str], options: Options, kind: str | None
) -> tuple[Chosen | None, list[Diagnostic]]:
    """The job of that name, or why there is not exactly one.

    Args:
        options: How to compile; its namespace narrows the choice.
        kind: Its kind, in any case, perhaps with the version: `MPIJob`, `mpijob.v2beta1`.
    """
    loaded = compiler.loaded(paths, options, None)
    if problems := [problem for problem in loaded.diagnostics if _matters(problem, name)]:
        return None, problems
    jobs: list[Document] = []
    intents: list[Document] = []
    for document in loaded.documents:
        if known := frontends.find(document.api_version, document.kind):
            (jobs if known.pod_templates else intents).append(document)
    named = [
        job
        for job in jobs
        if job.name == name
        and (options.namespace is None or job.namespace in (None, options.namespace))
    ]
    meant = [job for job in named if kind is None or _is_of_kind(job, kind)]
    if not meant:
        return None, [_none(name, jobs, named, options, kind)]
    if len(meant) > 1:
        namespaces = {job.namespace or "default" for job in meant}
        advice = "choose one with --kind, or name its file"
        if len(namespaces) > 1:
            advice = f"choose one with -n: {', '.join(sorted(namespaces))}"
        titles = ", ".join(f"{job.label} ({job.file})" for job in meant)
        facts = {"job": name, "count": len(meant), "jobs": titles, "advice": advice}
        return None, [diagnose(codes.WHICH_JOB, meant[0].locate(("metadata", "name")), **facts)]
    (job,) = meant
    own = {id(job), *(id(intent) for intent in intents if _selects(intent, job, options))}
    wanted = named_runtimes([job])
    return Chosen(
        job,
        tuple(document for document in loaded.documents if id(document) in own),
        frozenset((intent.namespace or "default", intent.name or "") for intent in intents),
        tuple(item for item in loaded.documents if is_runtime(item) and item.name in wanted),
    ), []


def _none(
    name: str, jobs: list[Document], named: list[Document], options: Options, kind: str | None
) -> Diagnostic:
    where = "the input"
    if options.namespace is not None:
        where = f"namespace '{options.namespace}' of the input"
    others = {job.name for job in jobs if job.name}
    if named:
        advice = f"it is a {named[0].kind}: leave out --kind {kind}"
    elif same := [job for job in jobs if job.name == name]:
        advice = f"it is in namespace '{same[0].namespace}': -n {same[0].namespace}"
    elif close := probably(name, others):
        advice = f"did you mean '{close}'?"
    elif others:
        advice = f"jobs there: {', '.join(sorted(others)[:_LISTED])}"
    else:
        advice = "there are no jobs: name the folder that holds them"
    return diagnose(codes.NO_JOB_TO_SCALE, None, job=name, where=where, advice=advice)


def _is_of_kind(job: Document, kind: str) -> bool:
    version = (job.api_version or "").rpartition("/")[2]
    return kind.strip().lower() in (f"{job.kind}".lower(), f"{job.kind}.{version}".lower())


def _matters(problem: Diagnostic, name: str) -> bool:
    """Whether what is wrong with a file may hide something of the job."""
    if problem.severity is not Severity.ERROR:
        return False
    if problem.location is None:
        return True
    try:
        return name.encode() in access.content(problem.location.file)
    except OSError:
        return True


def _selects(intent: Document, job: Document, options: Options) -> bool:
    """Whether an intent selects the job, as `fold.by_job` will see it.

    One that cannot be read counts if it names the job, so that what is wrong with it is reported.
    """
    here = options.namespace or "default"
    names_it = json.dumps(job.name) in json.dumps(intent.data)
    if not names_it or (intent.namespace or here) != (job.namespace or here):
        return False
    lowered = lower([intent], options.settings.kubernetes_version)
    if has_errors(lowered.diagnostics):
        return True
    return any(
        read.job == job.name and read.of[1] == job.kind and read.of[0] in (None, job.api_version)
        for read in lowered.intents
    )
