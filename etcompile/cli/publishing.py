"""All schemas as the folder that is published at the place their `$id`s name, for editors.

Apart from the command that prints one, as nobody but who publishes them, or has no network, needs
all.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etcompile import frontends, overlays
from etcompile.check.bundled import bundled_schema
from etcompile.compiler.runtimes import RUNTIME_SCHEMA
from etcompile.integrations.krm.config import SCHEMAS

BASE = "https://etcompile.dev/schemas/"
"""Where they are published."""

ALL, CATALOG = "all.json", "catalog.json"

_FILES = ["*.etjob.yaml", "*.etjob.yml", "*.etjob.json"]
"""Names of files that say themselves that they are for us."""


def published() -> dict[str, dict[str, Any]]:
    """The documents by path below `BASE`: a schema a kind, one for all, and a catalog of them."""
    found = {}
    for path in _paths():
        schema = bundled_schema(path)
        found[schema["$id"].removeprefix(BASE)] = schema
    kinds = {
        name: document
        for name, document in found.items()
        if "apiVersion" in document.get("properties", {})
    }
    return {**found, ALL: _all(kinds), CATALOG: _catalog(found)}


def texts() -> dict[str, str]:
    """The same as texts."""
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in sorted(published().items())
    }


def _paths() -> Iterator[str | Path]:
    yield from (kind.schema for kind in frontends.kinds())
    yield RUNTIME_SCHEMA
    yield overlays.SCHEMA
    yield from SCHEMAS.values()
    yield from ("configuration.json", "diagnostics.json", "plan.json")


def _all(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A schema for folders that hold documents of several kinds, and other objects too."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Whatever etcompile reads",
        "description": "A document of any kind that etcompile knows, or another Kubernetes object.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"description": "API group and version.", "type": "string"},
            "kind": {"description": "The kind of this document.", "type": "string"},
        },
        "allOf": [
            {"if": _is(schema), "then": {"$ref": f"#/$defs/{_flat(name)}"}}
            for name, schema in sorted(kinds.items())
        ],
        "$defs": {_flat(name): _inlined(name, schema) for name, schema in sorted(kinds.items())},
    }


def _flat(name: str) -> str:
    """A schema's path as the name of a definition."""
    return name.removesuffix(".json").replace("/", ".")


def _inlined(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as a definition of another: without an address, its references seen from there.

    A definition with an `$id` is a document of its own, and an editor fetches it by that address
    even where the file that holds it was read from a disk.
    """

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: f"#/$defs/{_flat(name)}{inner[1:]}"
                if _is_reference(key, inner)
                else moved(inner)
                for key, inner in value.items()
            }
        return [moved(item) for item in value] if isinstance(value, list) else value

    inlined: dict[str, Any] = moved(
        {k: v for k, v in schema.items() if k not in ("$id", "$schema")}
    )
    return inlined


def _is_reference(key: str, value: object) -> bool:
    return key == "$ref" and isinstance(value, str) and value.startswith("#")


def _is(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of documents that are of a schema's kind."""
    names = ("apiVersion", "kind")
    values = {
        name: {word: field[word] for word in ("const", "enum") if word in field}
        for name in names
        for field in (schema["properties"][name],)
    }
    return {"properties": values, "required": list(names)}


def _catalog(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A catalog in the form of SchemaStore's, which editors can be given."""
    every = {
        "name": "etcompile",
        "description": "Training jobs that etcompile compiles, scale intents and overlays.",
        "fileMatch": _FILES,
        "url": f"{BASE}{ALL}",
    }
    listed = [
        {
            "name": schema["title"],
            "description": schema.get("description", schema["title"]),
            "fileMatch": [],
            "url": f"{BASE}{name}",
        }
        for name, schema in sorted(schemas.items())
    ]
    return {
        "$schema": "https://json.schemastore.org/schema-catalog.json",
        "version": 1,
        "schemas": [every, *listed],
    }
