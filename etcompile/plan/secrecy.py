"""Values of Secrets to something that may be shown.

Here and nowhere later: a plan never holds the value of a Secret, so nothing that shows, writes or
logs a plan can give one away.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from etcompile.plan.step import Object

_FIELDS = ("data", "stringData")


def masked(kind: str, path: tuple[str, ...], value: Any) -> Any:
    """A field's value, or how long it is if it is a Secret's."""
    if kind != "Secret" or value is None or not path or path[0] not in _FIELDS:
        return value
    if isinstance(value, Mapping):
        return {key: _size(one, path[0]) for key, one in value.items()}
    return _size(value, path[0])


def has_values(value: Object) -> bool:
    """Whether an object is a Secret with values."""
    return value["kind"] == "Secret" and any(value.get(name) for name in _FIELDS)


def _size(value: Any, field: str) -> str:
    text = str(value).encode()
    if field == "data":
        try:
            text = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return "(hidden)"
    return f"(hidden, {len(text)} bytes)"
