"""Know the API server's defaults, and which different values mean the same.

The defaults are a part of `schemas/kubernetes/updates.yaml`, whose comments describe its rows.
"""

import functools
from collections.abc import Mapping
from typing import Any

from etcompile import data
from etcompile.k8s import quantity
from etcompile.k8s.names import image_parts
from etcompile.k8s.path import KeyedPath

_AMOUNTS = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
_LIMIT_RANGE = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})
_AS_WRITTEN = frozenset(
    # Computed from other fields, and written out by ready-made overlays.
    {"imagePullPolicy", "requests"}
    # etcompile sets another value.
    | {"schedulerName", "serviceAccountName", "terminationMessagePolicy"}
)
"""Fields that are never dropped as defaults, even if they hold the API server's."""
_EMPTY = frozenset({"resources", "securityContext"})
"""Fields in which an empty mapping means nothing."""
_DROPPED = frozenset({"hostIPC", "hostNetwork", "hostPID", "publishNotReadyAddresses", "readOnly"})
"""Fields of which the API server does not keep a false."""
_EMPTIED = frozenset({"annotations", "data", "labels", "limits", "requests"})
"""Fields of which it does not keep an empty mapping."""


@functools.cache
def table() -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - seldom needed by commands that do not compile

    text = (data.folder("schemas") / "kubernetes" / "updates.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content: dict[str, Any] = yaml.load(text, loader)  # noqa: S506 - ours
    return content


def default(kind: str, path: KeyedPath, around: Mapping[str, Any]) -> Any:
    """Return the default of a field; None if it has none.

    Args:
        around: The mapping that lacks the field; some defaults follow from other fields.
    """
    value: Any = table()["defaults"].get(kind)
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get("*" if step.startswith("[") else step)
    if not isinstance(value, dict):
        return value
    match value.get("computed"):
        case "completions":
            return None if "parallelism" in around else 1
        case "limits":
            return around.get("limits")
        case "pull_policy":
            name, tag, digest = image_parts(str(around.get("image", "")))
            return "Always" if name and not digest and tag in ("", "latest") else "IfNotPresent"
    return None


# Values that mean the same ------------------------------------------------------------------------


def same(path: KeyedPath, one: Any, other: Any) -> bool:
    """Compare two values of a field; `1` and `1000m` are the same quantity."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same((*path, key), one[key], other[key]) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            same((*path, "[]"), a, b) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if one == other:
        return True
    if not _is_amount(path) or isinstance(one, dict | list) or isinstance(other, dict | list):
        return False
    before, after = quantity.number(one), quantity.number(other)
    return before is not None and before == after


def _is_amount(path: KeyedPath) -> bool:
    return path[-1] in ("divisor", "sizeLimit", "storage") or (
        len(path) > 1
        and (path[-2] in _AMOUNTS or (path[-2] in _LIMIT_RANGE and path[:2] == ("spec", "limits")))
    )


def means_nothing(
    kind: str, path: KeyedPath, value: Any, around: Mapping[str, Any], *, whole: bool
) -> bool:
    """Return whether an object means the same without this value of a field.

    Args:
        around: The mapping that the field is in.
        whole: So does a mapping in which each field has its default.
    """
    name = path[-1]
    if isinstance(value, bool):
        is_dropped = not value and name in _DROPPED
    elif isinstance(value, list):
        is_dropped = not value
    elif isinstance(value, Mapping):
        is_dropped = not value and name in _EMPTIED
    else:
        is_dropped = value is None or (value == "" and name != "storageClassName")
    return (
        is_dropped
        or same(path, value, default(kind, path, around))
        or (whole and isinstance(value, Mapping) and _only_defaults(kind, path, value))
    )


def _only_defaults(kind: str, path: KeyedPath, value: Mapping[str, Any]) -> bool:
    return bool(value) and all(
        _only_defaults(kind, (*path, name), inner)
        if isinstance(inner, Mapping)
        else same((*path, name), inner, default(kind, (*path, name), {}))
        for name, inner in value.items()
    )


def normalised(value: Any, path: KeyedPath = (), kind: str = "") -> Any:
    """Rewrite a JSON value so that Pod templates with the same meaning become equal.

    Fields that hold the API server's default are dropped. Quantities get their usual form: devices
    as numbers, others as texts.

    Args:
        path: Where the value stands: in a Pod, from its `spec`.
        kind: `Pod` in a Pod.
    """
    if isinstance(value, list | tuple):
        return [normalised(item, (*path, "[]"), kind) for item in value]
    if not isinstance(value, dict):
        if not path or not _is_amount(path) or type(value) not in (str, int, float):
            return value
        count = quantity.number(value) if "/" in path[-1] else None
        if count is not None and count == count.to_integral_value():
            return int(count)
        return quantity.canonical(value) or value
    result = {}
    for key, part in value.items():
        where = (*path, key)
        if not kind:
            is_pod = path[-1:] == ("template",) and key == "spec"
            result[key] = normalised(part, ("spec",), "Pod") if is_pod else normalised(part, where)
        elif part == [] or (part == {} and key in _EMPTY):
            continue
        elif key in _AS_WRITTEN or not same(where, part, default("Pod", where, value)):
            result[key] = normalised(part, where, kind)
    return result
