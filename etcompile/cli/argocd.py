"""Run as Argo CD's config management plugin, and write what installs it (`etcompile argocd`)."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from etcompile import emit
from etcompile.cli.command_line import HELP, Command, CompilingCommand, Group, released_image
from etcompile.cli.options import OPTIONAL_PATHS, RENDERING, Door, compiles
from etcompile.cli.reporting import Reporting, compiled, refuses, report, write
from etcompile.diagnostics import RefusedError, codes, diagnose

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured


@click.group("argocd", cls=Group, context_settings=HELP)
def command() -> None:
    """Run as Argo CD's config management plugin, or write the files that Argo CD needs.

    The plugin runs generate and discover. plugin, sidecar and application write the files of an
    installation.
    """


def _door() -> Door:
    """Return what the variables of Argo CD add to the command line."""
    from etcompile.integrations.argocd_plugin import ParameterError, repository, request

    root = str(repository(Path.cwd(), os.environ))
    try:
        asks = request(os.environ, Path.cwd(), ())
    except ParameterError as error:
        return Door(root, problem=error)
    return Door(root, asks.paths, asks.environment, asks.settings)


@command.command("generate", cls=CompilingCommand, context_settings=HELP)
@OPTIONAL_PATHS
@compiles(*RENDERING, door=_door)
def _generate(paths: tuple[str, ...], configured: "Configured", reporting: Reporting) -> None:
    """Compile what an Application asks for, as `etcompile render` does.

    Options given here hold for all Applications. What the Application's parameters say
    (ARGOCD_APP_PARAMETERS, ARGOCD_ENV_ETCOMPILE_*) comes after them, and the namespace and version
    of its destination (ARGOCD_APP_NAMESPACE, KUBE_VERSION) before. Objects go to standard output,
    everything else to standard error.
    """
    from etcompile.check import kubernetes
    from etcompile.integrations.argocd_plugin import request

    # A version in the repository takes precedence over the destination's.
    has_version = "kubernetes-version" in configured.written
    asks = request(os.environ, Path.cwd(), () if has_version else kubernetes.versions())
    chosen = configured.options
    overlays = (*asks.first, *chosen.overlays, *asks.last)
    chosen = structs.replace(chosen, overlays=overlays, default_namespace=asks.namespace)
    compilation = compiled(asks.paths or paths or ["."], chosen, reporting)
    findings = list(compilation.findings)
    if compilation.ok and not any(group.objects for group in compilation.groups):
        # With pruning on, an empty output would delete everything.
        findings.append(diagnose(codes.NOTHING_RENDERED, None))
    if refuses(findings, reporting):
        raise RefusedError(findings)
    report(findings, reporting)
    # In pieces: Argo CD discards the output of a plugin that fails half-way.
    for text in emit.blocks(compilation.in_order(), compilation.sources):
        write(text)


@command.command("discover")
def _discover() -> None:
    """Print the job files of this folder, or nothing if the plugin does not apply to it.

    With a plugin section in the Application these are all files with a job; without one, only
    those named *.etjob.yaml.
    """
    from etcompile.integrations.argocd_plugin import ParameterError, job_files, repository, request
    from etcompile.load import Boundary

    # The variable exists as soon as the Application has a plugin section, even an empty one.
    named = "ARGOCD_APP_PARAMETERS" in os.environ
    try:
        paths = request(os.environ, Path.cwd(), ()).paths if named else ()
    except ParameterError:
        paths = ()  # generate reports the error
    boundary = Boundary(str(repository(Path.cwd(), os.environ)))
    for file in job_files(paths or ["."], boundary, marked=not named):
        click.echo(file)


@command.command("plugin")
def _plugin() -> None:
    """Write plugin.yaml, for /home/argocd/cmp-server/config/ of the sidecar."""
    from etcompile.integrations.argocd_plugin import plugin_file

    click.echo(plugin_file().read_text("utf-8"), nl=False)


@command.command("sidecar", cls=Command, context_settings=HELP)
@click.option(
    "--image", metavar="IMAGE", help="Image of the sidecar.  [default: that of this release]"
)
def _sidecar(image: str | None) -> None:
    """Write the patch that adds the plugin to Argo CD's repo server."""
    from etcompile.pages import text

    image = image or released_image("etcompile-argocd")
    click.echo(text("argocd/sidecar.yaml", image=image), nl=False)


@command.command("application", cls=Command, context_settings=HELP)
@click.argument("name", metavar="NAME")
@click.option("--repository", required=True, metavar="URL", help="URL of the Git repository.")
@click.option("--path", required=True, metavar="PATH", help="Folder of the repository to sync.")
@click.option(
    "--revision",
    default="main",
    show_default=True,
    metavar="REV",
    help="Branch, tag or commit.",
)
@click.option("-n", "--namespace", required=True, metavar="NS", help="Destination namespace.")
@click.option("--plugin", is_flag=True, help="PATH holds job files, which the plugin compiles.")
def _application(**values: Any) -> None:
    """Write an Application that syncs rendered manifests, or jobs by the plugin."""
    from etcompile.pages import text

    click.echo(text("argocd/application.yaml", **values), nl=False)
