"""Diagnostics to the results of a KRM function.

A result has a message, an object, a field and a file (reference/gitops.md 6.2). The code of a
diagnostic goes into its tags.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from etcompile.diagnostics import RULES, Diagnostic
from etcompile.integrations.krm.places import INDEXES, ItemLocation, annotations, file_of, metadata
from etcompile.integrations.krm.resource_list import NAME
from etcompile.k8s.path import dotted


def results(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """The results that diagnostics are, in their order."""
    return [_result(diagnostic) for diagnostic in diagnostics]


def _result(diagnostic: Diagnostic) -> dict[str, Any]:
    found: dict[str, Any] = {
        "message": diagnostic.text,
        "severity": diagnostic.severity.value,
        "tags": {"code": diagnostic.code, "name": RULES[diagnostic.code].name},
    }
    place = diagnostic.location
    if isinstance(place, ItemLocation):
        item = place.places.item
        found["resourceRef"] = _reference(item)
        if place.path:
            found["field"] = {"path": dotted(place.path)}
        if file := file_of(item):
            found["file"] = {"path": file, **_index(item)}
    elif place is not None and place.file != NAME:
        found["file"] = {"path": place.file}
        numbers = {"line": place.line, "column": place.column}
        found["tags"] |= {name: str(number) for name, number in numbers.items() if number}
    return found


def _reference(item: Mapping[str, Any]) -> dict[str, str]:
    named = metadata(item)
    whole = {
        "apiVersion": item.get("apiVersion"),
        "kind": item.get("kind"),
        "name": named.get("name"),
        "namespace": named.get("namespace"),
    }
    return {field: value for field, value in whole.items() if isinstance(value, str) and value}


def _index(item: Mapping[str, Any]) -> dict[str, int]:
    """The item's number in its file."""
    noted = next((number for name in INDEXES if (number := annotations(item).get(name))), "")
    return {"index": int(noted)} if isinstance(noted, str) and noted.isdecimal() else {}
