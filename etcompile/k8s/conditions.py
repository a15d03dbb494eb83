"""The conditions in the status of a live object: what it says of itself, by type."""

from collections.abc import Mapping
from typing import Any

from etcompile.k8s.objects import Object


def condition(status: Object, wanted: str) -> Mapping[str, Any]:
    """The condition of a type, whether true or not; an empty mapping if there is none."""
    reported: Mapping[str, Any]
    for reported in status.get("conditions") or ():
        if reported.get("type") == wanted:
            return reported
    return {}


def is_true(status: Object, wanted: str) -> bool:
    """Whether the condition of a type is true."""
    return condition(status, wanted).get("status") == "True"


def is_false(status: Object, wanted: str) -> bool:
    """Whether the condition of a type is false: neither true, nor unknown, nor missing."""
    return condition(status, wanted).get("status") == "False"
