"""`etcompile schema`: the JSON Schema of a kind, or of what etcompile writes."""

import json
from pathlib import Path

import click
from msgspec import Struct

from etcompile import frontends, overlays
from etcompile.check.json_schemas import bundled_schema
from etcompile.cli import completion
from etcompile.cli.command_line import argument, did_you_mean, subcommand
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_SCHEMA, RUNTIME_VERSION
from etcompile.integrations.krm import SCHEMAS

DESCRIBED = {
    "configuration": "what etcompile.toml may hold",
    "diagnostics": "what --output-format json writes",
    "plan": "what diff --plan writes",
}
"""What has a schema and is no kind."""


def names() -> list[tuple[str, str]]:
    """What KIND may be, as shortly as it is clear, each with what it is."""
    return [
        *((_shortest(kind), kind.summary) for kind in frontends.kinds()),
        *((name, "what TrainJobs have in common") for name in RUNTIME_KINDS),
        ("Overlay", "what an environment changes"),
        *((name, "configuration of the KRM function") for name in SCHEMAS),
        *DESCRIBED.items(),
    ]


class _Options(Struct, frozen=True, kw_only=True):
    kind: str = argument("KIND", shell_complete=completion.kinds)


@subcommand("schema", _Options)
def command(_ctx: click.Context, options: _Options) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind.

    KIND is the name of a kind, in upper or lower case. If several API versions or groups have it,
    add one as with kubectl, MPIJob.v2beta1 or scaleout.etcompile.dev, or write it in full:
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, configuration
    what etcompile.toml holds, diagnostics what --output-format json writes, and plan what
    diff --plan writes. docs/editors.md says how to set up an editor with them.
    """
    schema = bundled_schema(_schema_of(options.kind))
    click.echo(json.dumps(schema, indent=2, ensure_ascii=False))


def _schema_of(name: str) -> str | Path:
    """The schema of what KIND names.

    Raises:
        click.BadParameter: it names no kind, or several.
    """
    # Runtimes and what is no kind to compile.
    kinds = [(RUNTIME_VERSION, kind, RUNTIME_SCHEMA) for kind in RUNTIME_KINDS]
    kinds += [("etcompile.dev/v1alpha1", kind, schema) for kind, schema in SCHEMAS.items()]
    kinds.append(("etcompile.dev/v1alpha1", "Overlay", overlays.SCHEMA))
    others: dict[str, str | Path] = {name: f"{name}.json" for name in DESCRIBED}
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
