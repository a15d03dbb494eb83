"""The fields of a kind as a table for people, from its JSON Schema.

The same file that refuses a wrong field says what a right one does, so that the pages under
docs/kinds cannot promise another thing than the compiler does.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.check.bundled import bundled_schema

EFFECTS = {
    "used": "compiled",
    "watcher": "kept for the watcher",
    "ignored": "accepted, with a warning that it has no effect",
    "gang": "for the scheduler that `--gang` chooses; without one, a warning",
    "refused": "refused",
}
"""What happens to a field, by the schema's keyword `x-etcompile`."""

_PAGES_STOP_AT = frozenset({"template", "status", "metadata"})
"""Fields that are Kubernetes' own below."""


class Field(Struct, frozen=True):
    """A field of a kind.

    Args:
        path: Its path: `spec.runPolicy.suspend`; `*` is any key, `[]` any entry.
        form: Its type, or the values it may have.
        effect: What happens to it, a key of `EFFECTS`.
        description: What it does.
    """

    path: str
    form: str
    effect: str
    description: str


def fields(path: str | Path) -> tuple[Field, ...]:
    """All fields of a kind below `spec`, in the order of its schema.

    Args:
        path: The schema: a file name in `schemas/`, or the path of one.
    """
    schema = bundled_schema(path)
    return tuple(_below(schema, schema["properties"]["spec"], "spec", "used"))


def table(path: str | Path) -> str:
    """The fields of a kind as a Markdown table.

    Args:
        path: The schema: a file name in `schemas/`, or the path of one.
    """
    lines = ["| field | type | | what it does |", "|---|---|---|---|"]
    for field in fields(path):
        cells = (f"`{field.path}`", field.form, EFFECTS[field.effect], field.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _below(
    schema: Mapping[str, Any], value: Mapping[str, Any], path: str, effect: str
) -> Iterator[Field]:
    value = _resolved(schema, value)
    for name, given in value.get("properties", {}).items():
        field = _resolved(schema, given)
        below = f"{path}.{name}"
        own = field.get("x-etcompile", effect)
        yield Field(below, _form(field), own, " ".join(field.get("description", "").split()))
        if name not in _PAGES_STOP_AT:
            yield from _below(schema, field, below, own)
    items = value.get("items")
    if isinstance(items, dict):
        yield from _below(schema, items, f"{path}[]", effect)


def _resolved(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """A definition with what its reference leads to; its own keywords win."""
    found = dict(value)
    while reference := found.pop("$ref", None):
        found = {**schema["$defs"][reference.rpartition("/")[2]], **found}
    return found


def _form(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" if value else "(empty)" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    form = field.get("type", "any")
    return " or ".join(form) if isinstance(form, list) else str(form)
