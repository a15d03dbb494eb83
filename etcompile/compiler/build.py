"""Build and check the objects of jobs, and pass other objects of the input through.

`run_objects` builds the objects of a job. The watcher uses it too, but only to recreate Pods of a
job that was checked here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile import backend, emit, overlays
from etcompile.check.counts import check_lists
from etcompile.check.output_rules import (
    check_autoscalers,
    check_compiled,
    check_host_names,
    check_jobs,
    check_others,
)
from etcompile.check.pod_rules import check_object
from etcompile.compiler import run_objects
from etcompile.compiler.fold import FoldedJob
from etcompile.compiler.load import Environment, Sources
from etcompile.compiler.lower import LoweredDocuments
from etcompile.compiler.patch import PatchedDocuments
from etcompile.diagnostics import Diagnostic, Location, Source, codes, diagnose, has_errors
from etcompile.frontends.trainer.runtimes import SHIPPED_FILE
from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.k8s.objects import SERVER_METADATA, may_have_namespace
from etcompile.load import Document
from etcompile.model import Job, Origin

_LARGE = 2_000
"""A job with more replicas is not built after an error, since nothing is rendered then."""
_LIVE_METADATA = sorted({*SERVER_METADATA, "ownerReferences"})


class JobObjects(Struct, frozen=True):
    """The objects of one job, or those that belong to none.

    Args:
        objects: Kubernetes objects, JSON, in the order in which they are applied.
        sources: The files of the job and of what an overlay changed in it, independent of the
            working directory; not those of its scale intents.
        waits: The Pods that wait before they start, each with the Pods it waits for.
        generated: Objects that are created in the cluster and never written: a Secret without its
            key pair.
        deciding: Sets of names of Pods, or of Jobs that create them: the run has succeeded when
            all of one set have.
        needs: What the cluster must have for the job's gang, for messages.
        elastic: The fewest replicas of each role that scales.
        listed: The roles whose Pods are on a host list that changes.
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
    elastic: Mapping[str, int] = {}
    listed: frozenset[str] = frozenset()

    @property
    def title(self) -> str | None:
        return f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name


def build(
    jobs: Sequence[FoldedJob],
    lowered: LoweredDocuments,
    patched: PatchedDocuments,
    sources: Sources,
    *,
    all_valid: bool,
) -> tuple[list[JobObjects], list[Diagnostic]]:
    """Build the objects by job, those that belong to none first, and check them.

    Checks across documents apply only if no document was refused so far (`all_valid`).
    """
    options, environment, others = sources.options, sources.environment, lowered.others
    # Advice reads fields of the other objects without checking their types.
    linted = (others if all_valid else ()) if options.lint else None
    by_job: list[tuple[Job, JobObjects]] = []
    matched = environment.matched | patched.matched
    problems: list[Diagnostic] = []
    for folded in jobs:
        if not all_valid and sum(len(role.members) for role in folded.job.roles) > _LARGE:
            continue
        group, edits, its_problems = job_objects(
            folded, environment, patched.sources, linted=linted
        )
        by_job.append((folded.declared, group))
        matched |= edits
        problems += its_problems
    values = []
    for document in others:
        value, notes = _without_live_fields(document)
        values.append(value)
        problems += notes
    profiles = options.settings.profiles
    annotated = backend.annotated(values, profiles, backend.Situation())
    files = {document.relative for document in others} | _overlays_of(others, patched.sources)
    # In a group of their own, so that one folder holds all of a job.
    other_objects = JobObjects(None, None, emit.Packed(annotated), tuple(sorted(files)))
    compiled = [(job, group.objects) for job, group in by_job]
    problems += check_jobs(compiled) if all_valid else ()
    plain = options.allow_plain_secrets
    problems += check_others(others, compiled, profiles, allow_plain_secrets=plain)
    problems += check_autoscalers(others, lowered.jobs)
    problems += check_host_names(compiled, others)
    groups = [group for _, group in by_job]
    # An overlay may match a job that was skipped, is elsewhere, or was not built.
    all_seen = all_valid and not lowered.skipped and all(group.objects for group in groups)
    unrendered = (document for document in patched.documents if not document.is_rendered)
    all_seen = all_seen and (bool(by_job) if options.lint else any(unrendered))
    missing = [edit for edit in environment.edits if edit not in matched and not edit.optional]
    if all_seen and missing:
        from etcompile.overlays import document_patches  # noqa: PLC0415 - few runs need it

        documents = [document.data for document in patched.documents]
        rendered = (value for group in groups for value in group.objects)
        problems += document_patches.unmatched(missing, documents, rendered)
    return [other_objects, *groups] if other_objects.objects else groups, problems


def job_objects(
    folded: FoldedJob,
    environment: Environment,
    changed_by: Mapping[Document, Sequence[str]],
    *,
    linted: Sequence[Document] | None = None,
) -> tuple[JobObjects, frozenset[overlays.Edit], list[Diagnostic]]:
    """Build and check the objects of a job.

    Args:
        changed_by: The overlays that changed a document, by their relative names.
        linted: Give advice about training that considers these other objects; None for none.
    """
    settings = environment.settings
    job = folded.job
    problems = [*folded.diagnostics, *check_lists(job)]
    compiled: tuple[Mapping[str, Any], ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    try:
        if has_errors(problems):
            job = run_objects.with_first_replicas(job)  # only to report further problems
        patched, job = run_objects.objects(job, settings, environment.texts, environment.edits)
        matched = frozenset(patched.edits)
        refused = [
            fault
            for value in patched.changed
            for fault in check_object(
                value, settings.kubernetes_version, namespaced=may_have_namespace(value.data)
            )
            # etcompile itself writes objects of other programs' kinds.
            if fault.code != codes.KUBERNETES_UNKNOWN_KIND
        ]
        problems += [*patched.diagnostics, *refused]
        if not has_errors(refused):
            compiled = patched.objects
            problems += backend.gang.problems(job, settings, compiled, patched.changed)
        if environment.keys is not None:
            from etcompile.compiler.keysource import filled  # noqa: PLC0415 - few runs need it

            compiled, unfilled = filled(compiled, environment.keys, job)
            problems += unfilled
        if settings.profiles:
            around = backend.Situation.around(job, folded.declared, settings.gang)
            compiled = backend.annotated(compiled, settings.profiles, around)
    except backend.TemplateError as error:
        facts = {"template": error.template, "problem": error.problem}
        facts["shipped"] = f"templates/{error.template}"
        place = Location(error.file, error.line) if error.file else None
        problems.append(diagnose(codes.TEMPLATE, place, **facts))
    if linted is not None and not has_errors(problems):
        from etcompile import lint  # noqa: PLC0415 - only check gives advice

        problems += lint.problems(lint.linted_job(job, settings, compiled, linted))
    problems += check_compiled(job, compiled, settings.profiles)
    # Without the intents' files, so that a new one does not change every header.
    files = {job.origin.source.relative, *environment.settled_by}
    files |= {edit.origin.source.relative for edit in matched}
    group = JobObjects(
        job.name,
        job.namespace,
        emit.Packed(compiled),
        tuple(sorted(files | _overlays_of([job.origin.source], changed_by))),
        backend.waits(job),
        tuple(backend.generated(job, settings.secret)),
        backend.deciding(job),
        backend.gang.needs(job, settings, compiled),
        job.origin,
        job.run_id,
        {role.name: role.bounds.minimum for role in job.roles if role.bounds},
        frozenset(role for hosts in job.host_lists if hosts.live for role in hosts.roles),
    )
    located = []
    for problem in problems:
        place = problem.location or job.origin.locate("metadata", "name")
        if place.file == SHIPPED_FILE:
            # A runtime that Trainer ships cannot be changed, only replaced by another one.
            place = job.origin.locate("spec", "runtimeRef", "name")
        located.append(structs.replace(problem, location=place))
    return group, matched, located


def _without_live_fields(source: Source) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Return an object without fields that only a cluster writes, and a warning if it has any."""
    data = dict(source.data)
    metadata = dict(data.get("metadata") or {})
    live = [f"metadata.{name}" for name in _LIVE_METADATA if metadata.pop(name, None) is not None]
    if data.pop("status", None):
        live.append("status")
    annotations = dict(metadata.get("annotations") or {})
    if annotations.pop(LAST_APPLIED, None):
        live.append(f"annotation {LAST_APPLIED}")
        metadata["annotations"] = annotations
    if not annotations:
        metadata.pop("annotations", None)
    data["metadata"] = metadata
    if not live:
        return data, []
    what = f"{data['kind']} '{metadata.get('name', '')}'"
    place = source.locate(("metadata",), key=True)
    return data, [diagnose(codes.RUNTIME_METADATA, place, what=what, fields=", ".join(live))]


def _overlays_of(sources: Iterable[Any], changed_by: Mapping[Document, Sequence[str]]) -> set[str]:
    return {name for source in sources for name in changed_by.get(source, ())}
