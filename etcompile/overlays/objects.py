"""Overlays applied to the objects of a job, after the backend made them.

What the job relies on at run time (names, selectors, the gate, the run-once guard) stays as it
was compiled. Replicas that share a spec share the patched one, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, ValuePath
from etcompile.k8s.objects import Object
from etcompile.k8s.traced import Traced
from etcompile.overlays.overlay import Edit, Patch


class PatchedObject(Struct, frozen=True):
    """An object after overlays; a `diagnostics.Source`.

    Args:
        data: The object.
        relative: The overlay that touched it last.
        value: The same, with origins.
    """

    data: dict[str, Any]
    relative: str
    value: Traced

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of the value at `path`; of the first edit that touched the object, if none."""
        return self.value.locate(path, key=key)


class PatchedObjects(Struct, frozen=True):
    """A job's objects after overlays.

    Args:
        objects: All of them, in the order given.
        changed: Those that an edit touched; of a role's replicas that the same edits touched, one.
        edits: The edits that applied to any, in order, each with the kinds that it touched.
        diagnostics: The edits that failed, or would break the job.
    """

    objects: tuple[Object, ...]
    changed: tuple[PatchedObject, ...]
    edits: Mapping[Edit, frozenset[str]]
    diagnostics: tuple[Diagnostic, ...]


def patched_objects(
    objects: Sequence[Object], edits: Sequence[Edit], *, own_labels: frozenset[str]
) -> PatchedObjects:
    """The objects of a job after all edits that are for objects.

    Args:
        objects: What the backend made.
        edits: The edits of all overlays, in order.
        own_labels: Keys of labels that objects of the job are found by.
    """
    patches = [edit for edit in edits if isinstance(edit.change, Patch)]
    if not patches:
        return PatchedObjects(tuple(objects), (), {}, ())
    from etcompile.overlays.object_patches import patch_objects  # noqa: PLC0415 - most runs have none

    return patch_objects(objects, patches, own_labels)
