"""`etcompile schema`: the JSON Schema of a kind, for editors, and of what we write for scripts."""

import json
from pathlib import Path

import click

from etcompile import frontends, overlays
from etcompile.check.bundled import bundled_schema
from etcompile.check.fields import table


@click.command("schema")
@click.argument("kind", metavar="KIND")
@click.option("--markdown", is_flag=True, help="Print its fields as a table instead.")
def command(kind: str, *, markdown: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind.

    KIND is a kind's name in any case: trainingjob. Where several API versions or groups have
    it, add one as kubectl does, MPIJob.v2beta1 or scaleout.etcompile.dev, or write it out:
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, and
    diagnostics what --format json writes, plan what diff -o writes.
    """
    wanted = kind.strip().lower()
    if wanted in ("diagnostics", "plan"):
        _print(f"{wanted}.json")
        return
    if wanted in ("overlay", "etcompile.dev/v1alpha1/overlay"):
        _print(overlays.SCHEMA)
        return
    found = [one for one in frontends.kinds() if wanted in map(str.lower, _names(one))]
    if len(found) != 1:
        names = ", ".join(_shortest(one) for one in found or frontends.kinds())
        problem = f"'{kind}' is ambiguous" if found else f"'{kind}' is not known"
        raise click.BadParameter(f"{problem}; use one of: {names}", param_hint="KIND")
    if markdown:
        click.echo(table(found[0].schema), nl=False)
        return
    _print(found[0].schema)


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
    others = {name for one in frontends.kinds() if one is not kind for name in _names(one)}
    return next(name for name in _names(kind) if name not in others)


def _print(path: str | Path) -> None:
    click.echo(json.dumps(bundled_schema(path), indent=2, ensure_ascii=False))
