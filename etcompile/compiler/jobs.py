"""A job and its intents to objects, and what is wrong with them.

Apart from `run`, which makes the objects, because the watcher only makes Pods again of a job that
has been checked here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile import backend, emit, overlays
from etcompile.check.counts import check_lists
from etcompile.check.output_rules import (
    check_autoscalers,
    check_compiled,
    check_jobs,
    check_others,
)
from etcompile.check.pod_rules import check_object
from etcompile.compiler import run
from etcompile.compiler.advice import Advice, advice
from etcompile.compiler.encryption import KeySource, filled
from etcompile.compiler.environment import Environment
from etcompile.compiler.fold import FoldedJob
from etcompile.compiler.inputs import Sources
from etcompile.compiler.lowering import LoweredDocuments
from etcompile.compiler.neighbours import declared, may_have_namespace
from etcompile.compiler.options import Options
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Job, Origin, Settings
from etcompile.model.sizes import STORED_LIMIT


class JobObjects(Struct, frozen=True):
    """The objects of one job, or those that belong to none.

    Args:
        name: The job; None for other objects of the input.
        namespace: The job's namespace, if it names one.
        objects: Kubernetes objects, JSON, in the order in which they are applied.
        sources: The files of the job and of what an overlay changed in it, independent of the
            working directory; not those of its scale intents.
        waits: The Pods that wait before they start, each with the Pods it waits for.
        generated: Objects that are made in the cluster and never written: a Secret without its
            key pair.
        deciding: Names of Pods, or of Jobs that make them: the run has succeeded when all of one
            of these sets have.
        needs: What must be in the cluster for the job's gang, in words.
        origin: The job's document; None for other objects of the input.
        run: The ID of the run that its Pods are; None if they have none.
    """

    name: str | None
    namespace: str | None
    objects: emit.Packed
    sources: tuple[str, ...]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generated: tuple[Mapping[str, Any], ...] = ()
    deciding: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ()
    origin: Origin | None = None
    run: str | None = None


class Built(Struct, frozen=True):
    """The objects of a run.

    Args:
        groups: The objects by job, those that belong to none first.
        diagnostics: What is wrong with them.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]


_LARGE = 2_000
"""Replicas of a job whose objects are not made beside an error, which renders nothing anyway."""


def built(
    jobs: Sequence[FoldedJob],
    lowered: LoweredDocuments,
    patched: overlays.PatchedDocuments,
    sources: Sources,
    *,
    whole: bool,
) -> Built:
    """The objects of all jobs, and the other objects of the input.

    Args:
        jobs: The jobs after their intents.
        lowered: What the documents are.
        patched: The documents after overlays.
        sources: What the run has read.
        whole: No document was refused so far: what is said of several documents holds.
    """
    options, environment, others = sources.options, sources.environment, lowered.others
    advise = advice(options, others) if options.lint else None
    by_job: list[tuple[Job, JobObjects]] = []
    matched = environment.matched | patched.matched
    problems: list[Diagnostic] = []
    for folded in jobs:
        if not whole and sum(len(role.members) for role in folded.job.roles) > _LARGE:
            continue
        group, edits, found = job_objects(
            folded, sources.texts, environment, patched.sources, sources.keys, advice=advise
        )
        by_job.append((folded.declared, group))
        matched |= edits
        problems += found
    neighbours, found = _neighbour_objects(others, options, patched.sources)
    problems += found
    made = [(job, group.objects) for job, group in by_job]
    problems += check_jobs(made) if whole else ()
    plain = options.allow_plain_secrets
    problems += check_others(others, made, options.settings.profiles, allow_plain_secrets=plain)
    problems += check_autoscalers(others, lowered.jobs)
    groups = [group for _, group in by_job]
    # What an overlay changes in a job that is skipped, or was not built, cannot be seen.
    all_seen = whole and not lowered.skipped and all(group.objects for group in groups)
    if all_seen and any(edit not in matched for edit in environment.edits):
        from etcompile.overlays.unmatched import unmatched  # noqa: PLC0415 - few runs need it

        values = [document.data for document in patched.documents]
        compiled = (value for group in groups for value in group.objects)
        problems += unmatched(environment.edits, matched, values, compiled)
    return Built(tuple([neighbours, *groups] if neighbours.objects else groups), tuple(problems))


def job_objects(
    folded: FoldedJob,
    texts: backend.Texts,
    environment: Environment,
    changed_by: Mapping[Document, Sequence[str]],
    keys: KeySource | None = None,
    *,
    advice: Advice | None = None,
) -> tuple[JobObjects, frozenset[overlays.Edit], list[Diagnostic]]:
    """The objects of a job.

    Args:
        folded: The job after its intents.
        texts: The templates of scripts.
        environment: Settings, and edits of objects.
        changed_by: The overlays that changed a document, by their relative names.
        keys: What fills objects with what only the outside has; they stay as they are if None.
        advice: What is to be said of a job in which nothing is wrong; None for nothing.

    Returns:
        The objects, the edits that applied to them, and what is wrong.
    """
    settings = environment.settings
    job, problems = folded.job, [*folded.diagnostics]
    # Not the intents' files: one more of them must not change every header.
    sources = {job.origin.source.relative} | {*environment.settled_by}
    sources |= _overlays_of([job.origin.source], changed_by)
    made: tuple[Mapping[str, Any], ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    too_large = check_lists(job)
    try:
        if _hosts_size(job) > STORED_LIMIT / 2:
            too_large += _config_problems(job, settings, texts)
        if too_large or has_errors(problems):
            job = run.with_first_replicas(job)  # what else is wrong is reported all the same
        patched, its_run = run.objects(job, settings, texts, environment.edits)
        job = its_run.job
        made, matched = patched.objects, frozenset(patched.edits)
        sources |= {edit.origin.source.relative for edit in matched}
        refused = _patched_problems(patched, settings)
        problems += [*patched.diagnostics, *refused]
        if has_errors(refused):
            made = ()
        else:
            problems += backend.gang.problems(job, settings, made, emit.wave, patched.changed)
        if keys is not None:
            made, unfilled = filled(made, keys, job)
            problems += unfilled
        if settings.profiles:
            made = run.annotated(its_run, made, run.situation(its_run, folded.declared))
    except backend.TemplateError as error:
        facts = {"template": error.template, "problem": error.problem}
        facts["shipped"] = f"templates/{error.template}"
        own = Location(error.file, error.line) if error.file else None
        problems.append(diagnose(codes.TEMPLATE, own, **facts))
    problems += too_large
    problems += advice(job, settings, made) if advice and not has_errors(problems) else ()
    compiled = check_compiled(job, made, settings.profiles)
    problems += (problem for problem in compiled if problem not in too_large)
    group = JobObjects(
        job.name,
        job.namespace,
        emit.Packed(made),
        tuple(sorted(sources)),
        backend.waits(job),
        tuple(backend.generated(job, settings.secret)),
        backend.deciding(job),
        backend.gang.needs(job, settings, made),
        job.origin,
        job.run_id,
    )
    return group, matched, [_located(problem, job) for problem in problems]


def _located(problem: Diagnostic, job: Job) -> Diagnostic:
    """What is wrong with the objects of a job is told at its name, if nowhere else."""
    place = problem.location or job.origin.locate("metadata", "name")
    return structs.replace(problem, location=place)


def _hosts_size(job: Job) -> int:
    """About how many bytes the host lists of a job have."""
    roles = [role for hosts in job.host_lists for name in hosts.roles if (role := job.role(name))]
    return sum(
        len(counted.members) * len(counted.host_name(counted.members[-1]))
        for counted in roles
        if counted.members
    )


def _config_problems(job: Job, settings: Settings, texts: backend.Texts) -> list[Diagnostic]:
    """What is wrong with the ConfigMap, whose host lists grow with the job.

    Asked before anything is made for each replica of a large job.
    """
    made = (run.config_map(job, settings, texts),)
    problems = check_compiled(job, made, settings.profiles)
    # Warnings are reported with those of the other objects.
    return problems if has_errors(problems) else []


def _patched_problems(patched: overlays.PatchedObjects, settings: Settings) -> list[Diagnostic]:
    """What Kubernetes has against patched objects."""
    problems: list[Diagnostic] = []
    for value in patched.changed:
        namespaced = may_have_namespace(value.data)
        refusals = check_object(value, settings.kubernetes_version, namespaced=namespaced)
        # A kind of somebody else's that we made is no news.
        problems += (d for d in refusals if d.code != codes.KUBERNETES_UNKNOWN_KIND)
    return problems


def _neighbour_objects(
    documents: Sequence[Document], options: Options, changed_by: Mapping[Document, Sequence[str]]
) -> tuple[JobObjects, list[Diagnostic]]:
    """The objects of the input that belong to no job, as Git should hold them.

    Args:
        documents: The documents that are of no kind of ours.
        options: How to compile.
        changed_by: The overlays that changed a document, by their relative names.
    """
    values, problems = [], []
    for document in documents:
        value, notes = declared(document)
        values.append(value)
        problems += notes
    made = backend.annotated(values, options.settings.profiles, emit.wave, backend.Situation())
    sources = {document.relative for document in documents} | _overlays_of(documents, changed_by)
    return JobObjects(None, None, emit.Packed(made), tuple(sorted(sources))), problems


def _overlays_of(sources: Iterable[Any], changed_by: Mapping[Document, Sequence[str]]) -> set[str]:
    return {name for source in sources for name in changed_by.get(source, ())}
