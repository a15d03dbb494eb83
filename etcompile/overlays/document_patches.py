"""Apply overlays to one document of the input, before it is checked and lowered.

The result is a document whose patched values are located in the overlay, so that schemas, frontends
and rules report a bad one there. As in kustomize, every entry of a list named `containers` or
`initContainers` is a container, so that image changes need no knowledge of kinds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.k8s.names import image_parts
from etcompile.k8s.objects import CONTAINERS, is_namespaced, without_nulls
from etcompile.k8s.path import dotted, mapping_at
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import PatchError, Step, Traced
from etcompile.load import Document
from etcompile.overlays.jsonpatch import operated
from etcompile.overlays.overlay import Edit

_IDENTITY: tuple[ValuePath, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
)


def patched_document(
    document: Document,
    edits: Sequence[Edit],
    templates: Mapping[str, ValuePath] | None,
    namespace: str | None,
) -> tuple[Document, list[Edit], list[str], list[Diagnostic]]:
    """Apply the edits that select a document, in order.

    Returns:
        The document without the effects of failed edits; the edits that select it; the relative
        names of the overlays that changed it; and a diagnostic for each failed edit.
    """
    value = Traced(document.data, document)
    matched: list[Edit] = []
    changed_by: list[str] = []
    problems: list[Diagnostic] = []
    for edit in edits:
        try:
            at = _target_path(value, edit, templates, namespace)
            after = None if at is None else _changed_by(value, edit, at)
        except PatchError as error:
            problems.append(failed(document.label, error))
            matched.append(edit)
            continue
        if after is not None:
            value = after
            matched.append(edit)
            changed_by.append(edit.origin.source.relative)
    if changed_by:
        data = without_nulls(value.value)
        document = structs.replace(document, data=data, origin=value, path=())
    return document, matched, changed_by, problems


def patched(value: Traced, patch: Traced, kind: str, at: ValuePath = ()) -> Traced:
    """Apply a patch of either kind, which must not change the identity of the object.

    `at` is the path of the value in the object.
    """
    if isinstance(patch.value, Mapping):
        after = merged(value, patch, kind, at)
    else:
        after = operated(value, patch)
    for path in _IDENTITY if not at else ():
        old, new = value.at(path), after.at(path)
        if (old and old.value) == (new and new.value):
            continue
        advice = "patch another field, or give the object this value where it is written"
        if path[-1] == "namespace":
            advice = "say 'namespace:' at the top of the overlay"
        # An old or removed value has no place in the overlay.
        place = new if new and new.source is patch.source else patch
        raise PatchError(f"cannot have another {dotted(path)}", place, advice)
    return after


def failed(label: str, error: PatchError) -> Diagnostic:
    place = error.place.source.locate(error.place.path)
    return diagnose(
        codes.OVERLAY_PATCH, place, what=label, problem=error.problem, advice=error.advice
    )


def _changed_by(value: Traced, edit: Edit, at: ValuePath) -> Traced | None:
    lists: tuple[str, ...] = ("containers",)  # resources of init containers stay
    change = _with_resources
    match edit.change:
        case "namespace":
            return _in_namespace(value, edit.value)
        case "patch":
            kind = str(value.value.get("kind"))
            return value.changed(at, lambda part: patched(part, edit.value, kind, at))
        case "image":
            lists, change = CONTAINERS, _with_image
    part, entry = value.at(at), edit.value
    containers = (place for place, _ in _containers(part.value if part else None, at, lists))
    places = [place for place in containers if (old := value.at(place)) and change(old, entry)]
    for place in places:
        value = value.changed(place, lambda container: change(container, entry) or container)
    return value if places else None


def _target_path(
    value: Traced,
    edit: Edit,
    templates: Mapping[str, ValuePath] | None,
    namespace: str | None,
) -> ValuePath | None:
    """Return the path of the part that an edit is for; None if it is for another document."""
    target = edit.target
    if target.kind is None:
        is_ours = templates is not None
        wrong = {"jobs": not templates, "documents": False, "objects": is_ours}
        if wrong[edit.reach]:
            return None
    if not target.selects_document(value.value, namespace):
        return None
    if edit.change == "namespace" and templates is None:
        named = mapping_at(value.value, ("metadata",)).get("namespace")
        return () if named or is_namespaced(value.value) else None
    if target.role is None:
        return ()
    if templates is None:
        return () if target.selects(value.value) else None
    at = templates.get(target.role)
    part = value.at(at) if at else None
    return at if part and isinstance(part.value, Mapping) else None


def _in_namespace(value: Traced, namespace: Traced) -> Traced:
    """Move a document, and the accounts that a RoleBinding names, to another namespace."""
    parts = value.parts()
    metadata = parts.get("metadata")
    if metadata is None or not isinstance(metadata.value, Mapping):
        return value
    before = metadata.value.get("namespace")
    parts["metadata"] = metadata.with_fields({**metadata.parts(), "namespace": namespace})

    def moved(subject: Traced) -> Traced:
        if not isinstance(subject.value, Mapping) or subject.value.get("namespace") != before:
            return subject
        fields: dict[Step, Traced] = {**subject.parts(), "namespace": namespace}
        return subject.with_fields(fields)

    subjects = parts.get("subjects")
    if before and subjects and value.value.get("kind") == "RoleBinding":
        parts["subjects"] = subjects.with_items(map(moved, subjects.items()))
    return value.with_fields(parts)


def new_image(image: str, entry: Mapping[str, Any]) -> str | None:
    """Return an image with its new name, tag or digest; None if the entry is for another image.

    A new tag or digest replaces both.
    """
    name = image_parts(image)[0]
    if not fnmatchcase(name, entry["name"]):
        return None
    suffix = image[len(name) :]
    tag, digest = entry.get("newTag"), entry.get("digest")
    if tag or digest:
        suffix = (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    return f"{entry.get('newName') or name}{suffix}"


def _with_image(container: Traced, entry: Traced) -> Traced | None:
    image = container.value.get("image")
    new = new_image(image, entry.value) if isinstance(image, str) else None
    if new is None:
        return None
    parts = container.parts()
    if new != image:
        written = (entry.part(field) for field in ("digest", "newTag", "newName"))
        origin = next((part for part in written if part), entry)
        parts["image"] = Traced(new, origin.source, origin.path)
    if policy := entry.part("pullPolicy"):
        parts["imagePullPolicy"] = policy
    return container.with_fields(parts)


def _with_resources(container: Traced, entry: Traced) -> Traced | None:
    if not fnmatchcase(str(container.value.get("name", "")), entry.value.get("container") or "*"):
        return None
    parts = container.parts()
    resources = parts.pop("resources", None) or entry.with_fields({})
    new: dict[Step, Traced] = {
        step: part for step, part in entry.parts().items() if step in ("limits", "requests")
    }
    same = "requests" in new and not isinstance(new["requests"].value, Mapping)
    as_limits = new.pop("requests") if same else None
    resources = merged(resources, entry.with_fields(new), "")
    fields = resources.parts()
    if as_limits:
        limits = fields["limits"].parts() if "limits" in fields else {}
        requests = fields.get("requests") or as_limits.with_fields({})
        equal: dict[Step, Traced] = {
            name: Traced(part.value, as_limits.source, as_limits.path)
            for name, part in limits.items()
        }
        fields["requests"] = requests.with_fields({**requests.parts(), **equal})
    fields = {step: part for step, part in fields.items() if part.value}
    if fields:
        parts["resources"] = resources.with_fields(fields)
    return container.with_fields(parts)


def _containers(
    value: Any, at: ValuePath, lists: tuple[str, ...]
) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    if isinstance(value, list):
        for n, item in enumerate(value):
            yield from _containers(item, (*at, n), lists)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key in lists and isinstance(inner, list):
                for n, container in enumerate(inner):
                    if isinstance(container, Mapping):
                        yield (*at, key, n), container
            elif key not in ("metadata", "status") or at:
                yield from _containers(inner, (*at, key), lists)


_LISTED = 8


def unmatched(
    edits: Iterable[Edit],
    documents: Iterable[Mapping[str, Any]],
    objects: Iterable[Mapping[str, Any]],
) -> Iterator[Diagnostic]:
    """Yield an error for each edit, none of which matched a document or an object."""
    documents, objects = list(documents), list(objects)
    for edit in edits:
        place = edit.origin.locate("name" if edit.change == "image" else "target")
        entry, what = edit.value.value, str(edit.target)
        if edit.change == "image":
            where = f" in {what}" if edit.target.kind or edit.target.role else ""
            what = f"container with the image '{entry['name']}'{where}"
        elif edit.change == "resources":
            what = f"container '{entry.get('container') or '*'}' in {what}"
        facts = {"entry": edit.title, "what": what, "advice": _advice(edit, documents, objects)}
        yield diagnose(codes.OVERLAY_MATCHES_NOTHING, place, **facts)


def _advice(
    edit: Edit, documents: list[Mapping[str, Any]], objects: list[Mapping[str, Any]]
) -> str:
    target = edit.target
    if edit.change in ("image", "resources"):
        kinds = {document.get("kind") for document in documents}
        if target.kind and target.kind not in kinds:
            return "images and resources are changed in the inputs: name a kind of these, or none"
    if edit.change == "image":
        containers = (c for value in documents for _, c in _containers(value, (), CONTAINERS))
        images = {image for c in containers if isinstance(image := c.get("image"), str)}
        return f"the images here are: {_list(images)}; name one without its tag"
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
