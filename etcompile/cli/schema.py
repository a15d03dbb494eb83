"""`etcompile schema`: the JSON Schema of a kind, for editors, and of what we write for scripts."""

import json
from pathlib import Path

import click
from msgspec import Struct

from etcompile import frontends, overlays
from etcompile.check.bundled import bundled_schema
from etcompile.check.fields import table
from etcompile.cli import completing
from etcompile.cli.commands import did_you_mean
from etcompile.cli.parameters import argument, option, subcommand
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_SCHEMA, RUNTIME_VERSION


def names() -> list[tuple[str, str]]:
    """What KIND may be, as shortly as it is clear, each with what it is."""
    from etcompile.integrations.krm.config import SCHEMAS

    kinds = [(_shortest(known_kind), known_kind.summary) for known_kind in frontends.kinds()]
    return [
        *kinds,
        *((name, "what TrainJobs have in common") for name in RUNTIME_KINDS),
        ("Overlay", "what an environment changes"),
        *((name, "configuration of the KRM function") for name in SCHEMAS),
        ("configuration", "what etcompile.toml may hold"),
        ("diagnostics", "what --output-format json writes"),
        ("plan", "what diff --plan writes"),
    ]


class SchemaOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile schema`."""

    kind: str | None = argument("KIND", shell_complete=completing.offering(lambda _ctx: names()))
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

    KIND is a kind's name in any case: trainingjob. Where several API versions or groups have
    it, add one as kubectl does, MPIJob.v2beta1 or scaleout.etcompile.dev, or write it out:
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, configuration
    what etcompile.toml holds, diagnostics what --output-format json writes, and plan what
    diff --plan writes. docs/editors.md says how an editor is told of them.
    """
    kind, output, markdown = options.kind, options.output, options.markdown
    if options.all:
        if kind is not None or output is None or markdown:
            raise click.UsageError("--all needs -d DIR, and no KIND")
        from etcompile.cli.publishing import texts
        from etcompile.emit.files import write_files

        schemas = {name: text.encode() for name, text in texts().items()}
        if problems := write_files(output, schemas):
            raise click.BadParameter(problems[0].message, param_hint="-d")
        return
    if kind is None or output is not None:
        raise click.UsageError("name one KIND, or pass --all and -d DIR")
    wanted = kind.strip().lower()
    if wanted in (others := _others()):
        _show(others[wanted], markdown=markdown and others[wanted] == RUNTIME_SCHEMA)
        return
    found = [
        candidate for candidate in frontends.kinds() if wanted in map(str.lower, _names(candidate))
    ]
    if len(found) != 1:
        known = ", ".join(_shortest(candidate) for candidate in found or frontends.kinds())
        near = did_you_mean(kind, [name for name, _ in names()])
        problem = f"'{kind}' is ambiguous" if found else f"'{kind}' is not known.{near}"
        joint = " Use one of" if near and not found else "; use one of"
        raise click.BadParameter(f"{problem.rstrip('.')}{joint}: {known}", param_hint="KIND")
    _show(found[0].schema, markdown=markdown)


def _others() -> dict[str, str | Path]:
    """The schemas of what is no kind to compile, by the names that KIND may be in lower case."""
    from etcompile.integrations.krm.config import SCHEMAS

    kinds = [(RUNTIME_VERSION, name, RUNTIME_SCHEMA) for name in RUNTIME_KINDS]
    kinds += [("etcompile.dev/v1alpha1", name, schema) for name, schema in SCHEMAS.items()]
    kinds.append(("etcompile.dev/v1alpha1", "Overlay", overlays.SCHEMA))
    found: dict[str, str | Path] = {
        name: f"{name}.json" for name in ("configuration", "diagnostics", "plan")
    }
    for version, name, schema in kinds:
        found[name.lower()] = found[f"{version}/{name}".lower()] = schema
    return found


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


def _show(path: str | Path, *, markdown: bool) -> None:
    if markdown:
        click.echo(table(path), nl=False)
    else:
        click.echo(json.dumps(bundled_schema(path), indent=2, ensure_ascii=False))
