"""Read and write paths of fields.

A `ValuePath` has keys and indexes and belongs to one value; people know it from JSONPath:
`spec.containers[0].name`. A `KeyedPath` names items by their key, because an item may have
different indexes in two states of an object: `spec.containers[main].name`.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from etcompile.diagnostics import ValuePath

KeyedPath = tuple[str, ...]
"""Steps to a field; the item of a list is `[its key]`, or `[its index]` where it has none."""

_MISFIT = re.compile(r"\.(\w+)|\[(\d+)\]")
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*", re.ASCII)


def value_at(value: Any, path: ValuePath) -> Any:
    """Return the value at a path inside a JSON value; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def mapping_at(value: Any, path: ValuePath) -> Mapping[str, Any]:
    mapping = value_at(value, path)
    return mapping if isinstance(mapping, dict) else {}


def text_at(value: Any, path: ValuePath) -> str | None:
    """Return the text at a path; None if there is none, or an empty one."""
    text = value_at(value, path)
    return text if isinstance(text, str) and text else None


def mappings_of(value: Any, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    items = value.get(name) if isinstance(value, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield index, item


def containers_of(spec: Any) -> Iterator[tuple[tuple[str, int], Mapping[str, Any]]]:
    """Yield init containers and containers of a PodSpec, each with its place in the spec."""
    for name in ("initContainers", "containers"):
        for index, container in mappings_of(spec, name):
            yield (name, index), container


def value_path(value: Any, path: KeyedPath) -> ValuePath:
    """Turn a path by keys into keys and indexes of a value, as far as the value has them."""
    steps: list[str | int] = []
    for step in path:
        key: str | int = step
        if isinstance(value, list | tuple) and step.startswith("["):
            name = step[1:-1]
            items = [*enumerate(item if isinstance(item, dict) else {} for item in value)]
            named = (number for number, item in items if item.get("name") == name)
            keyed = (number for number, item in items if name in (str(number), *item.values()))
            key = next(itertools.chain(named, keyed), len(items))
        value = value_at(value, (key,))
        if value is None:
            break
        steps.append(key)
    return tuple(steps)


def overlap(one: KeyedPath, other: KeyedPath) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def misfit(error: msgspec.ValidationError) -> tuple[str, ValuePath]:
    words, _, where = str(error).replace("`", "'").partition(" - at '$")
    path = (int(index) if index else name for name, index in _MISFIT.findall(where))
    return words[:1].lower() + words[1:], tuple(path)


def texts_in(value: object, at: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
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
    """Write a path in one line: `spec.containers[0].name`, `metadata.labels['example.com/a']`."""
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
    """Write a path in one line: `spec.containers[main].image`, `metadata.labels[example.com/a]`."""
    text = ""
    for step in path:
        if step.startswith("["):
            text += step
        elif "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
