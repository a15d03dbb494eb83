"""Places where two states of an object differ, and how to read or change the value there.

`differing` splits a list or mapping that changes as a whole into the parts that a reader wants to
see.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.path import KeyedPath

ABSENT: Any = object()
"""Stands for no value: null is one."""


class Raw(Struct, frozen=True):
    """A place where two states of an object part.

    Args:
        path: Where; an item of a list is `[its key]` or `[its index]`.
        before: The live value; `ABSENT` if there is none.
        after: The desired value; `ABSENT` if it goes.
        managers: Who else owns the live value.
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
    """A copy with another value at a path.

    Args:
        value: A JSON value; it is not changed.
        path: Where.
        new: The new value; `ABSENT` takes what is there away.
        done: How many steps of the path lead to `value`.

    Returns:
        The copy; the value itself if the path leads to no place that can be.
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


def differing(places: tuple[Raw, ...]) -> Iterator[Raw]:
    """The same places, with each that holds a list or a mapping on both sides taken apart.

    Yields:
        The places in the order of their paths.
    """
    for place in places:
        if all(isinstance(value, Mapping | list) for value in (place.before, place.after)):
            yield from _apart(place)
        else:
            yield place


def _apart(place: Raw) -> Iterator[Raw]:
    # Heavy, and here only: most runs find nothing that must be taken apart.
    from deepdiff import DeepDiff  # noqa: PLC0415

    found = DeepDiff(place.before, place.after, view="tree", verbose_level=2)
    for kind, levels in found.items():
        for level in levels:
            steps = tuple(
                f"[{step}]" if isinstance(step, int) else str(step)
                for step in level.path(output_format="list")
            )
            before = ABSENT if kind.endswith("_added") else level.t1
            after = ABSENT if kind.endswith("_removed") else level.t2
            yield Raw((*place.path, *steps), before, after, place.managers)
