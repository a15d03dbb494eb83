"""`etcompile argocd`: the commands of its config management plugin, and what installs it."""

import os
import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile import emit
from etcompile._version import __version__
from etcompile.cli.options import REFUSED, options, refuses, setting_options, tell
from etcompile.compiler import compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, diagnose


@click.group("argocd")
def command() -> None:
    """Be Argo CD's config management plugin, and write what tells Argo CD.

    generate, parameters and discover are what the plugin runs; plugin, sidecar and application
    write the files of an installation.
    """


class _Asked(click.Command):
    """A command that takes options from the variables of Argo CD, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from etcompile.argocd import Asked, ParameterError, asked
        from etcompile.check import kubernetes

        wish = Asked()
        try:
            wish = ctx.obj = asked(os.environ, Path.cwd(), kubernetes.versions())
        except ParameterError as error:
            ctx.obj = error  # told when it is known how to tell
        return super().parse_args(ctx, [*args, *wish.words])


@command.command("generate", cls=_Asked)
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@setting_options
@click.pass_context
def _generate(ctx: click.Context, /, **given: Any) -> None:
    """Compile what an Application asks for, as `etcompile render` does.

    Options given here hold for all Applications. What the Application's parameters say
    (ARGOCD_APP_PARAMETERS, ARGOCD_ENV_ETCOMPILE_*) comes after them, and the namespace and version
    of its destination (ARGOCD_APP_NAMESPACE, KUBE_VERSION) before. Objects go to standard output,
    everything else to standard error.
    """
    from etcompile.argocd import ParameterError

    wish = ctx.obj
    if isinstance(wish, ParameterError):
        tell([_refused(wish)], given)
        ctx.exit(REFUSED)
    wanted = options(given)
    wanted = replace(
        wanted,
        overlays=(*wish.first, *wanted.overlays, *wish.last),
        default_namespace=wish.namespace,
    )
    compilation = compile(wish.paths or given["paths"] or ["."], wanted)
    told = list(compilation.diagnostics)
    if compilation.ok and not any(group.objects for group in compilation.groups):
        told.append(diagnose("ET5006", None))  # with pruning on, this would delete everything
    tell(told, given)
    if refuses(told, strict=given["strict"]):
        ctx.exit(REFUSED)
    # All of it or nothing, whatever happens on the way.
    text = "".join(emit.blocks(compilation.in_order(), compilation.sources))
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _refused(error: Any) -> Diagnostic:
    facts = {"problem": error.problem, "advice": error.advice}
    return diagnose("ET5005", None, option=f"parameter {error.parameter}", **facts)


@command.command("parameters")
@click.option("--all", "every", is_flag=True, help="Also those that plugin.yaml has.")
def _parameters(*, every: bool) -> None:
    """Announce the parameters to Argo CD's interface: what there is to choose from here."""
    import json

    from etcompile.argocd import PARAMETERS, announced, choices

    found = choices(Path.cwd(), os.environ)
    wanted = [one for one in PARAMETERS if every or one.names_files]
    click.echo(json.dumps(announced(wanted, found), ensure_ascii=False))


@command.command("discover")
def _discover() -> None:
    """Say whether this folder is for etcompile: print its jobs' files, or nothing.

    With a plugin section in the Application these are all files with a job; without one, only
    those named *.etjob.yaml.
    """
    from etcompile.argocd import ParameterError, asked, job_files

    # The variable is there as soon as the Application has a plugin section, even an empty one.
    named = "ARGOCD_APP_PARAMETERS" in os.environ
    try:
        paths = asked(os.environ, Path.cwd(), ()).paths if named else ()
    except ParameterError:
        paths = ()  # generate says what is wrong
    for file in job_files(paths or ["."], marked=not named):
        click.echo(file)


@command.command("plugin")
def _plugin() -> None:
    """Write plugin.yaml, which the sidecar has at /home/argocd/cmp-server/config/."""
    from etcompile.argocd import PARAMETERS, announced
    from etcompile.scaffolding import text

    static = emit.to_yaml(announced([one for one in PARAMETERS if not one.names_files]))
    indented = "".join(f"      {line}\n" for line in static.splitlines()).rstrip()
    click.echo(text("argocd/plugin.yaml", static=indented), nl=False)


@command.command("sidecar")
@click.option(
    "--image",
    metavar="IMAGE",
    default=f"etcompile-argocd:{__version__}",
    show_default=True,
    help="The sidecar's image.",
)
def _sidecar(*, image: str) -> None:
    """Write the patch that adds the plugin to Argo CD's repo server."""
    from etcompile.scaffolding import text

    click.echo(text("argocd/sidecar.yaml", image=image), nl=False)


@command.command("application")
@click.argument("name", metavar="NAME")
@click.option("--repository", metavar="URL", required=True, help="The Git repository.")
@click.option("--path", metavar="PATH", required=True, help="The folder in it to sync.")
@click.option(
    "--revision", metavar="REV", default="main", show_default=True, help="Branch, tag or commit."
)
@click.option("-n", "--namespace", metavar="NS", required=True, help="Where it goes.")
@click.option("--plugin", is_flag=True, help="PATH has jobs, and the plugin compiles them.")
def _application(name: str, **given: Any) -> None:
    """Write an Application that syncs rendered manifests, or jobs by the plugin."""
    from etcompile.scaffolding import text

    click.echo(text("argocd/application.yaml", name=name, **given), nl=False)
