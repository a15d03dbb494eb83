"""Print the JSON Schema of a kind, or of output of etcompile (`etcompile schema`)."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from etcompile import frontends, overlays
from etcompile.check.json_schemas import bundled_schema
from etcompile.cli.command_line import HELP, Command, did_you_mean
from etcompile.cli.completion import beginning_with
from etcompile.frontends.kind import Kind, names_of
from etcompile.frontends.trainer.runtimes import RUNTIME_KINDS, RUNTIME_SCHEMA, RUNTIME_VERSION
from etcompile.integrations.krm import SCHEMAS

DESCRIBED = {
    "configuration": "what etcompile.toml may hold",
    "diagnostics": "what --output-format json writes",
    "plan": "what diff --plan writes",
}
"""Schemas that are not of a kind."""


class _Other(NamedTuple):
    """A schema that is not of a compiled kind; without an API version, it is of no kind at all."""

    api_version: str
    name: str
    schema: str | Path
    summary: str


def _described() -> Iterator[Kind | _Other]:
    yield from frontends.kinds()
    for name in RUNTIME_KINDS:
        yield _Other(RUNTIME_VERSION, name, RUNTIME_SCHEMA, "what TrainJobs have in common")
    version = "etcompile.dev/v1alpha1"
    yield _Other(version, "Overlay", overlays.SCHEMA, "what an environment changes")
    for name, schema in SCHEMAS.items():
        yield _Other(version, name, schema, "configuration of the KRM function")
    for name, summary in DESCRIBED.items():
        yield _Other("", name, f"{name}.json", summary)


def names(described: Iterable[Kind | _Other] = ()) -> Iterator[tuple[str, str]]:
    """Yield the shortest unambiguous name of each kind, with its summary; of all by default."""
    for each in described or _described():
        kinds = (kind for kind in frontends.kinds() if kind is not each)
        others = {name for kind in kinds for name in names_of(kind.api_version, kind.name)}
        its = names_of(each.api_version, each.name)
        yield next(name for name in its if name not in others), each.summary


@click.command("schema", cls=Command, context_settings=HELP)
@click.argument(
    "kind",
    metavar="KIND",
    shell_complete=lambda _ctx, _param, incomplete: beginning_with(names(), incomplete),
)
def command(kind: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind.

    KIND is the name of a kind, in upper or lower case. If several API versions or groups have it,
    add one as with kubectl, MPIJob.v2beta1 or scaleout.etcompile.dev, or write it in full:
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, configuration
    what etcompile.toml holds, diagnostics what --output-format json writes, and plan what
    diff --plan writes. docs/editors.md says how to set up an editor with them.
    """
    lower = kind.strip().lower()
    known_by = ((each, names_of(each.api_version, each.name)) for each in _described())
    meant = [each for each, its in known_by if lower in map(str.lower, its)]
    if len(meant) != 1:
        known = ", ".join(each for each, _ in names(meant or frontends.kinds()))
        near = did_you_mean(kind, [each for each, _ in names()])
        problem = f"is not known.{near} Use one of" if near else "is not known; use one of"
        problem = "is ambiguous; use one of" if meant else problem
        raise click.BadParameter(f"'{kind}' {problem}: {known}", param_hint="KIND")
    click.echo(json.dumps(bundled_schema(meant[0].schema), indent=2, ensure_ascii=False))
