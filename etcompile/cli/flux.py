"""Write the files with which Flux syncs rendered manifests (`etcompile flux`)."""

from typing import Literal

import click
from msgspec import Struct, structs

from etcompile.cli.command_line import HELP, Group, argument, option, subcommand


@click.group("flux", cls=Group, context_settings=HELP)
def command() -> None:
    """Write the files with which Flux syncs rendered manifests."""


class _KustomizationOptions(Struct, frozen=True, kw_only=True):
    name: str = argument("NAME")
    path: str = option(metavar="PATH", help="The rendered folder in the source.")
    source: str | None = option(
        metavar="[KIND/]NAME",
        help="The source: GitRepository, OCIRepository or Bucket.  [default: GitRepository/NAME]",
    )
    layout: Literal["jobs", "staged"] = option(
        default="jobs",
        help="How the folder was rendered. staged writes two Kustomizations; the one of the Pods"
        " depends on the other.",
    )
    decryption_secret: str | None = option(
        metavar="NAME", help="Secret with the age key that decrypts what SOPS has encrypted."
    )


@subcommand("kustomization", _KustomizationOptions, group=command)
def _kustomization(_ctx: click.Context, options: _KustomizationOptions) -> None:
    """Write the Kustomization of a rendered folder, or the two of a staged one."""
    from etcompile.pages import text

    kind, _, source = (options.source or options.name).rpartition("/")
    if kind not in ("", "GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"):
        raise click.BadParameter(f"'{kind}' is no kind of source", param_hint="--source")
    values = {
        "name": options.name,
        "path": options.path.strip("/").removeprefix("./").removeprefix("."),
        "source": f"{kind or 'GitRepository'}/{source}",
        "staged": options.layout == "staged",
        "decryption": options.decryption_secret,
    }
    click.echo(text("flux/kustomization.yaml", **values), nl=False)


class _SourceOptions(Struct, frozen=True, kw_only=True):
    name: str = argument("NAME")
    repository: str = option(metavar="URL", help="The Git repository.")
    revision: str = option(default="main", metavar="BRANCH", help="The branch.")


@subcommand("source", _SourceOptions, group=command)
def _source(_ctx: click.Context, options: _SourceOptions) -> None:
    """Write the GitRepository in which Flux finds a rendered folder."""
    from etcompile.pages import text

    click.echo(text("flux/source.yaml", **structs.asdict(options)), nl=False)
