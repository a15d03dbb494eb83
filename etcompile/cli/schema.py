"""`etcompile schema`: the JSON Schema of a kind, for editors, and of what we write for scripts."""

from pathlib import Path

import click

from etcompile import data, frontends, overlays


@click.command("schema")
@click.argument("kind", metavar="KIND")
def command(kind: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind.

    KIND is a kind's name in any case, with or without its API version: trainingjob, or
    kai.alibabacloud.com/v1alpha1/TrainingJob. overlay is what --overlay takes, and
    diagnostics what --format json writes.
    """
    wanted = kind.strip().lower()
    if wanted == "diagnostics":
        _print(data.folder("schemas") / "diagnostics.json")
        return
    if wanted in ("overlay", "etcompile.dev/v1alpha1/overlay"):
        _print(data.folder("schemas") / overlays.SCHEMA)
        return
    found = [
        one
        for one in frontends.kinds()
        if wanted in (one.name.lower(), f"{one.api_version}/{one.name}".lower())
    ]
    if len(found) != 1:
        names = ", ".join(f"{one.api_version}/{one.name}" for one in found or frontends.kinds())
        problem = f"'{kind}' is ambiguous" if found else f"'{kind}' is not known"
        raise click.BadParameter(f"{problem}; use one of: {names}", param_hint="KIND")
    path = Path(found[0].schema)
    _print(path if path.is_absolute() else data.folder("schemas") / path)


def _print(path: Path) -> None:
    click.echo(path.read_text(encoding="utf-8"), nl=False)
