"""Overlays: what an environment changes of jobs that are written once.

An overlay holds settings, conveniences for what most environments differ in, and patches. They
are applied in two places: over the documents of the input, before a frontend sees them, and
over the compiled objects. The package knows no kind of job; the pipeline tells it what it must
know of one. What only a run with overlays needs (`settings`, `unmatched`) is imported from its
module, then.
"""

from etcompile.overlays.documents import Kinds, PatchedDocuments, patched_documents
from etcompile.overlays.files import Given, is_overlay, overlay_documents
from etcompile.overlays.objects import PatchedObject, PatchedObjects, patched_objects
from etcompile.overlays.overlay import (
    SCHEMA,
    Edit,
    Overlay,
    Placement,
    overlay_of,
    stored_edits,
    stored_patch,
)

__all__ = [
    "SCHEMA",
    "Edit",
    "Given",
    "Kinds",
    "Overlay",
    "PatchedDocuments",
    "PatchedObject",
    "PatchedObjects",
    "Placement",
    "is_overlay",
    "overlay_documents",
    "overlay_of",
    "patched_documents",
    "patched_objects",
    "stored_edits",
    "stored_patch",
]
