"""What to say of an entry that matched nothing: mostly a typo, or an example that has moved on.

Apart from the matching, since only a complaint needs it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
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
    """An error for each edit that matched nothing and is not optional.

    Args:
        edits: All edits.
        matched: Those that matched something.
        documents: The documents of the input.
        objects: The compiled objects.
    """
    missing = [edit for edit in edits if edit not in matched and not edit.optional]
    if not missing:
        return
    documents, objects = list(documents), list(objects)
    for edit in missing:
        place = edit.origin.locate("target")
        if isinstance(edit.change, ImageChange):
            place = edit.origin.locate("name")
        yield diagnose(
            codes.OVERLAY_MATCHES_NOTHING,
            place,
            entry=edit.title,
            what=_what(edit),
            advice=_advice(edit, documents, objects),
        )


def _what(edit: Edit) -> str:
    change = edit.change
    if isinstance(change, ImageChange):
        where = f" in {edit.target}" if edit.target.kind or edit.target.role else ""
        return f"container with the image '{change.name}'{where}"
    if isinstance(change, ResourceChange):
        return f"container '{change.container}' in {edit.target}"
    return str(edit.target)


def _advice(
    edit: Edit, documents: list[Mapping[str, Any]], objects: list[Mapping[str, Any]]
) -> str:
    change, target = edit.change, edit.target
    if isinstance(change, ImageChange | ResourceChange):
        kinds = {document.get("kind") for document in documents}
        if target.kind and target.kind not in kinds:
            return _INPUTS_ONLY
    if isinstance(change, ImageChange):
        found = {image for document in documents for image in images(document)}
        return f"the images here are: {_list(found)}"
    every = [*documents, *objects]
    alike = {_name(value) for value in every if target.kind and value.get("kind") == target.kind}
    if alike:
        return f"each {target.kind} here: {_list(alike)}"
    if target.kind is None:
        return "without a kind, a patch is for job documents; name the kind, such as Pod"
    return f"the kinds here are: {_list({str(value.get('kind')) for value in every})}"


def _name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _list(words: Iterable[str]) -> str:
    listed = sorted(words)
    more = ", ..." if len(listed) > _LISTED else ""
    return f"{', '.join(listed[:_LISTED])}{more}" or "none"
