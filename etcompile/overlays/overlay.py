"""An overlay document to settings and edits.

Every convenience of an overlay becomes an edit of one of four sorts, so that the two places that
apply edits, before the frontends and after the backend, need to know no more than these.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from etcompile.diagnostics import Source
from etcompile.k8s.path import value_at
from etcompile.k8s.traced import Traced
from etcompile.model import Origin
from etcompile.overlays.target import Target, target_of, target_value

API_VERSION = "etcompile.dev/v1alpha1"
KIND = "Overlay"
SCHEMA = "Overlay.json"

Reach = Literal["jobs", "documents", "objects"]
"""What an edit whose target names no kind is for: job documents; these and other objects among
the inputs; or everything that is rendered."""


class Placement(Struct, frozen=True):
    """Moves documents into a namespace."""

    namespace: Traced


class Patch(Struct, frozen=True):
    """A strategic merge patch (a mapping) or a JSON patch (a list)."""

    patch: Traced


class ImageChange(Struct, frozen=True):
    """Another name, tag, digest or pull policy for an image.

    Args:
        name: The image, without tag and digest; may be a glob.
        entry: Where the new values are written.
    """

    name: str
    entry: Traced


class ResourceChange(Struct, frozen=True):
    """Other requests and limits.

    Args:
        container: A glob over the names of containers.
        entry: Where the new values are written.
    """

    container: str
    entry: Traced


Change = Placement | Patch | ImageChange | ResourceChange


class Edit(Struct, frozen=True, eq=False):
    """One entry of an overlay; two are the same only if they are one.

    Args:
        origin: Where it stands.
        reach: What it is for when its target names no kind.
        target: What it applies to.
        change: What it does.
        optional: It may match nothing.
    """

    origin: Origin
    reach: Reach
    target: Target
    change: Change
    optional: bool = False

    @property
    def title(self) -> str:
        """What messages call it: `patches[0]`."""
        words = ""
        for step in self.origin.path:
            words += f"[{step}]" if isinstance(step, int) else f".{step}"
        return words.removeprefix(".")

    @property
    def is_for_templates(self) -> bool:
        """Whether it is for Pod templates, and leaves what is beside them in a document."""
        by_role = isinstance(self.change, Patch) and self.target.role is not None
        return by_role or isinstance(self.change, ImageChange | ResourceChange)

    @property
    def metadata_only(self) -> bool:
        """Whether it leaves everything but labels and annotations as it is."""
        change = self.change
        if not isinstance(change, Patch):
            return False
        if isinstance(change.patch.value, Mapping):
            return change.patch.value.keys() <= {"metadata"}
        return all(
            str(operation.get(field) or "/metadata/").startswith("/metadata/")
            for operation in change.patch.value
            for field in ("path", "from")
        )


class Overlay(Struct, frozen=True):
    """An overlay.

    Args:
        source: Its document.
        settings: Compiler settings, by the name they have in the file.
        edits: What it does to documents and objects, in the order in which it is done.
    """

    source: Source
    settings: Mapping[str, Any]
    edits: tuple[Edit, ...]


def overlay_of(source: Source) -> Overlay:
    """The overlay that a document describes.

    Args:
        source: A document that `schemas/Overlay.json` accepts.
    """
    given = source.data.get("settings") or {}
    settings = {name: value for name, value in given.items() if value is not None}
    return Overlay(source, settings, tuple(_edits(source)))


def stored_patch(edit: Edit) -> dict[str, Any]:
    """An edit of objects as the stored job carries it."""
    assert isinstance(edit.change, Patch)  # noqa: S101 - nothing else edits objects
    value: dict[str, Any] = {"patch": edit.change.patch.value}
    target = target_value(edit.target)
    return {"target": target, **value} if target else value


def stored_edits(source: Source, path: tuple[str | int, ...]) -> tuple[Edit, ...]:
    """The edits that a stored job carries as a list at a path."""
    entries = value_at(source.data, path)
    return tuple(_patch(source, (*path, n), entry, "objects") for n, entry in enumerate(entries))


def _edits(source: Source) -> Iterator[Edit]:
    data: Mapping[str, Any] = source.data
    if (namespace := data.get("namespace")) is not None:
        origin = Origin(source, ("namespace",))
        placement = Placement(Traced(namespace, source, origin.path))
        yield Edit(origin, "documents", Target(), placement, optional=True)
    for field in ("labels", "annotations"):
        for path, entry in _entries(data, field):
            patch = _metadata(field, Traced(entry["pairs"], source, (*path, "pairs")))
            yield _edit(source, path, entry, "objects", Patch(patch))
    for path, entry in _entries(data, "images"):
        change = ImageChange(entry["name"], Traced(entry, source, path))
        yield _edit(source, path, entry, "documents", change)
    for path, entry in _entries(data, "resources"):
        resources = ResourceChange(entry.get("container") or "*", Traced(entry, source, path))
        yield _edit(source, path, entry, "jobs", resources)
    for path, entry in _entries(data, "patches"):
        yield _patch(source, path, entry, "jobs")


def _entries(
    data: Mapping[str, Any], field: str
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    entries: Sequence[Mapping[str, Any]] = data.get(field) or ()
    for n, entry in enumerate(entries):
        yield (field, n), entry


def _patch(source: Source, path: tuple[str | int, ...], entry: Any, reach: Reach) -> Edit:
    patch = Patch(Traced(entry["patch"], source, (*path, "patch")))
    return _edit(source, path, entry, reach, patch)


def _edit(
    source: Source,
    path: tuple[str | int, ...],
    entry: Mapping[str, Any],
    reach: Reach,
    change: Change,
) -> Edit:
    target = target_of(entry.get("target") or {})
    optional = bool(entry.get("optional"))
    return Edit(Origin(source, path), reach, target, change, optional=optional)


def _metadata(field: str, pairs: Traced) -> Traced:
    """A merge patch that holds nothing but labels or annotations."""
    place = pairs.source, pairs.path
    inner = Traced({field: pairs.value}, *place, {field: pairs})
    return Traced({"metadata": inner.value}, *place, {"metadata": inner})
