"""Fields of an object: the value at a path, its default, and where two states of it differ.

What the API server fills in and which changes it refuses is in `schemas/kubernetes/updates.yaml`,
whose comments say what a row is; `etcompile.plan.updates` judges changes by it.
"""

import base64
import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from etcompile import data
from etcompile.k8s import listkeys, quantity
from etcompile.k8s.images import parts_of
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath

ABSENT: Any = object()
"""Stands for no value: null is one."""

_AMOUNTS = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
_LIMIT_RANGE = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})


class Raw(Struct, frozen=True):
    """A place where two states of an object differ.

    Args:
        path: Where; an item of a list is `[its key]` or `[its index]`.
        before: The live value; `ABSENT` if there is none.
        after: The desired value; `ABSENT` if it is removed.
    """

    path: KeyedPath
    before: Any
    after: Any
    managers: tuple[str, ...] = ()


def value_at(value: Any, path: KeyedPath) -> Any:
    """The value at a path; `ABSENT` if there is none."""
    for number, step in enumerate(path, 1):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and (at := listkeys.index(path[:number], value)) is not None:
            value = value[at]
        else:
            return ABSENT
    return value


def changed_at(value: Any, path: KeyedPath, new: Any, done: int = 0) -> Any:
    """A copy with another value at a path; `ABSENT` removes it.

    Args:
        done: How many steps of the path lead to `value`.
    """
    step, last = path[done], done + 1 == len(path)
    if isinstance(value, list):
        at = listkeys.index(path[: done + 1], value)
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


def same(path: KeyedPath, one: Any, other: Any) -> bool:
    """Whether two values of a field mean the same."""
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
    is_amount = path[-1] in ("divisor", "sizeLimit", "storage") or (
        len(path) > 1
        and (path[-2] in _AMOUNTS or (path[-2] in _LIMIT_RANGE and path[:2] == ("spec", "limits")))
    )
    if not is_amount or isinstance(one, dict | list) or isinstance(other, dict | list):
        return False
    before, after = quantity.number(one), quantity.number(other)
    return before is not None and before == after


def encoded(secret: Object) -> dict[str, Any]:
    """The Secret with its texts as the API server stores them."""
    texts = secret.get("stringData") or {}
    values = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": {**(secret.get("data") or {}), **values}}


# What the API server fills in ---------------------------------------------------------------------


class Row(Struct, frozen=True):
    """What may become of fields of a kind: a row of `updates.yaml`."""

    kind: str
    fields: tuple[str, ...]
    group: str = ""
    accepts: str = ""
    restarts: bool = False
    whole: bool = False


class Table(Struct, frozen=True):
    """The defaults by kind, nested as the fields are, and the rules about changes."""

    defaults: dict[str, Any]
    changes: tuple[Row, ...]


_TABLE = msgspec.json.Decoder(Table)


@functools.cache
def table() -> Table:
    """The content of `updates.yaml`."""
    import yaml  # noqa: PLC0415 - seldom needed: most objects do not differ

    text = (data.folder("schemas") / "kubernetes" / "updates.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return _TABLE.decode(msgspec.json.encode(yaml.load(text, loader)))  # noqa: S506


def default(kind: str, path: KeyedPath, around: Mapping[str, Any]) -> Any:
    """The value of a field that is not written; None if there is none."""
    value: Any = table().defaults.get(kind)
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get("*" if step.startswith("[") else step)
    if not isinstance(value, dict):
        return value
    compute = _COMPUTED.get(value.get("computed", ""))
    return compute(around) if compute else None


def _pull_policy(container: Mapping[str, Any]) -> str:
    name, tag, digest = parts_of(str(container.get("image", "")))
    return "Always" if name and not digest and tag in ("", "latest") else "IfNotPresent"


_COMPUTED: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "completions": lambda job_spec: None if "parallelism" in job_spec else 1,
    "limits": lambda resources: resources.get("limits"),
    "pull_policy": _pull_policy,
}
