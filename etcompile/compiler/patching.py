"""Documents in their namespace, after overlays, and each TrainJob with its runtime.

Apart from lowering because everything here holds for any document, of our kinds or not.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from etcompile import frontends, overlays
from etcompile.check.job_rules import check_run
from etcompile.compiler.environment import Environment
from etcompile.compiler.inputs import wanted, without_library
from etcompile.compiler.lowering import is_skipped
from etcompile.compiler.neighbours import is_namespaced
from etcompile.compiler.options import Options
from etcompile.compiler.runtimes import with_runtimes
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.frontends.operators import DLROVER
from etcompile.load import Document
from etcompile.model import DLROVER_VERSION


def patched(
    documents: Sequence[Document],
    options: Options,
    environment: Environment,
    runtimes: Sequence[Document] = (),
) -> overlays.PatchedDocuments:
    """The documents in their namespace, as the environment's overlays leave them.

    Args:
        documents: The documents of the input.
        options: How to compile.
        environment: What the overlays come to.
        runtimes: The runtimes of `--runtimes`; the overlays change those that jobs name.
    """
    kept, problems = _without_overlays(without_library(documents, runtimes), options)
    if any(_may_be_former(document) for document in kept):
        from etcompile.compiler.former import in_versions_of_today  # noqa: PLC0415 - few inputs do

        kept, former = in_versions_of_today(kept)
        problems += former
    placed, more = _in_namespace(kept, options.namespace)
    if (default := options.default_namespace) is not None:
        placed = [_placed(document, default) for document in placed]
    if options.dlrover_version is not None:
        placed = [_of_version(document, options.dlrover_version) for document in placed]
    problems += [*more, *check_run(options.settings.run, environment.place_of("run"))]
    kinds = overlays.Kinds(_templates, is_namespaced, options.namespace)
    result = overlays.patched_documents(placed, environment.edits, kinds)
    library = overlays.patched_documents(
        wanted(result.documents, runtimes), environment.edits, kinds
    )
    for part in (result, library):
        problems += [*part.diagnostics, *_twice(part.documents)]
    whole = with_runtimes(
        result.documents,
        {**result.sources, **library.sources},
        options.settings.kubernetes_version,
        library.documents,
        is_left=is_skipped if options.managed == "skip" else lambda _: False,
    )
    # Only now the Pod templates of jobs that have a runtime are there.
    of_templates = [edit for edit in environment.edits if edit.is_for_templates]
    completed = overlays.patched_documents([*whole.sources], of_templates, kinds)
    now = dict(zip(whole.sources, completed.documents, strict=True))
    sources = {**result.sources}
    for before, after in now.items():
        own = (*whole.sources[before], *completed.sources.get(after, ()))
        sources[after] = tuple(dict.fromkeys(own))
    return overlays.PatchedDocuments(
        documents=tuple(now.get(document, document) for document in whole.documents),
        matched=result.matched | library.matched | completed.matched,
        sources=sources,
        diagnostics=(*problems, *whole.diagnostics, *completed.diagnostics),
    )


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
    return left, [
        diagnose(codes.OVERLAY_AMONG_INPUTS, document.locate(("kind",)), file=document.file)
        for document in found
    ]


def _may_be_former(document: Document) -> bool:
    kind = document.kind or ""
    return frontends.is_known(kind) and frontends.find(document.api_version, kind) is None


def _templates(document: Document) -> Mapping[str, ValuePath] | None:
    """The paths of a document's Pod templates by role; None if its kind is not one of ours."""
    kind = frontends.find(document.api_version, document.kind)
    return kind.templates_by_role(document.data) if kind else None


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
                    codes.OPTION,
                    document.locate(("metadata", "namespace")),
                    option=f"--namespace {namespace}",
                    problem=f"{document.kind} '{document.name}' is in '{document.namespace}'",
                    advice="leave the namespace out of the file, or leave out --namespace",
                )
            )
        placed.append(_placed(document, namespace))
    return placed, problems


def _placed(document: Document, namespace: str) -> Document:
    """The document, in the namespace if it names none and can have one."""
    metadata = document.data.get("metadata")
    if not isinstance(metadata, dict) or not _takes_namespace(document):
        return document
    data = {**document.data, "metadata": {**metadata, "namespace": namespace}}
    return structs.replace(document, data=data)


def _of_version(document: Document, version: str) -> Document:
    """A job of DLRover that says its version of it; what it says already counts.

    In the document, and not beside it: the stored job is compiled again without this option.
    """
    metadata = document.data.get("metadata")
    kind = frontends.find(document.api_version, document.kind)
    if kind is None or kind.operator is not DLROVER or not isinstance(metadata, dict):
        return document
    given = metadata.get("annotations", {})
    if not isinstance(given, dict) or DLROVER_VERSION in given:
        return document
    annotations = {**given, DLROVER_VERSION: version}
    data = {**document.data, "metadata": {**metadata, "annotations": annotations}}
    return structs.replace(document, data=data)


def _takes_namespace(document: Document) -> bool:
    """Whether a document that names no namespace gets the one asked for."""
    if document.namespace is not None or document.api_version is None or document.kind is None:
        return False
    ours = frontends.find(document.api_version, document.kind) is not None
    return ours or is_namespaced(document.data)


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
            problems.append(diagnose(codes.SAME_OBJECT_TWICE, place, **facts))
    return problems
