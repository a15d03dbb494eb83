"""How the API server merges the lists of its own kinds: by which fields their items are told apart.

From the `+listType` and `+listMapKey` marks of Kubernetes' types. A list that is not here is one
value: whoever writes it owns all of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.plan.managed import Fields, merge_keys

_NAMED = ("name",)
_KEYS: dict[str, tuple[str, ...]] = {
    "claims": _NAMED,
    "containers": _NAMED,
    "env": _NAMED,
    "ephemeralContainers": _NAMED,
    "hostAliases": ("ip",),
    "imagePullSecrets": _NAMED,
    "initContainers": _NAMED,
    "resourceClaims": _NAMED,
    "schedulingGates": _NAMED,
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": _NAMED,
}
_DEFAULTS = {"protocol": "TCP"}
_SETS = frozenset({"finalizers"})
_IN_ORDER = frozenset({"env", "initContainers"})
"""Lists whose order means something, although their items have keys."""
_ONE = frozenset(
    {
        "configMapKeyRef",
        "configMapRef",
        "fieldRef",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "podSelector",
        "resourceFieldRef",
        "roleRef",
        "secretKeyRef",
        "secretRef",
        "selector",
    }
)


def keys(path: tuple[str, ...], items: Sequence[Any], *owned: Fields | None) -> tuple[str, ...]:
    """The fields that tell the items of a list apart.

    Args:
        path: Where the list stands.
        items: Its items.
        owned: What managers own of the list: the API server itself says there how it merges.

    Returns:
        The names of the fields; none if the list is one value.
    """
    for fields in owned:
        if found := merge_keys(fields):
            return found
    if not items or not isinstance(items[0], Mapping):
        return ()
    if path[-1] == "ports":
        if "containerPort" in items[0]:
            return ("containerPort", "protocol")
        return ("port", "protocol") if path == ("spec", "ports") else ()
    found = _KEYS.get(path[-1], ())
    return found if path[0] in ("spec", "template", "imagePullSecrets") else ()


def key(item: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """The key of an item; None if it lacks a part of it."""
    found = {name: item.get(name, _DEFAULTS.get(name)) for name in names}
    return None if None in found.values() else found


def label(found: Mapping[str, Any]) -> str:
    """An item's key as a step of a path: `[main]`, `[8080/TCP]`."""
    return f"[{'/'.join(map(str, found.values()))}]"


def index(path: tuple[str, ...], items: Sequence[Any]) -> int | None:
    """The index of the item that a path ends at; None if there is none.

    Args:
        path: To the item: it ends in `[its key]`, or `[its index]`.
        items: The list.
    """
    step = path[-1]
    names = keys(path[:-1], items)
    for place, one in enumerate(items if names else ()):
        found = key(one, names) if isinstance(one, Mapping) else None
        if found is not None and label(found) == step:
            return place
    inside = step[1:-1]
    is_index = not names and inside.isdigit() and int(inside) < len(items)
    return int(inside) if is_index else None


def is_set(path: tuple[str, ...]) -> bool:
    """Whether a list is a set: its items are told apart by what they are."""
    return path[-1] in _SETS


def is_one(path: tuple[str, ...]) -> bool:
    """Whether a mapping is one value: whoever writes it owns all that is in it."""
    return bool(path) and path[-1] in _ONE


def in_order(path: tuple[str, ...]) -> bool:
    """Whether the order of a list with keys means something."""
    return path[-1] in _IN_ORDER
