"""What to say of an entry that matched nothing: mostly a typo, or an example that has moved on."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.path import mapping_at
from etcompile.overlays.document_patches import images
from etcompile.overlays.overlay import Edit, ImageChange, ResourceChange

_LISTED = 8
_INPUTS_ONLY = "images and resources are changed in the inputs: name a kind of these, or none"


def unmatched(
    edits: Iterable[Edit],
    matched: Collection[Edit],
    documents: Iterable[Mapping[str, Any]],
    objects: Iterable[Mapping[str, Any]],
) -> Iterator[Diagnostic]:
    """An error for each edit that matched no document and no object, and is not optional."""
    missing = [edit for edit in edits if edit not in matched and not edit.optional]
    if not missing:
        return
    documents, objects = list(documents), list(objects)
    for edit in missing:
        place = edit.origin.locate("name" if isinstance(edit.change, ImageChange) else "target")
        change, what = edit.change, str(edit.target)
        if isinstance(change, ImageChange):
            where = f" in {what}" if edit.target.kind or edit.target.role else ""
            what = f"container with the image '{change.name}'{where}"
        elif isinstance(change, ResourceChange):
            what = f"container '{change.container}' in {what}"
        facts = {"entry": edit.title, "what": what, "advice": _advice(edit, documents, objects)}
        yield diagnose(codes.OVERLAY_MATCHES_NOTHING, place, **facts)


def _advice(
    edit: Edit, documents: list[Mapping[str, Any]], objects: list[Mapping[str, Any]]
) -> str:
    change, target = edit.change, edit.target
    if isinstance(change, ImageChange | ResourceChange):
        kinds = {document.get("kind") for document in documents}
        if target.kind and target.kind not in kinds:
            return _INPUTS_ONLY
    if isinstance(change, ImageChange):
        here = {image for document in documents for image in images(document)}
        return f"the images here are: {_list(here)}"
    every = [*documents, *objects]
    names = {
        str(mapping_at(value, ("metadata",)).get("name", ""))
        for value in every
        if target.kind and value.get("kind") == target.kind
    }
    if names:
        return f"each {target.kind} here: {_list(names)}"
    if target.kind is None:
        return "without a kind, a patch is for job documents; name the kind, such as Pod"
    return f"the kinds here are: {_list({str(value.get('kind')) for value in every})}"


def _list(words: Iterable[str]) -> str:
    listed = sorted(words)
    more = ", ..." if len(listed) > _LISTED else ""
    return f"{', '.join(listed[:_LISTED])}{more}" or "none"
