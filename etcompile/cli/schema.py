"""`etcompile schema`: the JSON Schema of a kind, and all of them as the folder that is published.

They are for editors and, as far as they describe what etcompile writes, for scripts.
"""

import json
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from etcompile import frontends, overlays
from etcompile.check.json_schemas import bundled_schema
from etcompile.check.schema_table import table
from etcompile.cli import completion
from etcompile.cli.command_line import argument, did_you_mean, option, subcommand
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_SCHEMA, RUNTIME_VERSION
from etcompile.integrations.krm import SCHEMAS

BASE = "https://etcompile.dev/schemas/"
"""Where the schemas are published."""
ALL, CATALOG = "all.json", "catalog.json"
_FILES = ["*.etjob.yaml", "*.etjob.yml", "*.etjob.json"]
"""Names of files that say themselves that they are for us."""
_WRITTEN = {
    "configuration": "what etcompile.toml may hold",
    "diagnostics": "what --output-format json writes",
    "plan": "what diff --plan writes",
}


def names() -> list[tuple[str, str]]:
    """What KIND may be, as shortly as it is clear, each with what it is."""
    return [
        *((_shortest(kind), kind.summary) for kind in frontends.kinds()),
        *((name, "what TrainJobs have in common") for name in RUNTIME_KINDS),
        ("Overlay", "what an environment changes"),
        *((name, "configuration of the KRM function") for name in SCHEMAS),
        *_WRITTEN.items(),
    ]


class SchemaOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile schema`."""

    kind: str | None = argument("KIND", shell_complete=completion.kinds)
    markdown: bool = option(help="Print the fields as a Markdown table instead.")
    all: bool = option(help="With -d: write all schemas, and a catalog for editors.")
    output: Path | None = option(
        *("-d", "--output-dir"),
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="With --all: folder to write to; each schema goes to the path of its $id.",
    )


@subcommand("schema", SchemaOptions)
def command(_ctx: click.Context, options: SchemaOptions) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind.

    KIND is the name of a kind, in upper or lower case. If several API versions or groups have it,
    add one as with kubectl, MPIJob.v2beta1 or scaleout.etcompile.dev, or write it in full:
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, configuration
    what etcompile.toml holds, diagnostics what --output-format json writes, and plan what
    diff --plan writes. docs/editors.md says how to set up an editor with them.
    """
    kind, output = options.kind, options.output
    if options.all:
        if kind is not None or output is None or options.markdown:
            raise click.UsageError("--all needs -d DIR, and no KIND")
        from etcompile.emit.files import write_files

        if problems := write_files(output, {name: text.encode() for name, text in texts().items()}):
            raise click.BadParameter(problems[0].message, param_hint="-d")
        return
    if kind is None or output is not None:
        raise click.UsageError("name one KIND, or pass --all and -d DIR")
    path = _schema_of(kind)
    is_kind = path == RUNTIME_SCHEMA or any(path == known.schema for known in frontends.kinds())
    if options.markdown and is_kind:
        click.echo(table(path), nl=False)
    else:
        click.echo(json.dumps(bundled_schema(path), indent=2, ensure_ascii=False))


def _schema_of(name: str) -> str | Path:
    """The schema of what KIND names.

    Raises:
        click.BadParameter: it names no kind, or several.
    """
    # Runtimes and what is no kind to compile.
    kinds = [(RUNTIME_VERSION, kind, RUNTIME_SCHEMA) for kind in RUNTIME_KINDS]
    kinds += [("etcompile.dev/v1alpha1", kind, schema) for kind, schema in SCHEMAS.items()]
    kinds.append(("etcompile.dev/v1alpha1", "Overlay", overlays.SCHEMA))
    others: dict[str, str | Path] = {name: f"{name}.json" for name in _WRITTEN}
    for version, kind, schema in kinds:
        others[kind.lower()] = others[f"{version}/{kind}".lower()] = schema
    lower = name.strip().lower()
    if lower in others:
        return others[lower]
    meant = [kind for kind in frontends.kinds() if lower in map(str.lower, _names(kind))]
    if len(meant) == 1:
        return meant[0].schema
    known = ", ".join(_shortest(kind) for kind in meant or frontends.kinds())
    if meant:
        raise click.BadParameter(f"'{name}' is ambiguous; use one of: {known}", param_hint="KIND")
    near = did_you_mean(name, [known_name for known_name, _ in names()])
    joint = " Use one of" if near else "; use one of"
    problem = f"'{name}' is not known{'.' if near else ''}{near}{joint}: {known}"
    raise click.BadParameter(problem, param_hint="KIND")


def _names(kind: frontends.Kind) -> tuple[str, ...]:
    """What a kind may be called, the shortest first."""
    group, _, version = kind.api_version.rpartition("/")
    return (
        kind.name,
        f"{kind.name}.{version}",
        f"{kind.name}.{group}",
        f"{kind.name}.{version}.{group}",
        f"{kind.api_version}/{kind.name}",
    )


def _shortest(kind: frontends.Kind) -> str:
    """The first of its names that no other kind has."""
    others = {name for other in frontends.kinds() if other is not kind for name in _names(other)}
    return next(name for name in _names(kind) if name not in others)


# The published folder -----------------------------------------------------------------------------


def texts() -> dict[str, str]:
    """The published documents as texts."""
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in sorted(published().items())
    }


def published() -> dict[str, dict[str, Any]]:
    """The documents by path below `BASE`: a schema a kind, one for all, and a catalog of them."""
    files = [*(kind.schema for kind in frontends.kinds()), RUNTIME_SCHEMA, overlays.SCHEMA]
    files += [*SCHEMAS.values(), *(f"{name}.json" for name in _WRITTEN)]
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
    """A schema for folders that hold documents of several kinds, and other objects too."""
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
    """A part of a schema whose references are seen from another place than its root."""
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
    """A catalog in the form of SchemaStore's, for the settings of editors."""
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
