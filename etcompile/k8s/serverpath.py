"""Follow paths of fields as the API server writes them in refusals.

`.spec.containers[name="main"].image`. This is not part of `path` because only clients of a cluster
read refusals; the compiler does not.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.path import KeyedPath

_ITEM = re.compile(r'\[(?:(?P<index>\d+)|(?P<keys>[^\]=]*=(?:"(?:[^"\\]|\\.)*+"|[^]"])*+))\]')


class Place(Struct, frozen=True):
    """Where a path of the API server leads."""

    steps: KeyedPath  # the same path by keys: `("spec", "containers", "[main]", "image")`
    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        return self.holder[self.key]


def place(value: Any, path: str) -> Place | None:
    """Follow a path in an object; return None if there is no such field.

    The API server does not mark keys that contain dots, so the longest key that exists counts.
    """
    steps: list[str] = []
    holder, key, rest = None, None, path
    while rest:
        holder = value
        if rest.startswith("["):
            match = _ITEM.match(rest)
            if match is None or not isinstance(value, list):
                return None
            rest = rest[match.end() :]
            key, label = _item(value, match)
            if key is None:
                return None
        elif isinstance(value, Mapping):
            rest = rest.removeprefix(".")
            names = [name for name in value if f"{rest}.".startswith((f"{name}.", f"{name}["))]
            if not names:
                return None
            key = label = max(names, key=len)
            rest = rest[len(key) :]
        else:
            return None
        steps.append(label)
        value = value[key]
    return Place(tuple(steps), holder, key) if steps else None


def _item(items: list[Any], match: re.Match[str]) -> tuple[int | None, str]:
    if match["index"] is not None:
        number = int(match["index"])
        return (number if number < len(items) else None), f"[{number}]"
    expected = dict(part.partition("=")[::2] for part in match["keys"].split(","))
    for number, item in enumerate(items):
        if isinstance(item, Mapping):
            key = listkeys.key(item, tuple(expected))
            if key and {name: json.dumps(value) for name, value in key.items()} == expected:
                return number, listkeys.label(key)
    return None, ""
