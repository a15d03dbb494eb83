"""Create a repository to start from, whose checks pass (`etcompile init`)."""

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etcompile.cli.command_line import HELP, Command
from etcompile.cli.options import reports, usage_errors
from etcompile.cli.reporting import Reporting, notices
from etcompile.data import setting_schemas
from etcompile.diagnostics import Diagnostic, Location, RefusedError, codes, diagnose
from etcompile.k8s.names import is_label

if TYPE_CHECKING:
    from etcompile.integrations.scaffold import GitOps

_LONGEST_NAME = 52
"""Characters of a name, so that objects named after it have valid names, too."""
_PLACEHOLDER = "https://git.example.com/your-team/training.git"


def _checked(ctx: click.Context, param: click.Parameter, value: str) -> Any:
    from etcompile.compiler.configured import value_of

    key = str(param.name).replace("_", "-")
    with usage_errors(ctx, {key: value}):
        return value_of(key, value)


@click.command("init", cls=Command, context_settings=HELP)
@click.argument(
    "folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--gitops",
    type=click.Choice(["argocd", "flux", "none"]),
    default="none",
    show_default=True,
    help="Tool that syncs the output. Adds its files and annotations.",
)
@click.option(
    "-n",
    "--namespace",
    default="training",
    show_default=True,
    metavar="NS",
    callback=_checked,
    help="Namespace of the jobs.",
)
@click.option(
    "--name", metavar="NAME", help="Name of the repository.  [default: that of the folder]"
)
@click.option(
    "--repository", metavar="URL", help="URL for Argo CD or Flux.  [default: the remote origin]"
)
@click.option(
    "--owner",
    default="@your-org/ml-platform",
    show_default=True,
    metavar="WHO",
    help="Owner of production files in CODEOWNERS.",
)
@click.option(
    "--kubernetes-version",
    default=setting_schemas()["kubernetes-version"]["default"],
    show_default=True,
    metavar="V",
    callback=_checked,
    help=setting_schemas()["kubernetes-version"]["description"],
)
@reports()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    folder: Path,
    reporting: Reporting,
    gitops: "GitOps",
    name: str | None,
    repository: str | None,
    **values: str,
) -> None:
    """Create a repository to start from: a job, an overlay, CI, and the files of a GitOps tool.

    Existing files stay as they are. The new files render as they are, and their checks pass.
    """
    from etcompile.cli.render import command as render
    from etcompile.emit.files import refused, write_files
    from etcompile.integrations.scaffold import (
        ENVIRONMENT,
        JOBS,
        OUTPUT,
        OVERLAY,
        repository_files,
    )
    from etcompile.load import configuration
    from etcompile.load.configuration import FILE as CONFIGURATION
    from etcompile.operations.declarations import command_output, normalised

    name = name or re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not is_label(name) or len(name) > _LONGEST_NAME:
        problem = f"'{name}' is not a valid name: use lower-case letters, digits and '-'"
        raise click.BadParameter(problem, param_hint="--name")
    where = folder if folder.is_dir() else folder.parent
    origin = command_output("git", "-C", str(where), "remote", "get-url", "origin")
    # A token in the URL is for this machine, and must not get into a file of the repository.
    url = repository or re.sub(r"^(https?://)[^/@]*@", r"\1", origin)
    files = repository_files(
        gitops,
        name,
        repository=url or _PLACEHOLDER,
        known_as=normalised(url) or name,
        **values,
    )
    new = {path: text for path, text in files.items() if not os.path.lexists(folder / path)}
    if CONFIGURATION not in new:
        # It stays as it is, but the new files name an environment.
        existing = configuration.named(str(folder / CONFIGURATION))
        if isinstance(existing, Diagnostic):
            raise RefusedError([existing])
        if ENVIRONMENT not in existing.values.get("environments", {}):
            advice = f'add overlay = ["{OVERLAY}"] in a table [environments.{ENVIRONMENT}]'
            place = Location(existing.file)
            raise RefusedError(
                [diagnose(codes.UNKNOWN_ENVIRONMENT, place, name=ENVIRONMENT, advice=advice)]
            )
    contents = {path: text.encode() for path, text in new.items()}
    # The folder of manifests is written later.
    refusals = refused(folder, [*new, OUTPUT]) or write_files(folder, contents, only_new=True)
    if refusals:
        raise RefusedError(refusals)
    if notices(reporting):
        for path in files:
            done = "wrote" if path in new else "kept "
            click.echo(f"{done} {folder / path}", err=True)
    # The `etcompile render` of the files, in their folder as its users call it.
    words = [f"{JOBS}/", "--environment", ENVIRONMENT, "-d", OUTPUT]
    words += [f"--output-format={reporting.form}", f"--color={reporting.color}"]
    words += ["--quiet"] if reporting.quiet else []
    with (
        contextlib.chdir(folder),
        render.make_context("render", words, parent=ctx.parent) as inner,
    ):
        render.invoke(inner)
