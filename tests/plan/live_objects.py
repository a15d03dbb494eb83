"""Live objects for tests: what an API server makes of a manifest, with who wrote which field."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.k8s import listkeys


def fields(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fieldsV1 of whoever applied a value."""
    entries: dict[str, Any] = {}
    for key, inner in value.items():
        if not path and key in ("apiVersion", "kind"):
            continue
        field = (*path, key)
        if isinstance(inner, Mapping) and inner and not listkeys.is_one(field):
            entries[f"f:{key}"] = fields(inner, field)
        elif isinstance(inner, list) and (names := listkeys.keys(field, inner)):
            entries[f"f:{key}"] = {_key(one, names): fields(one, (*field, "[]")) for one in inner}
        else:
            entries[f"f:{key}"] = {}
    if path == ("metadata",):
        entries.pop("f:name", None)
        entries.pop("f:namespace", None)
    return entries


def _key(one: Mapping[str, Any], names: Sequence[str]) -> str:
    import json

    return "k:" + json.dumps(listkeys.key(one, tuple(names)), separators=(",", ":"))


def live(
    manifest: Mapping[str, Any],
    *,
    by: str = "etcompile",
    others: Mapping[str, Mapping[str, Any]] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """The object as `by` applied it; `others` are further managers with the values they wrote."""
    copied = copy.deepcopy(dict(manifest))
    entries = [_entry(by, manifest)]
    for name, value in (others or {}).items():
        _merge(copied, value)
        entries.append(_entry(name, value, operation="Update"))
    copied["metadata"] |= {
        "uid": f"uid-{copied['metadata']['name']}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": entries,
        **metadata,
    }
    return copied


def _entry(manager: str, value: Mapping[str, Any], operation: str = "Apply") -> dict[str, Any]:
    if manager != "etcompile":
        operation = "Update"
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields(value),
    }


def _merge(target: dict[str, Any], value: Mapping[str, Any]) -> None:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and isinstance(target.get(key), dict):
            _merge(target[key], inner)
        else:
            target[key] = copy.deepcopy(inner)
