"""One edit of a document: a patch, an image, resources or a namespace.

Apart from `documents`, because most runs have no overlay.
"""

from collections.abc import Mapping

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import PatchError, Step, Traced
from etcompile.load import Document
from etcompile.overlays import containers
from etcompile.overlays.documents import Kinds
from etcompile.overlays.operations import operated
from etcompile.overlays.overlay import Edit, ImageChange, Patch, Placement, ResourceChange

_IDENTITY: tuple[ValuePath, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
)


def patched(value: Traced, edit: Patch, kind: str, at: ValuePath = ()) -> Traced:
    """A value after a patch of either sort; it is still the object it was.

    Args:
        value: What is patched.
        edit: A strategic merge patch, or a JSON patch.
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


def edited(value: Traced, document: Document, edit: Edit, kinds: Kinds) -> Traced | None:
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
            [_subject(subject, before, namespace) for subject in subjects.items()]
        )
    return value.with_fields(parts)


def _subject(subject: Traced, before: str, namespace: Traced) -> Traced:
    if not isinstance(subject.value, Mapping) or subject.value.get("namespace") != before:
        return subject
    fields: dict[Step, Traced] = {**subject.parts(), "namespace": namespace}
    return subject.with_fields(fields)
