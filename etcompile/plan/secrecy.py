"""Values of Secrets, and credentials in plain text, to something that may be shown.

Here and nowhere later: a change in a plan never holds one, so nothing that shows, writes or logs
changes can give one away. An object that is to be applied stays as its author wrote it.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics.credentials import is_credential
from etcompile.diagnostics.redaction import HIDDEN, redacted
from etcompile.k8s.objects import Object

_FIELDS = ("data", "stringData")


def masked(kind: str, path: tuple[str, ...], value: Any) -> Any:
    """A field's value; how long it is if it is a Secret's, and without credentials elsewhere."""
    if kind != "Secret" or value is None or not path or path[0] not in _FIELDS:
        return _without_credentials(path, value)
    if isinstance(value, Mapping):
        return {key: _size(field, path[0]) for key, field in value.items()}
    return _size(value, path[0])


def _without_credentials(path: tuple[str, ...], value: Any) -> Any:
    """A value without the credentials in it, known by their form or by their name."""
    if isinstance(value, str):
        name = path[-2] if len(path) > 1 and path[-1] == "value" else path[-1] if path else ""
        return HIDDEN if is_credential(name.strip("[]"), value) else redacted(value)
    if isinstance(value, Mapping):
        named = value.get("name")
        own = (*path, f"[{named}]") if isinstance(named, str) and "value" in value else path
        return {key: _without_credentials((*own, key), field) for key, field in value.items()}
    if isinstance(value, list):
        return [_without_credentials(path, item) for item in value]
    return value


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
