"""Paths of fields as the API server writes them, followed through an object.

`.spec.containers[name="main"].image`, as in the answers in which it refuses something. Apart from
`path` because a compiler, which nothing is answered to, has no use for it.
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
    """Where a path of the API server's leads.

    Args:
        steps: The same path by keys: `("spec", "containers", "[main]", "image")`.
    """

    steps: KeyedPath
    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """The value."""
        return self.holder[self.key]


def place(value: Any, path: str) -> Place | None:
    """Where a path leads in an object; None if there is no such field.

    Args:
        path: As the API server writes it. It does not mark keys with dots, so the longest that
            exists counts.
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
    wanted = dict(part.partition("=")[::2] for part in match["keys"].split(","))
    for number, item in enumerate(items):
        if isinstance(item, Mapping):
            own = listkeys.key(item, tuple(wanted))
            if own and {name: json.dumps(value) for name, value in own.items()} == wanted:
                return number, listkeys.label(own)
    return None, ""
