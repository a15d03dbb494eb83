"""Paths of fields as the API server writes them, followed through an object.

`.spec.containers[name="main"].image`: keys with dots are not marked there, so the longest that
exists counts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_ITEM = re.compile(r'\[(?:(?P<index>\d+)|(?P<keys>[^\]]*=(?:"(?:[^"\\]|\\.)*"|[^\]])*))\]')
_DEFAULTS = {"protocol": "TCP"}


class Place(Struct, frozen=True):
    """Where a path leads.

    Args:
        steps: The path as the plan writes it: `("spec", "containers", "[main]", "image")`.
        holder: The mapping or list that holds the value.
        key: Its key or index there.
    """

    steps: tuple[str, ...]
    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """The value."""
        return self.holder[self.key]


def place(value: Any, path: str) -> Place | None:
    """Where a path leads in an object; None if there is no such field."""
    steps: list[str] = []
    holder, key, rest = None, None, path
    while rest:
        holder = value
        if rest.startswith("["):
            found = _ITEM.match(rest)
            if found is None or not isinstance(value, list):
                return None
            rest = rest[found.end() :]
            key, label = _item(value, found)
            if key is None:
                return None
        elif isinstance(value, Mapping):
            rest = rest.removeprefix(".")
            names = [one for one in value if re.match(rf"{re.escape(one)}(?:[.\[]|$)", rest)]
            if not names:
                return None
            key = label = max(names, key=len)
            rest = rest[len(key) :]
        else:
            return None
        steps.append(label)
        value = value[key]
    return Place(tuple(steps), holder, key) if steps else None


def value_at(value: Any, path: str) -> Any:
    """The value at a path; None if there is none."""
    found = place(value, path)
    return found.value if found else None


def _item(items: list[Any], found: re.Match[str]) -> tuple[int | None, str]:
    if found["index"] is not None:
        number = int(found["index"])
        return (number if number < len(items) else None), f"[{number}]"
    wanted = dict(part.partition("=")[::2] for part in found["keys"].split(","))
    for number, one in enumerate(items):
        if isinstance(one, Mapping):
            own = {name: one.get(name, _DEFAULTS.get(name)) for name in wanted}
            if {name: json.dumps(value) for name, value in own.items()} == wanted:
                return number, f"[{'/'.join(map(str, own.values()))}]"
    return None, ""
