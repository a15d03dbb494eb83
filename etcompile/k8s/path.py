"""Paths of fields: what is at one, a copy with a change at one, and how they are written.

A path of steps and indexes (`ValuePath`) is of one value, and people know it from JSONPath:
`spec.containers[0].name`. A path by keys is of two states of an object, in which an item may have
two indexes: `spec.containers[main].name`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from etcompile.diagnostics import ValuePath

KeyedPath = tuple[str, ...]
"""Steps to a field; the item of a list is `[its key]`, or `[its index]` where it has none."""

_MISFIT = re.compile(r"\.(\w+)|\[(\d+)\]")
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*", re.ASCII)


def value_at(value: Any, path: ValuePath) -> Any:
    """The value at a path inside a JSON value; None where there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def mapping_at(value: Any, path: ValuePath) -> Mapping[str, Any]:
    """The mapping at a path inside a JSON value; an empty one where there is none."""
    mapping = value_at(value, path)
    return mapping if isinstance(mapping, dict) else {}


def mappings_of(value: Any, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings in the list that a field holds, with their indexes."""
    items = value.get(name) if isinstance(value, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield index, item


def containers_of(spec: Any) -> Iterator[tuple[tuple[str, int], Mapping[str, Any]]]:
    """The init containers and containers of a PodSpec, and where they stand in it."""
    for name in ("initContainers", "containers"):
        for index, container in mappings_of(spec, name):
            yield (name, index), container


def changed_at(
    value: Mapping[str, Any], path: ValuePath, change: Callable[..., Mapping[str, Any]]
) -> dict[str, Any]:
    """A copy in which the mapping at a path of keys is changed, if there is one."""
    if not path:
        return dict(change(value))
    step = str(path[0])
    inner = value.get(step)
    if not isinstance(inner, Mapping):
        return dict(value)
    return {**value, step: changed_at(inner, path[1:], change)}


def value_path(value: Any, path: KeyedPath) -> ValuePath:
    """The steps of a path by keys as the keys and indexes of a value, as far as it has them."""
    steps: list[str | int] = []
    for step in path:
        key: str | int = step
        if isinstance(value, list | tuple) and step.startswith("["):
            key = _index_of(value, step[1:-1])
        value = value_at(value, (key,))
        if value is None:
            break
        steps.append(key)
    return tuple(steps)


def _index_of(items: Sequence[Any], key: str) -> int:
    mappings = [item if isinstance(item, dict) else {} for item in items]
    for number, item in enumerate(mappings):
        if item.get("name") == key:
            return number
    for number, item in enumerate(mappings):
        if key == str(number) or key in item.values():
            return number
    return len(items)


def overlap(one: KeyedPath, other: KeyedPath) -> bool:
    """Whether one of two paths is the other, or leads into what is there."""
    return all(a == b for a, b in zip(one, other, strict=False))


def misfit(error: msgspec.ValidationError) -> tuple[str, ValuePath]:
    """What is wrong with a value that a type does not fit, and the path to it."""
    words, _, where = str(error).replace("`", "'").partition(" - at '$")
    path = (int(index) if index else name for name, index in _MISFIT.findall(where))
    return words[:1].lower() + words[1:], tuple(path)


def texts_in(value: object, at: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """The texts inside a JSON value, its keys among them, each with the path to it."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*at, key), str(key)
            yield from texts_in(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*at, index))


def dotted(path: ValuePath) -> str:
    """A path in one line: `spec.containers[0].name`, `metadata.labels['example.com/a']`."""
    words = ""
    for step in path:
        if isinstance(step, int):
            words += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            words += f".{step}"
        else:
            words += f"['{step}']"
    return words.removeprefix(".")


def keyed(path: KeyedPath) -> str:
    """A path in one line: `spec.containers[main].image`, `metadata.labels[example.com/a]`."""
    text = ""
    for step in path:
        if step.startswith("["):
            text += step
        elif "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
