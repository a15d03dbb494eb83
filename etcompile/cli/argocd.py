"""`etcompile argocd`: the commands of its config management plugin, and what installs it."""

import os
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile import emit
from etcompile._version import __version__
from etcompile.cli.boundary import bounded, named_files
from etcompile.cli.configured import INPUTS, CompilingCommand, of
from etcompile.cli.options import (
    CompileOptions,
    options,
    paths_argument,
    refuses,
    setting_options,
    tell,
    write,
)
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Group
from etcompile.compiler import compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.exitcodes import REFUSED


@click.group("argocd", cls=Group)
def command() -> None:
    """Run as Argo CD's config management plugin, or write the files that Argo CD needs.

    The plugin runs generate, parameters and discover. plugin, sidecar and application write the
    files of an installation.
    """


_OWN = f"{__name__}.own"
"""The files that the installation itself names, in what its plugin.yaml runs."""


class _PluginCommand(CompilingCommand):
    """A command that takes options from the variables of Argo CD, too."""

    for_others = True

    def repository(self) -> str:
        from etcompile.integrations.argocd import repository

        return str(repository(Path.cwd(), os.environ))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from etcompile.check import kubernetes
        from etcompile.integrations.argocd import ParameterError, Request, request

        wish = Request()
        ctx.meta[_OWN] = named_files(self, args)
        try:
            wish = ctx.obj = request(os.environ, Path.cwd(), kubernetes.versions())
            ctx.meta[INPUTS] = wish.paths
        except ParameterError as error:
            ctx.obj = error  # told when it is known how to tell
        return super().parse_args(ctx, [*args, *wish.words])


@command.command("generate", cls=_PluginCommand)
@paths_argument(required=False)
@setting_options
@takes(CompileOptions)
def _generate(ctx: click.Context, given: CompileOptions) -> None:
    """Compile what an Application asks for, as `etcompile render` does.

    Options given here hold for all Applications. What the Application's parameters say
    (ARGOCD_APP_PARAMETERS, ARGOCD_ENV_ETCOMPILE_*) comes after them, and the namespace and version
    of its destination (ARGOCD_APP_NAMESPACE, KUBE_VERSION) before. Objects go to standard output,
    everything else to standard error.
    """
    from etcompile.integrations.argocd import ParameterError, repository, request

    wish = ctx.obj
    if isinstance(wish, ParameterError):
        tell([_refused(wish)], given)
        ctx.exit(REFUSED)
    if "kubernetes-version" in of(ctx).settings:
        # What the repository says counts before what the destination happens to be.
        wish = request(os.environ, Path.cwd(), ())
    top = repository(Path.cwd(), os.environ)
    wanted = bounded(options(given), str(top), ctx.meta[_OWN])
    wanted = replace(
        wanted,
        overlays=(*wish.first, *wanted.overlays, *wish.last),
        default_namespace=wish.namespace,
    )
    compilation = compile(wish.paths or given.paths or ["."], wanted)
    told = list(compilation.findings)
    if compilation.ok and not any(group.objects for group in compilation.groups):
        told.append(
            diagnose(codes.NOTHING_RENDERED, None)
        )  # with pruning on, this would delete everything
    tell(told, given)
    if refuses(told, given):
        ctx.exit(REFUSED)
    # In pieces: Argo CD uses nothing of a plugin that fails on the way.
    for text in emit.blocks(compilation.in_order(), compilation.sources):
        write(text)


def _refused(error: Any) -> Diagnostic:
    facts = {"problem": error.problem, "advice": error.advice}
    return diagnose(codes.OPTION, None, option=f"parameter {error.parameter}", **facts)


@command.command("parameters")
@click.option(
    "--all", "every", is_flag=True, help="Also print the parameters that plugin.yaml declares."
)
def _parameters(*, every: bool) -> None:
    """Print the parameters of the plugin for Argo CD's interface."""
    import json

    from etcompile.integrations.argocd import announced, choices

    found = choices(Path.cwd(), os.environ)
    click.echo(json.dumps(announced(found, every=every), ensure_ascii=False))


@command.command("discover")
def _discover() -> None:
    """Print the job files of this folder, or nothing if the plugin does not apply to it.

    With a plugin section in the Application these are all files with a job; without one, only
    those named *.etjob.yaml.
    """
    from etcompile.integrations.argocd import ParameterError, job_files, repository, request
    from etcompile.load import Boundary

    # The variable is there as soon as the Application has a plugin section, even an empty one.
    named = "ARGOCD_APP_PARAMETERS" in os.environ
    try:
        paths = request(os.environ, Path.cwd(), ()).paths if named else ()
    except ParameterError:
        paths = ()  # generate says what is wrong
    boundary = Boundary(str(repository(Path.cwd(), os.environ)))
    for file in job_files(paths or ["."], boundary, marked=not named):
        click.echo(file)


@command.command("plugin")
def _plugin() -> None:
    """Write plugin.yaml, for /home/argocd/cmp-server/config/ of the sidecar."""
    from etcompile.integrations.argocd import plugin_file

    click.echo(plugin_file().read_text("utf-8"), nl=False)


@command.command("sidecar")
@click.option(
    "--image",
    metavar="IMAGE",
    default=f"ghcr.io/etcompile/etcompile-argocd:{__version__}",
    show_default=True,
    help="Image of the sidecar.",
)
def _sidecar(*, image: str) -> None:
    """Write the patch that adds the plugin to Argo CD's repo server."""
    from etcompile.integrations.scaffolding import text

    click.echo(text("argocd/sidecar.yaml", image=image), nl=False)


@command.command("application")
@click.argument("name", metavar="NAME")
@click.option("--repository", metavar="URL", required=True, help="URL of the Git repository.")
@click.option("--path", metavar="PATH", required=True, help="Folder of the repository to sync.")
@click.option(
    "--revision", metavar="REV", default="main", show_default=True, help="Branch, tag or commit."
)
@click.option("-n", "--namespace", metavar="NS", required=True, help="Destination namespace.")
@click.option("--plugin", is_flag=True, help="PATH holds job files, which the plugin compiles.")
def _application(
    name: str, repository: str, path: str, revision: str, namespace: str, *, plugin: bool
) -> None:
    """Write an Application that syncs rendered manifests, or jobs by the plugin."""
    from etcompile.integrations.scaffolding import text

    values = {"name": name, "repository": repository, "path": path, "revision": revision}
    values |= {"namespace": namespace}
    click.echo(text("argocd/application.yaml", **values, plugin=plugin), nl=False)
