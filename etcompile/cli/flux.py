"""Write the files with which Flux syncs rendered manifests (`etcompile flux`)."""

import click

from etcompile.cli.command_line import HELP, Command, Group


@click.group("flux", cls=Group, context_settings=HELP)
def command() -> None:
    """Write the files with which Flux syncs rendered manifests."""


@command.command("kustomization", cls=Command, context_settings=HELP)
@click.argument("name", metavar="NAME")
@click.option("--path", required=True, metavar="PATH", help="The rendered folder in the source.")
@click.option(
    "--source",
    metavar="[KIND/]NAME",
    help="The source: GitRepository, OCIRepository or Bucket.  [default: GitRepository/NAME]",
)
@click.option(
    "--layout",
    type=click.Choice(["jobs", "staged"]),
    default="jobs",
    show_default=True,
    help="How the folder was rendered. staged writes two Kustomizations; the one of the Pods"
    " depends on the other.",
)
@click.option(
    "--decryption-secret",
    metavar="NAME",
    help="Secret with the age key that decrypts what SOPS has encrypted.",
)
def _kustomization(
    name: str, path: str, source: str | None, layout: str, decryption_secret: str | None
) -> None:
    """Write the Kustomization of a rendered folder, or the two of a staged one."""
    from etcompile.pages import text

    kind, _, origin = (source or name).rpartition("/")
    if kind not in ("", "GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"):
        raise click.BadParameter(f"'{kind}' is no kind of source", param_hint="--source")
    values = {
        "name": name,
        "path": path.strip("/").removeprefix("./").removeprefix("."),
        "source": f"{kind or 'GitRepository'}/{origin}",
        "staged": layout == "staged",
        "decryption": decryption_secret,
    }
    click.echo(text("flux/kustomization.yaml", **values), nl=False)


@command.command("source", cls=Command, context_settings=HELP)
@click.argument("name", metavar="NAME")
@click.option("--repository", required=True, metavar="URL", help="The Git repository.")
@click.option("--revision", default="main", show_default=True, metavar="BRANCH", help="The branch.")
def _source(name: str, repository: str, revision: str) -> None:
    """Write the GitRepository in which Flux finds a rendered folder."""
    from etcompile.pages import text

    values = {"name": name, "repository": repository, "revision": revision}
    click.echo(text("flux/source.yaml", **values), nl=False)
