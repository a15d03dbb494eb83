"""`etcompile flux`: what tells Flux to sync rendered manifests."""

import click

from etcompile.cli.suggestion import Choice, Group


@click.group("flux", cls=Group)
def command() -> None:
    """Write the files with which Flux syncs rendered manifests."""


@command.command("kustomization")
@click.argument("name", metavar="NAME")
@click.option("--path", metavar="PATH", required=True, help="The rendered folder in the source.")
@click.option(
    "--source",
    metavar="[KIND/]NAME",
    help="The source: GitRepository, OCIRepository or Bucket.  [default: GitRepository/NAME]",
)
@click.option(
    "--layout",
    type=Choice(["jobs", "staged"]),
    default="jobs",
    show_default=True,
    help="How the folder was rendered: staged makes two Kustomizations, the Pods' after the other.",
)
@click.option(
    "--decryption-secret",
    "decryption",
    metavar="NAME",
    help="The Secret with the age key of what SOPS has encrypted.",
)
def _kustomization(
    name: str, path: str, source: str | None, layout: str, decryption: str | None
) -> None:
    """Write the Kustomization of a rendered folder, or the two of a staged one."""
    from etcompile.integrations.scaffolding import text

    source = source or name
    kind, _, found = source.rpartition("/")
    if kind not in ("", "GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"):
        raise click.BadParameter(f"'{kind}' is no kind of source", param_hint="--source")
    values = {
        "name": name,
        "path": path.strip("/").removeprefix("./").removeprefix("."),
        "source": f"{kind or 'GitRepository'}/{found}",
        "staged": layout == "staged",
        "decryption": decryption,
    }
    click.echo(text("flux/kustomization.yaml", **values), nl=False)


@command.command("source")
@click.argument("name", metavar="NAME")
@click.option("--repository", metavar="URL", required=True, help="The Git repository.")
@click.option("--revision", metavar="BRANCH", default="main", show_default=True, help="The branch.")
def _source(name: str, repository: str, revision: str) -> None:
    """Write the GitRepository in which Flux finds a rendered folder."""
    from etcompile.integrations.scaffolding import text

    values = {"name": name, "repository": repository, "revision": revision}
    click.echo(text("flux/source.yaml", **values), nl=False)
