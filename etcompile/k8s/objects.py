"""Kubernetes objects as values: what YAML or JSON makes of a manifest or of an answer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Object = Mapping[str, Any]
"""An object that is only read: a manifest, or what was compiled."""

LiveObject = dict[str, Any]
"""An object of whoever holds it: an answer of the API server, or one that is being made."""

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
"""The lists of containers of a PodSpec."""


def status_of(value: Object) -> Object:
    """The status of a live object; empty if nobody has written one yet."""
    found: Object = value.get("status") or {}
    return found


def is_going(value: Object) -> bool:
    """Whether an object is being deleted: it goes when its grace and its finalizers let it."""
    return bool(value["metadata"].get("deletionTimestamp"))


def seconds(time: str | None) -> float | None:
    """A time of the API server's, RFC 3339, in seconds since 1970; None if it is none."""
    try:
        return None if time is None else datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
