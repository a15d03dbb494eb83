"""A place where two states of an object part, and what differs inside it.

Apart from the comparison because only who shows a difference needs to take it apart.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

Path = tuple[str, ...]
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

    path: Path
    before: Any
    after: Any
    managers: tuple[str, ...] = ()


def shown(path: Path) -> str:
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
