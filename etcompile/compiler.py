"""The pipeline: files to documents to jobs to objects.

`compile` is the one function that strings the stages together; reading it explains the
program. Each stage is a function from values to values and reports what is wrong as
diagnostics, so that all problems of a run are told at once.
"""

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from etcompile import backend, emit, frontends, intents, overlays
from etcompile.check import job as job_rules
from etcompile.check import kubernetes, objects, pods, schema
from etcompile.diagnostics import Diagnostic, ValuePath, diagnose, has_errors
from etcompile.frontends import Kind
from etcompile.load import Document, Limits, Loaded, from_values, load, without_nulls
from etcompile.model import Intent, Job, Settings
from etcompile.model.run import in_run
from etcompile.neighbours import declared, is_namespaced
from etcompile.stored import stored_value, with_patches

Input = str | os.PathLike[str] | Mapping[str, Any]
"""A path as on the command line, or a document."""
OverlayInput = overlays.Given
"""A file, a folder with an `overlay.yaml`, the name of a shipped overlay, or a document."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile.

    Args:
        namespace: The namespace of documents that name none, as kubectl's `--namespace`; a
            document that names another one is refused.
        settings: What ends up in the objects.
        overlays: What an environment changes, in order: a file, a folder with an `overlay.yaml`,
            the name of an overlay that ships with etcompile, or a document.
        explicit: The names of settings that no overlay changes; those that differ from their
            defaults if None.
        templates: A folder whose Jinja2 templates replace those of the same name.
        allow_plain_secrets: Let Secrets with data among the inputs pass.
        limits: Bounds on what is read.
        output: The folder that the result goes to, so that it is not read as input.
    """

    namespace: str | None = None
    settings: Settings = field(default_factory=Settings)
    overlays: tuple[OverlayInput, ...] = ()
    explicit: frozenset[str] | None = None
    templates: Path | None = None
    allow_plain_secrets: bool = False
    limits: Limits = field(default_factory=Limits)
    output: Path | None = None


@dataclass(frozen=True, slots=True)
class JobObjects:
    """The objects of one job, or those that belong to none.

    Args:
        name: The job; None for other objects of the input.
        namespace: The job's namespace, if it names one.
        objects: Kubernetes objects, JSON, in the order in which they are applied.
        sources: The files they come from, independent of the working directory.
        waits: The Pods that wait before they start, each with the Pods it waits for.
    """

    name: str | None
    namespace: str | None
    objects: emit.Packed
    sources: tuple[str, ...]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a run of the compiler made.

    Args:
        groups: The objects by job; none if there was an error.
        diagnostics: Everything that is wrong or worth knowing, in the order of the input.
        files: The files that were read, as the user named them.
        inputs: The SHA-256 of each of them, by its name independent of the working directory.
        settings: How they were compiled, after overlays.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not has_errors(self.diagnostics)

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """All objects in the order in which they are applied."""
        return tuple(self.in_order())

    def in_order(self) -> Iterator[Mapping[str, Any]]:
        """The same, but few of them in memory at a time."""
        return emit.merged(group.objects for group in self.groups)

    @property
    def sources(self) -> tuple[str, ...]:
        """All files that something came from."""
        return tuple(sorted({source for group in self.groups for source in group.sources}))


def compile(  # noqa: A001 - it is what it does
    inputs: Input | Iterable[Input],
    options: Options | None = None,
    *,
    stdin: BinaryIO | None = None,
) -> Compilation:
    """Compiles training-job specifications to Kubernetes objects.

    Args:
        inputs: Files, directories, globs, `-` for standard input, or documents as mappings.
        options: How to compile; the defaults if None.
        stdin: What `-` reads; the process's standard input if None.

    Returns:
        The objects and the diagnostics. With an error among these there are no objects. Bad
        input never raises.
    """
    options = options or Options()
    loaded = _loaded(inputs, options, stdin)
    environment = _environment(options)
    files = tuple(dict.fromkeys((*(d.file for d in loaded.documents), *environment.files)))
    if has_errors(environment.diagnostics):
        problems = [*loaded.diagnostics, *environment.diagnostics]
        return Compilation((), _in_order(problems, files), files)
    options = dataclasses.replace(options, settings=environment.settings)
    documents, diagnostics = _without_overlays(loaded.documents, options)
    documents, problems = _in_namespace(documents, options.namespace)
    problems += job_rules.check_run(options.settings.run)
    diagnostics = [*loaded.diagnostics, *environment.diagnostics, *diagnostics, *problems]
    patched = overlays.patched_documents(
        documents, environment.edits, overlays.Kinds(_templates, is_namespaced, options.namespace)
    )
    documents = [*patched.documents]
    diagnostics += [*patched.diagnostics, *_twice(documents)]

    lowered: list[Job | Intent] = []
    others: list[Document] = []
    for document in documents:
        kind = frontends.find(document.api_version, document.kind)
        if kind is not None:
            value, problems = _lowered(document, kind, options)
            lowered += [value] if value else []
        elif problems := _unknown_version(document):
            pass
        else:
            others.append(document)
            problems = kubernetes.check_object(document, options.settings.kubernetes_version)
        diagnostics += problems

    jobs = [value for value in lowered if isinstance(value, Job)]
    selected = intents.by_job(jobs, [value for value in lowered if isinstance(value, Intent)])
    # An intent may only seem to lack its job, when that one is broken.
    diagnostics += selected.diagnostics if not has_errors(diagnostics) else ()
    texts = backend.Texts(options.templates)
    groups = []
    matched = environment.matched | patched.matched
    for job, wishes in selected.pairs:
        group, edits, problems = _compiled(job, wishes, options.settings, texts, environment)
        diagnostics += problems
        matched |= edits
        origins = [job.origin.source, *(wish.origin.source for wish in wishes)]
        groups.append(_sourced(group, origins, patched.sources))
    neighbours, problems = _neighbours(others, options)
    neighbours = _sourced(neighbours, others, patched.sources)
    diagnostics += problems
    diagnostics += objects.check_neighbours(
        others,
        [(group.name or "", group.objects) for group in groups],
        allow_plain_secrets=options.allow_plain_secrets,
    )
    if not has_errors(diagnostics):
        made = (value for group in groups for value in group.objects)
        values = [document.data for document in documents]
        diagnostics += overlays.unmatched(environment.edits, matched, values, made)
    if not has_errors(diagnostics) and not groups and not neighbours.objects:
        diagnostics.append(diagnose("ET5006", None))
    if has_errors(diagnostics):
        groups = []
    elif neighbours.objects:
        groups.insert(0, neighbours)
    inputs_read = _inputs((*loaded.documents, *environment.documents), texts)
    ordered = _in_order(_told_once(diagnostics, environment.files), files)
    return Compilation(tuple(groups), ordered, files, inputs_read, options.settings)


def _inputs(documents: Sequence[Document], texts: backend.Texts) -> tuple[tuple[str, str], ...]:
    """The digests of everything that was read, templates of the user's own included."""
    read = [(one.relative, one.digest) for one in documents if one.digest is not None]
    return tuple(sorted({*read, *texts.digests()}))


def _loaded(inputs: Input | Iterable[Input], options: Options, stdin: BinaryIO | None) -> Loaded:
    """All documents of the input, in its order, without nulls (the API's word for absent)."""
    if isinstance(inputs, str | os.PathLike | Mapping):
        inputs = [inputs]
    documents: list[Document] = []
    diagnostics: list[Diagnostic] = []
    paths: list[str | os.PathLike[str]] = []
    values: list[Mapping[str, Any]] = []
    for one in inputs:
        if isinstance(one, Mapping):
            values.append(one)
        else:
            paths.append(one)
    for part in (
        load(paths, stdin=stdin, limits=options.limits, output=options.output) if paths else None,
        from_values(values) if values else None,
    ):
        if part is not None:
            documents += part.documents
            diagnostics += part.diagnostics
    return Loaded(
        tuple(dataclasses.replace(d, data=without_nulls(d.data)) for d in documents),
        tuple(diagnostics),
    )


@dataclass(frozen=True, slots=True)
class _Environment:
    """What the overlays of a run come to.

    Args:
        settings: The settings after overlays.
        settled_by: The relative names of the overlays that have settings.
        edits: What they do to documents and objects, in order.
        matched: The edits that changed an image of the settings.
        files: The overlays' files, as the user named them.
        documents: The overlays.
        diagnostics: What is wrong with the overlays.
    """

    settings: Settings
    settled_by: tuple[str, ...] = ()
    edits: tuple[overlays.Edit, ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    files: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def _environment(options: Options) -> _Environment:
    """The overlays of the run, read and checked."""
    if not options.overlays:
        return _Environment(options.settings)
    loaded = overlays.overlay_documents(options.overlays, options.limits)
    problems = [*loaded.diagnostics]
    for document in loaded.documents:
        problems += schema.check_document(document, overlays.SCHEMA)
    files = tuple(dict.fromkeys(document.file for document in loaded.documents))
    if has_errors(problems):
        return _Environment(options.settings, files=files, diagnostics=tuple(problems))
    read = [overlays.overlay_of(document) for document in loaded.documents]
    explicit = options.explicit
    if explicit is None:
        explicit = overlays.explicit_settings(options.settings)
    settled = overlays.settled(options.settings, explicit, read, kubernetes.versions())
    return _Environment(
        settings=settled.settings,
        settled_by=tuple(overlay.source.relative for overlay in read if overlay.settings),
        # A namespace asked for wins over an overlay's, as a setting does.
        edits=tuple(
            edit
            for overlay in read
            for edit in overlay.edits
            if options.namespace is None or not isinstance(edit.change, overlays.Placement)
        ),
        matched=settled.matched,
        files=files,
        documents=loaded.documents,
        diagnostics=(*problems, *settled.diagnostics),
    )


_INDEX = re.compile(r"\[[0-9]+\]")


def _told_once(diagnostics: Sequence[Diagnostic], files: Collection[str]) -> list[Diagnostic]:
    """The diagnostics; one in an overlay only once, however many objects it is about."""
    told: dict[object, Diagnostic] = {}
    for number, one in enumerate(diagnostics):
        place = one.location
        # What never was text has no lines, by which to tell two mistakes apart.
        if not (place and place.file in files and (place.line or one.code.startswith("ET6"))):
            told[number] = one
            continue
        # A failed patch names the object, and a place in a list may differ between objects.
        words = "" if one.code == "ET6007" else _INDEX.sub("", one.message)
        told.setdefault((one.code, place, words), one)
    return list(told.values())


def _without_overlays(
    documents: Sequence[Document], options: Options
) -> tuple[list[Document], list[Diagnostic]]:
    """The documents that are no overlays: a folder may hold both.

    Who passes an overlay knows how it is done; who passes none is told.
    """
    left = [document for document in documents if not overlays.is_overlay(document)]
    if options.overlays or len(left) == len(documents):
        return left, []
    found = [document for document in documents if overlays.is_overlay(document)]
    return left, [diagnose("ET6004", one.locate(("kind",)), file=one.file) for one in found]


def _templates(document: Document) -> Mapping[str, ValuePath] | None:
    """The paths of a document's Pod templates by role; None if its kind is not one of ours."""
    kind = frontends.find(document.api_version, document.kind)
    # A template stands below the name of its role, whatever the kind.
    return {str(path[-2]).lower(): path for path in kind.pod_templates} if kind else None


def _sourced(
    group: JobObjects, origins: Iterable[Any], changed: Mapping[Document, Sequence[str]]
) -> JobObjects:
    """The objects with the overlays that changed their documents among their sources."""
    names = {name for origin in origins for name in changed.get(origin, ())}
    return dataclasses.replace(group, sources=tuple(sorted({*group.sources, *names})))


def _in_namespace(
    documents: Sequence[Document], namespace: str | None
) -> tuple[list[Document], list[Diagnostic]]:
    """Our documents in the namespace asked for; as with kubectl, none may name another."""
    if namespace is None:
        return list(documents), []
    placed, problems = [], []
    for document in documents:
        if document.namespace not in (None, namespace):
            problems.append(
                diagnose(
                    "ET5005",
                    document.locate(("metadata", "namespace")),
                    option=f"--namespace {namespace}",
                    problem=f"{document.kind} '{document.name}' is in '{document.namespace}'",
                    advice="leave the namespace out of the file, or leave out --namespace",
                )
            )
        metadata = document.data.get("metadata")
        if isinstance(metadata, dict) and frontends.find(document.api_version, document.kind):
            data = {**document.data, "metadata": {**metadata, "namespace": namespace}}
            document = dataclasses.replace(document, data=data)  # noqa: PLW2901
        placed.append(document)
    return placed, problems


def _twice(documents: Sequence[Document]) -> list[Diagnostic]:
    """An error for each object that the input defines a second time."""
    problems = []
    first: dict[tuple[str, str, str, str], Document] = {}
    for document in documents:
        if document.name is None or document.api_version is None or document.kind is None:
            continue
        group = document.api_version.rpartition("/")[0]
        key = (group, document.kind, document.namespace or "default", document.name)
        known = first.setdefault(key, document)
        if known is not document:
            place = document.locate(("metadata", "name"))
            facts = {"what": document.label, "first": known.locate(("metadata", "name"))}
            problems.append(diagnose("ET1018", place, **facts))
    return problems


def _lowered(
    document: Document, kind: Kind, options: Options
) -> tuple[Job | Intent | None, list[Diagnostic]]:
    """The job or intent of a document; None if the document is not valid."""
    problems = schema.check_document(document, kind.schema)
    if has_errors(problems):
        return None, problems
    version = options.settings.kubernetes_version
    for path in kind.pod_templates:
        problems += kubernetes.check_pod_template(document, path, version)
        problems += pods.check_pod_template(document, path, known_volumes=kind.volumes)
        problems += pods.check_images(document, path)
    if has_errors(problems):
        return None, problems
    lowered = kind.lower(document)
    problems += lowered.diagnostics
    if isinstance(lowered.value, Job):
        problems += job_rules.check_spec(lowered.value)
    return lowered.value, problems


def _unknown_version(document: Document) -> list[Diagnostic]:
    known = frontends.served_versions(document.api_version or "", document.kind or "")
    if not known:
        return []
    place = document.locate(("apiVersion",))
    facts = {"kind": document.kind, "version": document.api_version, "known": " or ".join(known)}
    return [diagnose("ET2011", place, **facts)]


def _compiled(
    job: Job,
    wishes: Sequence[Intent],
    settings: Settings,
    texts: backend.Texts,
    environment: _Environment,
) -> tuple[JobObjects, frozenset[overlays.Edit], list[Diagnostic]]:
    """The objects of a job and its intents, and the edits that applied to them."""
    declared_job, folded = job, intents.fold(job, wishes, any_run=settings.run is not None)
    job, problems = folded.job, [*folded.diagnostics]
    problems += job_rules.check_folded(_as_run(job, settings)[0], folded.highest_index)
    if job.namespace is None and (reason := backend.namespace_reason(job, settings)):
        place = job.origin.locate("metadata", "name")
        problems.append(diagnose("ET2043", place, job=job.name, reason=reason))
        job = dataclasses.replace(job, namespace="default")
    origins = [job.origin, *(intent.origin for intent in wishes)]
    sources = {origin.source.relative for origin in origins} | {*environment.settled_by}
    made: tuple[Mapping[str, Any], ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    try:
        patched, job = _patched(job, settings, texts, environment.edits)
        made, matched = patched.objects, frozenset(patched.edits)
        sources |= {edit.origin.source.relative for edit in matched}
        problems += [*patched.diagnostics, *_patched_problems(patched, settings)]
        if settings.profiles:
            situation = backend.Situation.around(job, declared_job)
            made = backend.annotated(made, settings.profiles, emit.wave, situation)
    except backend.TemplateError as error:
        facts = {"template": error.template, "problem": error.problem}
        problems.append(diagnose("ET5004", None, **facts, shipped=f"templates/{error.template}"))
    problems += objects.check_compiled(job.name, made)
    waits = backend.waits(job)
    group = JobObjects(job.name, job.namespace, emit.Packed(made), tuple(sorted(sources)), waits)
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
    return in_run(job, run), dataclasses.replace(settings, run=run)


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


def _neighbours(
    documents: Sequence[Document], options: Options
) -> tuple[JobObjects, list[Diagnostic]]:
    values, problems = [], []
    for document in documents:
        value, notes = declared(document, options.namespace)
        values.append(value)
        problems += notes
    made = backend.annotated(values, options.settings.profiles, emit.wave, backend.Situation())
    sources = tuple(sorted({document.relative for document in documents}))
    return JobObjects(None, None, emit.Packed(made), sources), problems


def _in_order(diagnostics: Sequence[Diagnostic], in_order: Sequence[str]) -> tuple[Diagnostic, ...]:
    """The diagnostics in the order in which a reader meets the places they speak of."""
    files = {file: number for number, file in enumerate(in_order)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        location = diagnostic.location
        if location is None:
            return (len(files) + 1, 0, 0)
        file = files.get(location.file, -1)
        return (file, location.line or 0, location.column or 0)

    return tuple(sorted(diagnostics, key=place))
