"""Which differences between a manifest and a live object are none.

Other spellings of a quantity, values that the API server does not keep, and what its admission
plugins add (reference/gitops.md 4.3).
"""

from collections.abc import Mapping
from typing import Any

from etcompile.k8s.path import KeyedPath
from etcompile.model import quantity

_AMOUNTS = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
_LIMIT_RANGE = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})
_DROPPED = frozenset({"hostIPC", "hostNetwork", "hostPID", "publishNotReadyAddresses", "readOnly"})
"""Fields of which the API server does not keep a false."""
_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def same(path: KeyedPath, one: Any, other: Any) -> bool:
    """Whether two values of a field mean the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if one == other:
        return True
    if one is None or other is None or not _is_amount(path):
        return False
    if isinstance(one, Mapping | list) or isinstance(other, Mapping | list):
        return False
    before, after = quantity.number(one), quantity.number(other)
    return before is not None and before == after


def _is_amount(path: KeyedPath) -> bool:
    return path[-1] in ("divisor", "sizeLimit", "storage") or (
        len(path) > 1
        and (path[-2] in _AMOUNTS or (path[-2] in _LIMIT_RANGE and path[:2] == ("spec", "limits")))
    )


def is_nothing(name: str, value: Any) -> bool:
    """Whether the API server does not keep such a value, or it means the same as none."""
    if value is False:
        return name in _DROPPED
    if isinstance(value, list):
        return not value
    if isinstance(value, Mapping):
        return not value and name in ("annotations", "data", "labels", "limits", "requests")
    return value is None or (value == "" and name != "storageClassName")


def without_taints(desired: list[Any], live: list[Any]) -> list[Any]:
    """Tolerations without those that the admission plugin DefaultTolerationSeconds adds."""
    written = {toleration.get("key") for toleration in desired}
    return [toleration for toleration in live if toleration.get("key") not in _TAINTS - written]
