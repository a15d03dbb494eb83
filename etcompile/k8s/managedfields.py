"""Read from managedFields which manager owns which field of a live object.

A set of fields is what the API server writes as `fieldsV1`: nested mappings whose keys are
`f:FIELD`, `k:{"name":"main"}` for an item of a list, `v:"x"` for a value of a set and `.` for the
field itself. An empty mapping stands for everything below, as one (reference/gitops.md 4.4).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s.listkeys import owned_key
from etcompile.k8s.objects import Object, seconds

Fields = Mapping[str, Any]
Others = tuple[tuple[str, Fields], ...]
"""Managers by name, each with the fields it owns."""


class Ownership(Struct, frozen=True):
    """The owners of an object's fields."""

    ours: Fields | None  # what our manager applied; None if it applied nothing
    others: Others  # managers that own more than the status
    known: bool  # whether the object has managedFields at all


def ownership(live: Object, manager: str) -> Ownership:
    ours: Fields | None = None
    others: list[tuple[str, Fields]] = []
    entries = live["metadata"].get("managedFields") or ()
    for entry in entries:
        fields, name = entry.get("fieldsV1") or {}, entry.get("manager") or ""
        if entry.get("subresource") == "status":
            continue
        if name != manager:
            others.append((name, fields))
        elif entry.get("operation") == "Apply":
            ours = fields
    return Ownership(ours, tuple(others), bool(entries))


def last_written(live: Object, step: str) -> float:
    """Return when a field, or one below it, was last changed (seconds since 1970); 0 if unknown."""
    entries = live["metadata"].get("managedFields") or ()
    return max(
        (
            seconds(entry.get("time")) or 0.0
            for entry in entries
            if below(entry.get("fieldsV1"), step)
        ),
        default=0.0,
    )


def below(fields: Fields | None, step: str) -> Fields | None:
    owned: Fields | None = fields.get(f"f:{step}") if fields else None
    return owned


def of_item(fields: Fields | None, key: Mapping[str, Any]) -> Fields | None:
    """Return the owned fields below the list item with this key; None if there are none."""
    owned: Fields
    for name, owned in (fields or {}).items():
        if name.startswith("k:") and owned_key(name) == key:
            return owned
    return None


def others_below(others: Others, step: str | Mapping[str, Any]) -> Others:
    owners: list[tuple[str, Fields]] = []
    for name, fields in others:
        inner: Fields | None = fields
        if fields:  # an empty set stands for everything below
            inner = below(fields, step) if isinstance(step, str) else of_item(fields, step)
        if inner is not None:
            owners.append((name, inner))
    return tuple(owners)
