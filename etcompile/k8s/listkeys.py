"""Know the fields by which Kubernetes identifies the items of a list, and follow paths by them.

They come from two marks in its types: `+listMapKey`, by which the API server merges what several
managers apply, and `patchMergeKey`, by which strategic merge patches merge. Where a list has both,
the second is the first field of the first, so one table serves both. A list that is not in the
table is one value: one manager owns all of it, and a patch replaces it.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.diagnostics import ValuePath
from etcompile.k8s.objects import CONTAINERS
from etcompile.k8s.path import KeyedPath

ABSENT: Any = object()
"""Stands for no value: null is one."""

_NAMED = ("name",)
_OF_PODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(CONTAINERS, _NAMED),
    "evictionResponders": _NAMED,
    "hostAliases": ("ip",),
    "imagePullSecrets": _NAMED,
    "resourceClaims": _NAMED,
    "schedulingGates": _NAMED,
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumes": _NAMED,
}
_OF_CONTAINERS: dict[str, tuple[str, ...]] = {
    "env": _NAMED,
    "ports": ("containerPort", "protocol"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
_OF_SERVICES = ("port", "protocol")
POD_LISTS: Mapping[str, tuple[str, ...]] = {**_OF_PODS, **_OF_CONTAINERS, "claims": _NAMED}
"""The keys of all lists in a Pod's spec, by the list's name.

A patch replaces `claims` of a container's resources, although they have a key for apply.
"""
_PATCHED: dict[tuple[str, ValuePath], str] = {
    ("Service", ("spec", "ports")): _OF_SERVICES[0],
    ("ServiceAccount", ("secrets",)): "name",
    ("ServiceAccount", ("imagePullSecrets",)): "name",
    ("MutatingWebhookConfiguration", ("webhooks",)): "name",
    ("ValidatingWebhookConfiguration", ("webhooks",)): "name",
}
_DEFAULTS = {"protocol": "TCP"}
_IN_ORDER = frozenset({"containers", "env", "initContainers"})
"""Lists with keys whose order has a meaning, too."""
_ONE = frozenset(
    {
        *("configMapKeyRef", "configMapRef", "fieldRef", "labelSelector", "namespaceSelector"),
        *("nodeSelector", "podSelector", "resourceFieldRef", "roleRef", "secretKeyRef"),
        *("secretRef", "selector"),
    }
)


def keys(
    path: tuple[str, ...], items: Sequence[Any], *owned: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the names of the fields that identify the items of a list; none if it is one value.

    Args:
        owned: Fields of the list that managers own: they show how the API server merges it.
    """
    for name in (name for fields in owned for name in fields or ()):
        if name.startswith("k:"):
            return tuple(owned_key(name))
    if not items or not isinstance(items[0], Mapping):
        return ()
    if path[-1] == "ports" and "containerPort" not in items[0]:
        return _OF_SERVICES if path == ("spec", "ports") else ()
    names = POD_LISTS.get(path[-1], ())
    return names if path[0] in ("spec", "template", "imagePullSecrets") else ()


@functools.lru_cache(maxsize=4096)
def owned_key(name: str) -> Mapping[str, Any]:
    """Parse the key of an item, `k:{"name":"main"}`. Thousands of Pods repeat the same text."""
    key: Mapping[str, Any] = json.loads(name.removeprefix("k:"))
    return key


def patch_key(kind: str, at: ValuePath) -> str | None:
    """Return the field by which a strategic merge patch identifies the items of a list.

    A Pod template inside another object is recognised by its path, whatever the kind.
    """
    if field := _PATCHED.get((kind, at)):
        return field
    match at:
        case (*pod, str(group), int(), str(name)) if group in CONTAINERS:
            table = _OF_CONTAINERS
        case (*pod, str(name)):
            table = _OF_PODS
        case _:
            return None
    if pod[-2:] != ["template", "spec"] and (kind, pod) != ("Pod", ["spec"]):
        return None
    known = table.get(name)
    return known[0] if known else None


def key(item: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    values = dict(zip(names, key_values(item, names), strict=True))
    return None if None in values.values() else values


def key_values(item: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Return the parts of an item's key; None for each that is missing and has no default."""
    return [item.get(name, _DEFAULTS.get(name)) for name in names]


def label(values: Mapping[str, Any]) -> str:
    """Write an item's key as a step of a path: `[main]`, `[8080/TCP]`."""
    return f"[{'/'.join(map(str, values.values()))}]"


def step(item: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    if len(names) == 1 and type(value := item.get(names[0])) is str:
        return f"[{value}]"  # nearly always the name
    values = key(item, names)
    return None if values is None else label(values)


def by_label(items: Sequence[Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the items by the label of their key; None if they cannot be told apart."""
    labelled: dict[str, Any] = {}
    for item in items if names else ():
        place = step(item, names) if isinstance(item, dict) else None
        if place is None:
            return None
        labelled[place] = item
    return labelled if len(labelled) == len(items) else None


def index(path: tuple[str, ...], items: Sequence[Any]) -> int | None:
    """Return the index of the item that a path ends at (`[its key]` or `[its index]`), or None."""
    step = path[-1]
    names = keys(path[:-1], items)
    for place, item in enumerate(items if names else ()):
        values = key(item, names) if isinstance(item, Mapping) else None
        if values is not None and label(values) == step:
            return place
    inside = step[1:-1]
    is_index = not names and inside.isdigit() and int(inside) < len(items)
    return int(inside) if is_index else None


def value_at(value: Any, path: KeyedPath) -> Any:
    for number, step in enumerate(path, 1):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and (at := index(path[:number], value)) is not None:
            value = value[at]
        else:
            return ABSENT
    return value


def changed_at(value: Any, path: KeyedPath, new: Any, done: int = 0) -> Any:
    """Return a copy with another value at a path; `ABSENT` removes it.

    Args:
        done: How many steps of the path lead to `value`.
    """
    step, last = path[done], done + 1 == len(path)
    if isinstance(value, list):
        at = index(path[: done + 1], value)
        if at is None:
            return value if new is ABSENT or not last else [*value, new]
        if last:
            return [*value[:at], *([] if new is ABSENT else [new]), *value[at + 1 :]]
        return [*value[:at], changed_at(value[at], path, new, done + 1), *value[at + 1 :]]
    if not isinstance(value, Mapping):
        return value
    if last:
        rest = {key: field for key, field in value.items() if key != step}
        return rest if new is ABSENT else {**value, step: new}
    if step not in value and new is ABSENT:
        return value
    return {**value, step: changed_at(value.get(step, {}), path, new, done + 1)}


def is_one(path: tuple[str, ...]) -> bool:
    """Return whether a mapping is one value, of which one manager owns everything."""
    return bool(path) and path[-1] in _ONE


def in_order(path: tuple[str, ...]) -> bool:
    return path[-1] in _IN_ORDER
