"""The pipeline: files to documents to jobs to objects.

`compile` is the one function that strings the stages together; reading it explains the
program. Each stage is a function from values to values and reports what is wrong as
diagnostics, so that all problems of a run are told at once.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from etcompile import backend, emit, frontends, intents
from etcompile.check import job as job_rules
from etcompile.check import kubernetes, objects, pods, schema
from etcompile.diagnostics import Diagnostic, diagnose, has_errors
from etcompile.frontends import Kind
from etcompile.load import Document, Limits, Loaded, from_values, load, without_nulls
from etcompile.model import Intent, Job, Settings
from etcompile.neighbours import declared
from etcompile.stored import stored_value

Input = str | os.PathLike[str] | Mapping[str, Any]
"""A path as on the command line, or a document."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile.

    Args:
        namespace: The namespace of documents that name none, as kubectl's `--namespace`; a
            document that names another one is refused.
        settings: What ends up in the objects.
        templates: A folder whose Jinja2 templates replace those of the same name.
        allow_plain_secrets: Let Secrets with data among the inputs pass.
        limits: Bounds on what is read.
        output: The folder that the result goes to, so that it is not read as input.
    """

    namespace: str | None = None
    settings: Settings = field(default_factory=Settings)
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
    """

    name: str | None
    namespace: str | None
    objects: tuple[Mapping[str, Any], ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a run of the compiler made.

    Args:
        groups: The objects by job; none if there was an error.
        diagnostics: Everything that is wrong or worth knowing, in the order of the input.
        files: The files that were read, as the user named them.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not has_errors(self.diagnostics)

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """All objects in the order in which they are applied."""
        return tuple(emit.ordered([value for group in self.groups for value in group.objects]))

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
    documents, diagnostics = _in_namespace(loaded.documents, options.namespace)
    diagnostics = [*loaded.diagnostics, *diagnostics, *_twice(documents)]

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
    for job, wishes in selected.pairs:
        group, problems = _compiled(job, wishes, options.settings, texts)
        diagnostics += problems
        groups.append(group)
    neighbours, problems = _neighbours(others, options.namespace)
    diagnostics += problems
    diagnostics += objects.check_objects(
        {f"{group.name}": group.objects for group in groups},
        others,
        allow_plain_secrets=options.allow_plain_secrets,
    )
    if not has_errors(diagnostics) and not groups and not neighbours.objects:
        diagnostics.append(diagnose("ET5006", None))
    if has_errors(diagnostics):
        groups = []
    elif neighbours.objects:
        groups.insert(0, neighbours)
    files = tuple(dict.fromkeys(document.file for document in loaded.documents))
    return Compilation(tuple(groups), _in_order(diagnostics, files), files)


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
    job: Job, wishes: Sequence[Intent], settings: Settings, texts: backend.Texts
) -> tuple[JobObjects, list[Diagnostic]]:
    """The objects of a job and its intents."""
    folded = intents.fold(job, wishes)
    job, problems = folded.job, [*folded.diagnostics]
    problems += job_rules.check_folded(job, folded.highest_index)
    if job.namespace is None and (reason := backend.namespace_reason(job, settings)):
        place = job.origin.locate("metadata", "name")
        problems.append(diagnose("ET2043", place, job=job.name, reason=reason))
        job = dataclasses.replace(job, namespace="default")
    origins = [job.origin, *(intent.origin for intent in wishes)]
    sources = {origin.source.relative for origin in origins}
    made: tuple[Mapping[str, Any], ...] = ()
    try:
        stored = emit.to_yaml(stored_value(job, settings))
        made = backend.lower(job, settings, texts, stored)
    except backend.TemplateError as error:
        facts = {"template": error.template, "problem": error.problem}
        problems.append(diagnose("ET5004", None, **facts, shipped=f"templates/{error.template}"))
    group = JobObjects(job.name, job.namespace, tuple(emit.ordered(made)), tuple(sorted(sources)))
    return group, problems


def _neighbours(
    documents: Sequence[Document], namespace: str | None
) -> tuple[JobObjects, list[Diagnostic]]:
    values, problems = [], []
    for document in documents:
        value, notes = declared(document, namespace)
        values.append(value)
        problems += notes
    sources = tuple(sorted({document.relative for document in documents}))
    return JobObjects(None, None, tuple(emit.ordered(values)), sources), problems


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
