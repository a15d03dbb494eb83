"""Run as Argo CD's config management plugin, and write what installs it (`etcompile argocd`)."""

import os
from pathlib import Path

import click
from msgspec import Struct, structs

from etcompile import emit
from etcompile.cli.command_line import (
    HELP,
    Group,
    argument,
    option,
    released_image,
    subcommand,
)
from etcompile.cli.configured import INPUTS, CompilingCommand, bounded, of
from etcompile.cli.options import OPTIONAL_PATHS, CompileOptions, compiler_options
from etcompile.cli.reporting import compiled, refuses, report, write
from etcompile.diagnostics import RefusedError, codes, diagnose


@click.group("argocd", cls=Group, context_settings=HELP)
def command() -> None:
    """Run as Argo CD's config management plugin, or write the files that Argo CD needs.

    The plugin runs generate and discover. plugin, sidecar and application write the files of an
    installation.
    """


class _GenerateOptions(CompileOptions, frozen=True, kw_only=True):
    paths: tuple[str, ...] = OPTIONAL_PATHS


class _Plugin(CompilingCommand):
    """A command that also takes options from the variables of Argo CD."""

    def repository(self) -> str:
        from etcompile.integrations.argocd_plugin import repository

        return str(repository(Path.cwd(), os.environ))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from etcompile.check import kubernetes
        from etcompile.integrations.argocd_plugin import ParameterError, Request, request

        requested = Request()
        try:
            requested = ctx.obj = request(os.environ, Path.cwd(), kubernetes.versions())
            ctx.meta[INPUTS] = requested.paths
        except ParameterError as error:
            ctx.obj = error  # reported once the output format is known
        return super().parse_args(ctx, [*args, *requested.words])


@subcommand("generate", _GenerateOptions, cls=_Plugin, group=command)
def _generate(ctx: click.Context, options: _GenerateOptions) -> None:
    """Compile what an Application asks for, as `etcompile render` does.

    Options given here hold for all Applications. What the Application's parameters say
    (ARGOCD_APP_PARAMETERS, ARGOCD_ENV_ETCOMPILE_*) comes after them, and the namespace and version
    of its destination (ARGOCD_APP_NAMESPACE, KUBE_VERSION) before. Objects go to standard output,
    everything else to standard error.
    """
    from etcompile.integrations.argocd_plugin import ParameterError, request

    requested = ctx.obj
    if isinstance(requested, ParameterError):
        raise requested
    if "kubernetes-version" in of(ctx).settings:
        # The version in the repository takes precedence over the destination's.
        requested = request(os.environ, Path.cwd(), ())
    chosen = bounded(ctx, compiler_options(options))
    chosen = structs.replace(
        chosen,
        overlays=(*requested.first, *chosen.overlays, *requested.last),
        default_namespace=requested.namespace,
    )
    compilation = compiled(requested.paths or options.paths or ["."], chosen, options)
    findings = list(compilation.findings)
    if compilation.ok and not any(group.objects for group in compilation.groups):
        # With pruning on, an empty output would delete everything.
        findings.append(diagnose(codes.NOTHING_RENDERED, None))
    if refuses(findings, options):
        raise RefusedError(findings)
    report(findings, options)
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


class _SidecarOptions(Struct, frozen=True, kw_only=True):
    image: str | None = option(
        metavar="IMAGE", help="Image of the sidecar.  [default: that of this release]"
    )


@subcommand("sidecar", _SidecarOptions, group=command)
def _sidecar(_ctx: click.Context, options: _SidecarOptions) -> None:
    """Write the patch that adds the plugin to Argo CD's repo server."""
    from etcompile.pages import text

    image = options.image or released_image("etcompile-argocd")
    click.echo(text("argocd/sidecar.yaml", image=image), nl=False)


class _ApplicationOptions(Struct, frozen=True, kw_only=True):
    name: str = argument("NAME")
    repository: str = option(metavar="URL", help="URL of the Git repository.")
    path: str = option(metavar="PATH", help="Folder of the repository to sync.")
    revision: str = option(default="main", metavar="REV", help="Branch, tag or commit.")
    namespace: str = option("-n", metavar="NS", help="Destination namespace.")
    plugin: bool = option(help="PATH holds job files, which the plugin compiles.")


@subcommand("application", _ApplicationOptions, group=command)
def _application(_ctx: click.Context, options: _ApplicationOptions) -> None:
    """Write an Application that syncs rendered manifests, or jobs by the plugin."""
    from etcompile.pages import text

    click.echo(text("argocd/application.yaml", **structs.asdict(options)), nl=False)
