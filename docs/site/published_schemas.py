"""The JSON Schemas as editors get them from the site: one a kind, one for all, and a catalog."""

import json
from typing import Any

from etcompile import frontends, overlays
from etcompile.check.json_schemas import bundled_schema
from etcompile.cli.schema import DESCRIBED
from etcompile.frontends.trainer.runtimes import RUNTIME_SCHEMA
from etcompile.integrations.krm import SCHEMAS

BASE = "https://etcompile.dev/schemas/"
"""Where the schemas are published."""
ALL, CATALOG = "all.json", "catalog.json"
_FILES = ["*.etjob.yaml", "*.etjob.yml", "*.etjob.json"]
"""Names of files that say themselves that they are for us."""


def texts() -> dict[str, str]:
    """Return the published documents as texts."""
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in sorted(published().items())
    }


def published() -> dict[str, dict[str, Any]]:
    """Return the documents by path below `BASE`: a schema a kind, one for all, a catalog."""
    files = [*(kind.schema for kind in frontends.kinds()), RUNTIME_SCHEMA, overlays.SCHEMA]
    files += [*SCHEMAS.values(), *(f"{name}.json" for name in DESCRIBED)]
    schemas: dict[str, dict[str, Any]] = {}
    for file in files:
        schema = bundled_schema(file)
        schemas[schema["$id"].removeprefix(BASE)] = schema
    kinds = {
        name: schema
        for name, schema in sorted(schemas.items())
        if "apiVersion" in schema.get("properties", {})
    }
    return {**schemas, ALL: _all(kinds), CATALOG: _catalog(schemas)}


def _all(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a schema for folders with documents of several kinds and other objects."""
    choices: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for path, schema in kinds.items():
        name = path.removesuffix(".json").replace("/", ".")
        fields = {field: schema["properties"][field] for field in ("apiVersion", "kind")}
        is_kind = {
            "properties": {
                field: {word: value[word] for word in ("const", "enum") if word in value}
                for field, value in fields.items()
            },
            "required": [*fields],
        }
        choices.append({"if": is_kind, "then": {"$ref": f"#/$defs/{name}"}})
        # With an $id it would be a document of its own, and an editor would fetch that.
        own = {word: value for word, value in schema.items() if word not in ("$id", "$schema")}
        definitions[name] = _moved(own, f"#/$defs/{name}")
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
        "allOf": choices,
        "$defs": definitions,
    }


def _moved(value: Any, place: str) -> Any:
    """Rewrite the references in a part of a schema for another place."""
    if isinstance(value, list):
        return [_moved(item, place) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{place}{inner[1:]}"
        if key == "$ref" and isinstance(inner, str) and inner.startswith("#")
        else _moved(inner, place)
        for key, inner in value.items()
    }


def _catalog(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a catalog in SchemaStore's format, for the settings of editors."""
    entries = [
        {
            "name": "etcompile",
            "description": "Training jobs that etcompile compiles, scale intents and overlays.",
            "fileMatch": _FILES,
            "url": f"{BASE}{ALL}",
        }
    ]
    for name, schema in sorted(schemas.items()):
        description = schema.get("description", schema["title"])
        entry = {"name": schema["title"], "description": description}
        entries.append({**entry, "fileMatch": [], "url": f"{BASE}{name}"})
    return {
        "$schema": "https://json.schemastore.org/schema-catalog.json",
        "version": 1,
        "schemas": entries,
    }
