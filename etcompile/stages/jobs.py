"""A job and its intents to objects, as a run, after overlays and with annotations.

Apart from the backend because this is about order: which of folding, run, overlays and profiles
comes first, and what the stored job must know of each.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile import backend, emit, intents, overlays
from etcompile.check import job as job_rules
from etcompile.check import kubernetes, objects, pods, variables
from etcompile.diagnostics import Diagnostic, Location, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Intent, Job, Settings
from etcompile.model.run import in_run
from etcompile.neighbours import declared
from etcompile.options import Options
from etcompile.stages.encrypting import KeySource, filled
from etcompile.stages.environment import Environment
from etcompile.stored import stored_value, with_patches


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
    """

    name: str | None
    namespace: str | None
    objects: emit.Packed
    sources: tuple[str, ...]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generated: tuple[Mapping[str, Any], ...] = ()
    deciding: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ()


def job_objects(
    job: Job,
    wishes: Sequence[Intent],
    texts: backend.Texts,
    environment: Environment,
    changed_by: Mapping[Document, Sequence[str]],
    keys: KeySource | None = None,
) -> tuple[JobObjects, frozenset[overlays.Edit], list[Diagnostic]]:
    """The objects of a job and its intents.

    Args:
        job: The job, as its document describes it.
        wishes: The scale intents that select it.
        texts: The templates of scripts.
        environment: Settings, and edits of objects.
        changed_by: The overlays that changed a document, by their relative names.
        keys: What fills objects with what only the outside has; they stay as they are if None.

    Returns:
        The objects, the edits that applied to them, and what is wrong.
    """
    settings = environment.settings
    declared_job, folded = job, intents.fold(job, wishes, any_run=settings.run is not None)
    job, problems = folded.job, [*folded.diagnostics]
    problems += job_rules.check_folded(_as_run(job, settings)[0], folded.highest_index)
    if job.namespace is None and (reason := backend.namespace_reason(job, settings)):
        place = job.origin.locate("metadata", "name")
        problems.append(diagnose("ET2043", place, job=job.name, reason=reason))
        job = structs.replace(job, namespace="default")
    # Not the intents' files: one more of them must not change every header.
    sources = {job.origin.source.relative} | {*environment.settled_by}
    sources |= _overlays_of([job.origin.source], changed_by)
    made: tuple[Mapping[str, Any], ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    try:
        patched, job = _patched(job, settings, texts, environment.edits)
        made, matched = patched.objects, frozenset(patched.edits)
        sources |= {edit.origin.source.relative for edit in matched}
        problems += [*patched.diagnostics, *_patched_problems(patched, settings)]
        problems += backend.gang.problems(job, settings, made, emit.wave)
        if keys is not None:
            made, unfilled = filled(made, keys, job)
            problems += unfilled
        if settings.profiles:
            situation = backend.Situation.around(job, declared_job)
            if settings.gang != "none":
                # Its Pods start together or not at all: none may be created after another runs.
                situation = structs.replace(situation, waits={})
            made = backend.annotated(made, settings.profiles, emit.wave, situation)
    except backend.TemplateError as error:
        facts = {"template": error.template, "problem": error.problem}
        problems.append(diagnose("ET5004", None, **facts, shipped=f"templates/{error.template}"))
    problems += [*objects.check_compiled(job.name, made), *variables.check_variables(job, made)]
    group = JobObjects(
        job.name,
        job.namespace,
        emit.Packed(made),
        tuple(sorted(sources)),
        backend.waits(job),
        tuple(backend.generated(job, settings.secret)),
        backend.deciding(job),
        backend.gang.needs(job, settings, made),
    )
    return group, matched, problems


def _patched(
    job: Job, settings: Settings, texts: backend.Texts, edits: Sequence[overlays.Edit]
) -> tuple[overlays.PatchedObjects, Job]:
    """The objects of a job after overlays, and the job as the run that they are.

    What touches its Pods and Services is part of the stored job, and what changes the Pods part
    of the run's identity: so objects that turn out to be touched are made again.
    """
    run, run_settings = _as_run(job, settings)
    own_labels = backend.own_labels(run)
    stored = emit.to_yaml(stored_value(run, run_settings))
    made = backend.lower(run, run_settings, texts, stored)
    patched = overlays.patched_objects(made, edits, own_labels=own_labels)
    kept = [edit for edit, kinds in patched.edits.items() if kinds & {"Pod", "Service"}]
    if not kept:
        return patched, run
    run, run_settings = _as_run(with_patches(job, kept), settings)
    stored = emit.to_yaml(stored_value(run, run_settings, kept))
    made = backend.lower(run, run_settings, texts, stored)
    return overlays.patched_objects(made, edits, own_labels=own_labels), run


def _as_run(job: Job, settings: Settings) -> tuple[Job, Settings]:
    """The job as the run that the settings ask for, and the settings with its ID."""
    run = backend.run_id(job, settings.run)
    return in_run(job, run), structs.replace(settings, run=run)


def _patched_problems(patched: overlays.PatchedObjects, settings: Settings) -> list[Diagnostic]:
    """What Kubernetes has against patched objects."""
    problems: list[Diagnostic] = []
    for value in patched.changed:
        found = kubernetes.check_object(value, settings.kubernetes_version)
        if value.data["kind"] == "Pod" and not has_errors(found):
            found += pods.check_pod_template(value, ())
        # A kind of somebody else's that we made is no news.
        problems += (one for one in found if one.code != "ET4003")
    return problems


def neighbour_objects(
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


def template_notes(texts: backend.Texts) -> Iterator[Diagnostic]:
    """A warning for each of the user's templates that is not used."""
    for file, meant in texts.unused():
        advice = f"did you mean {meant}?" if meant else ""
        yield diagnose("ET5012", Location(os.fspath(file)), advice=advice)


def _overlays_of(sources: Iterable[Any], changed_by: Mapping[Document, Sequence[str]]) -> set[str]:
    return {name for source in sources for name in changed_by.get(source, ())}
