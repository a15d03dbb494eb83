"""Cut what others write into objects, so that one object takes little memory."""

from typing import Any

import msgspec

_MOST_CONTAINERS = 64  # of a Pod
_LONGEST_TEXT = 4096
_LONGEST_NAME = 317  # a prefix of 253 characters, a slash and a name of 63
_NAMES = frozenset({"name", "namespace", "nodeName", "reason", "type", "uid"})
_SMALL = 16 * 1024  # bytes of an object in which nothing need be cut
_WHOLE = frozenset({"data", "managedFields"})


def bounded(value: Any) -> Any:
    """Return an object with every text in it cut, and every list of containers."""
    return value if len(msgspec.json.encode(value)) <= _SMALL else _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:_MOST_CONTAINERS]]
    if not isinstance(value, dict):
        return value
    return {
        key[:_LONGEST_NAME]: inner
        if key in _WHOLE
        else inner[:_LONGEST_NAME]
        if key in _NAMES and isinstance(inner, str)
        else _cut(inner)
        for key, inner in value.items()
    }
