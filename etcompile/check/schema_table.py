"""The fields of a kind as a table for people, from its JSON Schema.

`etcompile schema KIND --markdown` prints it. The same file refuses wrong fields, so the table
cannot promise anything else than the compiler does.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etcompile.check.json_schemas import bundled_schema

_EFFECTS = {
    "used": "compiled",
    "watcher": "kept for the watcher",
    "ignored": "accepted, with a warning that it has no effect",
    "gang": "for the scheduler that `--gang` chooses; without one, a warning",
    "refused": "refused",
}
"""What happens to a field, by the schema's keyword `x-etcompile`."""

_PAGES_STOP_AT = frozenset({"template", "status", "metadata"})
"""Fields that are Kubernetes' own below."""


def table(path: str | Path) -> str:
    """The fields of a kind below `spec`, in the order of its schema, as a Markdown table.

    Args:
        path: The schema: a file name in `schemas/`, or the path of one.
    """
    schema = bundled_schema(path)
    rows = _rows(schema, schema["properties"]["spec"], "spec", "used")
    return "".join(
        [
            "| field | type | | what it does |\n|---|---|---|---|\n",
            *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows),
        ]
    )


def _rows(
    schema: Mapping[str, Any], value: Mapping[str, Any], path: str, effect: str
) -> Iterator[tuple[str, str, str, str]]:
    """Path, type, effect and description of each field; `*` is any key, `[]` any entry."""
    value = _resolved(schema, value)
    for name, rules in value.get("properties", {}).items():
        field = _resolved(schema, rules)
        below = f"{path}.{name}"
        own = field.get("x-etcompile", effect)
        description = " ".join(field.get("description", "").split())
        yield f"`{below}`", _type(field), _EFFECTS[own], description
        if name not in _PAGES_STOP_AT:
            yield from _rows(schema, field, below, own)
    items = value.get("items")
    if isinstance(items, dict):
        yield from _rows(schema, items, f"{path}[]", effect)


def _resolved(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """A definition with what its reference leads to; its own keywords win."""
    resolved = dict(value)
    while reference := resolved.pop("$ref", None):
        resolved = {**schema["$defs"][reference.rpartition("/")[2]], **resolved}
    return resolved


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" if value else "(empty)" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    form = field.get("type", "any")
    return " or ".join(form) if isinstance(form, list) else str(form)
