"""Overlays applied to the documents of the input, before anything is made of them.

The outcome is documents again, whose patched values stand in the overlay: all that follows
(schemas, frontends, rules) reports a bad one there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, ValuePath
from etcompile.k8s.objects import without_nulls
from etcompile.k8s.traced import PatchError, Traced
from etcompile.load import Document
from etcompile.overlays.overlay import Edit


class Kinds(Struct, frozen=True):
    """What has to be known of kinds to patch documents.

    Args:
        templates: The paths of a document's Pod templates by role; None if it is of no kind
            that is compiled.
        is_namespaced: Whether an object of another kind that names no namespace can have one.
        namespace: The namespace of documents that name none, if one was chosen.
    """

    templates: Callable[[Document], Mapping[str, ValuePath] | None]
    is_namespaced: Callable[[dict[str, Any]], bool]
    namespace: str | None = None


class PatchedDocuments(Struct, frozen=True):
    """The documents after overlays.

    Args:
        documents: All of them, in the order given.
        matched: The edits that applied to any.
        sources: The relative names of the overlays that changed a document.
        diagnostics: The edits that failed.
    """

    documents: tuple[Document, ...]
    matched: frozenset[Edit]
    sources: Mapping[Document, tuple[str, ...]]
    diagnostics: tuple[Diagnostic, ...]


def patched_documents(
    documents: Sequence[Document], edits: Sequence[Edit], kinds: Kinds
) -> PatchedDocuments:
    """The documents after all edits that are for documents.

    Args:
        documents: The documents of the input, in order.
        edits: The edits of all overlays, in order.
        kinds: What is known of their kinds.

    Returns:
        The patched documents; one that an edit failed on is as it was before that edit.
    """
    if not edits:
        return PatchedDocuments(tuple(documents), frozenset(), {}, ())
    from etcompile.overlays.document_patches import (  # noqa: PLC0415 - most runs have no overlay
        edited,
        failed,
    )

    patched, matched, problems = [], set(), []
    sources: dict[Document, tuple[str, ...]] = {}
    for document in documents:
        value = Traced(document.data, document)
        by: dict[str, None] = {}
        for edit in edits:
            try:
                after = edited(value, document, edit, kinds)
            except PatchError as error:
                problems.append(failed(document.label, error))
                matched.add(edit)
                continue
            if after is not None:
                matched.add(edit)
                value = after
                by[edit.origin.source.relative] = None
        if by:
            data = without_nulls(value.value)
            document = structs.replace(  # noqa: PLW2901
                document, data=data, origin=value, path=()
            )
            sources[document] = tuple(by)
        patched.append(document)
    return PatchedDocuments(tuple(patched), frozenset(matched), sources, tuple(problems))
