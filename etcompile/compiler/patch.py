"""Put documents into their namespace, apply overlays, and merge each TrainJob with its runtime."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import overlays
from etcompile.check.document_rules import check_schema
from etcompile.compiler.choices import Options
from etcompile.compiler.load import Sources, file_and_index
from etcompile.compiler.lower import is_skipped, kind_of
from etcompile.compiler.olderapis import in_current_version
from etcompile.compiler.runtime_merge import with_runtimes
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.kind import DLROVER
from etcompile.frontends.trainer.runtimes import is_runtime, named_runtimes
from etcompile.k8s.objects import is_namespaced
from etcompile.load import Document
from etcompile.model import DLROVER_VERSION


class PatchedDocuments(Struct, frozen=True):
    """The documents after overlays.

    Args:
        documents: All of them except runtimes, in the order of the input.
        sources: The relative names of the other files that a document depends on.
    """

    documents: tuple[Document, ...]
    matched: frozenset[overlays.Edit]
    sources: Mapping[Document, tuple[str, ...]]
    diagnostics: tuple[Diagnostic, ...]


def patch(read: Sources) -> PatchedDocuments:
    """Prepare the documents and apply overlays, also to the runtimes that jobs name."""
    options, documents, library = read.options, read.inputs.documents, read.library
    problems: list[Diagnostic] = []
    matched: set[overlays.Edit] = set()
    sources: dict[Document, tuple[str, ...]] = {}
    edits = read.environment.edits

    def overlaid(document: Document, edits: Sequence[overlays.Edit]) -> Document:
        if not edits or document.is_rendered:  # overlays applied when it was rendered
            return document
        from etcompile.overlays import document_patches  # noqa: PLC0415 - few runs have overlays

        kind = kind_of(document)
        templates = kind.templates_by_role(document.data) if kind else None
        after, its_edits, changed_by, failed = document_patches.patched_document(
            document, edits, templates, options.namespace
        )
        matched.update(its_edits)
        problems.extend(failed)
        if names := (*sources.get(document, ()), *changed_by):
            sources[after] = tuple(dict.fromkeys(names))
        return after

    prepared = []
    in_library = {file_and_index(runtime) for runtime in library if runtime.digest is not None}
    has_jobs = any(map(kind_of, documents))
    for document in documents:
        # A folder may hold overlays. Warn only if the user passed no overlay.
        if overlays.is_overlay(document):
            problems += check_schema(document, overlays.SCHEMA) if options.lint else ()
            if not options.overlays and (has_jobs or not options.lint):
                place, file = document.locate(("kind",)), document.file
                problems.append(diagnose(codes.OVERLAY_AMONG_INPUTS, place, file=file))
        elif not (in_library and is_runtime(document) and file_and_index(document) in in_library):
            prepared.append(_prepared(document, options, problems))
    patched = [overlaid(document, edits) for document in prepared]
    named = named_runtimes(patched)
    runtimes = [overlaid(runtime, edits) for runtime in library if runtime.name in named]
    problems += [*_repeated(patched), *_repeated(runtimes)]
    merged, depends_on, refusals = with_runtimes(
        patched,
        sources,
        options.settings.kubernetes_version,
        runtimes,
        is_left=is_skipped if options.managed == "skip" else lambda _: False,
    )
    problems += refusals
    sources |= depends_on
    # Jobs have the Pod templates of their runtime only now.
    of_templates = [edit for edit in edits if edit.is_for_templates]
    complete = [
        overlaid(document, of_templates) if document in depends_on else document
        for document in merged
    ]
    return PatchedDocuments(tuple(complete), frozenset(matched), sources, tuple(problems))


def _prepared(document: Document, options: Options, problems: list[Diagnostic]) -> Document:
    """Return a document in its current API version, with what the options add to it."""
    document, warnings = in_current_version(document)
    problems += warnings
    namespace = options.namespace
    if namespace is not None and document.namespace not in (None, namespace):
        # As in kubectl, no document may name another namespace.
        problems.append(
            diagnose(
                codes.OPTION,
                document.locate(("metadata", "namespace")),
                option=f"--namespace {namespace}",
                problem=f"{document.kind} '{document.name}' is in '{document.namespace}'",
                advice="leave the namespace out of the file, or leave out --namespace",
            )
        )
    metadata = document.data.get("metadata")
    if not isinstance(metadata, dict):
        return document
    added: dict[str, Any] = {}
    kind = kind_of(document)
    default = options.default_namespace if namespace is None else namespace
    has_kind = document.api_version is not None and document.kind is not None
    takes_namespace = kind is not None or (has_kind and is_namespaced(document.data))
    if default is not None and document.namespace is None and takes_namespace:
        added["namespace"] = default
    version = options.dlrover_version
    if version is not None and kind is not None and kind.operator is DLROVER:
        # Added to the document, because the stored job is compiled again without this option. A
        # version that is already set takes precedence.
        annotations = metadata.get("annotations", {})
        if isinstance(annotations, dict) and DLROVER_VERSION not in annotations:
            added["annotations"] = {**annotations, DLROVER_VERSION: version}
    if not added:
        return document
    data = {**document.data, "metadata": {**metadata, **added}}
    return structs.replace(document, data=data)


def _repeated(documents: Sequence[Document]) -> list[Diagnostic]:
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
            problems.append(diagnose(codes.SAME_OBJECT_TWICE, place, **facts))
    return problems
