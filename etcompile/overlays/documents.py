"""Overlays applied to the documents of the input, before anything is made of them.

The outcome is documents again, whose patched values stand in the overlay: all that follows
(schemas, frontends, rules) reports a bad one there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.k8s.fieldpath import dotted
from etcompile.load import Document, without_nulls
from etcompile.overlays import containers
from etcompile.overlays.errors import PatchError
from etcompile.overlays.operations import operated
from etcompile.overlays.overlay import Edit, ImageChange, Patch, Placement, ResourceChange
from etcompile.overlays.strategic import merged
from etcompile.overlays.traced import Step, Traced

_IDENTITY: tuple[ValuePath, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
)


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
        documents: The documents.
        edits: The edits of all overlays, in order.
        kinds: What is known of their kinds.

    Returns:
        The patched documents; one that an edit failed on is as it was before that edit.
    """
    patched, matched, problems = [], set(), []
    sources: dict[Document, tuple[str, ...]] = {}
    for document in documents:
        value = Traced(document.data, document)
        by: dict[str, None] = {}
        for edit in edits:
            try:
                after = _edited(value, document, edit, kinds)
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


def patched(value: Traced, edit: Patch, kind: str, at: ValuePath = ()) -> Traced:
    """A value after a patch of either sort; it is still the object it was.

    Args:
        value: What is patched.
        edit: The patch.
        kind: The kind of the whole object.
        at: Where in the object `value` stands.

    Raises:
        PatchError: the patch cannot be applied, or would make another object of it.
    """
    if isinstance(edit.patch.value, Mapping):
        after = merged(value, edit.patch, kind, at)
    else:
        after = operated(value, edit.patch)
    if not at:
        _check_identity(value, after, edit.patch)
    return after


def failed(label: str, error: PatchError) -> Diagnostic:
    """The diagnostic of a patch that could not be applied to the object of that label."""
    place = error.place.source.locate(error.place.path)
    return diagnose(
        codes.OVERLAY_PATCH, place, what=label, problem=error.problem, advice=error.advice
    )


def _check_identity(before: Traced, after: Traced, patch: Traced) -> None:
    for path in _IDENTITY:
        old, new = before.at(path), after.at(path)
        if (old and old.value) == (new and new.value):
            continue
        field = dotted(path)
        advice = "patch another field, or give the object this value where it is written"
        if path[-1] == "namespace":
            advice = "say 'namespace:' at the top of the overlay"
        # A value that was there before, or none, has no place in the overlay.
        place = new if new and new.source is patch.source else patch
        raise PatchError(f"cannot have another {field}", place, advice)


def _edited(value: Traced, document: Document, edit: Edit, kinds: Kinds) -> Traced | None:
    """The document after an edit; None if that is not for this document."""
    roots = kinds.templates(document)
    at = _selected(value, edit, roots, kinds)
    if at is None:
        return None
    match edit.change:
        case Placement(namespace):
            if roots is None and not (document.namespace or kinds.is_namespaced(document.data)):
                return None
            return _placed(value, namespace)
        case ImageChange():
            return containers.with_image(value, at, edit.change)
        case ResourceChange():
            return containers.with_resources(value, at, edit.change)
        case Patch():
            patch, kind = edit.change, str(document.kind)
            return value.changed(at, lambda part: patched(part, patch, kind, at))


def _selected(
    value: Traced, edit: Edit, roots: Mapping[str, ValuePath] | None, kinds: Kinds
) -> ValuePath | None:
    """The part of a document that an edit is for; None if it is for another document."""
    target = edit.target
    if target.kind is None:
        wrong = {"jobs": not roots, "documents": False, "objects": roots is not None}
        if wrong[edit.reach]:
            return None
    if not target.selects_document(value.value, kinds.namespace):
        return None
    if target.role is None:
        return ()
    if roots is None:
        return () if target.selects(value.value) else None
    at = roots.get(target.role)
    part = value.at(at) if at else None
    return at if part and isinstance(part.value, Mapping) else None


def _placed(value: Traced, namespace: Traced) -> Traced:
    """A document in another namespace; the accounts that a RoleBinding names come along."""
    parts = value.parts()
    metadata = parts.get("metadata")
    if metadata is None or not isinstance(metadata.value, Mapping):
        return value
    before = metadata.value.get("namespace")
    parts["metadata"] = metadata.with_fields({**metadata.parts(), "namespace": namespace})
    subjects = parts.get("subjects")
    if before and subjects and value.value.get("kind") == "RoleBinding":
        parts["subjects"] = subjects.with_items(
            [_subject(one, before, namespace) for one in subjects.items()]
        )
    return value.with_fields(parts)


def _subject(subject: Traced, before: str, namespace: Traced) -> Traced:
    if not isinstance(subject.value, Mapping) or subject.value.get("namespace") != before:
        return subject
    fields: dict[Step, Traced] = {**subject.parts(), "namespace": namespace}
    return subject.with_fields(fields)
