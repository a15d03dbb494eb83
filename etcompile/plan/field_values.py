"""Get and set the value at a path of an object, and say where two states of it differ."""

import base64
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath

ABSENT: Any = object()
"""Stands for no value: null is one."""


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
    for number, step in enumerate(path, 1):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and (at := listkeys.index(path[:number], value)) is not None:
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


def encoded(secret: Object) -> dict[str, Any]:
    """Return the Secret with its texts as the API server stores them."""
    texts = secret.get("stringData") or {}
    values = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": {**(secret.get("data") or {}), **values}}
