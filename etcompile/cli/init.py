"""Create a repository to start from, whose checks pass (`etcompile init`)."""

import os
import re
from pathlib import Path
from typing import Literal

import click

from etcompile.cli.command_line import argument, converted, option, subcommand
from etcompile.cli.options import KUBERNETES_VERSION, ReportOptions, namespace_name
from etcompile.cli.reporting import notices
from etcompile.diagnostics import RefusedError
from etcompile.k8s.names import is_label

_LONGEST_NAME = 52
"""Characters of a name, so that objects named after it have valid names, too."""
_PLACEHOLDER = "https://git.example.com/your-team/training.git"


class _Options(ReportOptions, frozen=True, kw_only=True):
    folder: Path = argument("[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
    gitops: Literal["argocd", "flux", "none"] = option(
        default="none", help="Tool that syncs the output. Adds its files and annotations."
    )
    namespace: str = option(
        "-n",
        default="training",
        metavar="NS",
        callback=converted(namespace_name),
        help="Namespace of the jobs.",
    )
    name: str | None = option(
        metavar="NAME", help="Name of the repository.  [default: that of the folder]"
    )
    repository: str | None = option(
        metavar="URL", help="URL for Argo CD or Flux.  [default: the remote origin]"
    )
    owner: str = option(
        default="@your-org/ml-platform",
        metavar="WHO",
        help="Owner of production files in CODEOWNERS.",
    )
    kubernetes_version: str = KUBERNETES_VERSION


@subcommand("init", _Options, flags=("kubernetes-version", "color"))
def command(ctx: click.Context, options: _Options) -> None:
    """Create a repository to start from: a job, an overlay, CI, and the files of a GitOps tool.

    Existing files stay as they are. The new files render as they are, and their checks pass.
    """
    from etcompile.cli.render import command as render
    from etcompile.emit.files import refused, write_files
    from etcompile.integrations.scaffold import JOBS, OUTPUT, OVERLAY, repository_files
    from etcompile.operations.declarations import command_output, normalised

    folder = options.folder
    name = options.name
    name = name or re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not is_label(name) or len(name) > _LONGEST_NAME:
        problem = f"'{name}' is not a valid name: use lower-case letters, digits and '-'"
        raise click.BadParameter(problem, param_hint="--name")
    where = folder if folder.is_dir() else folder.parent
    origin = command_output("git", "-C", str(where), "remote", "get-url", "origin")
    # A token in the URL is for this machine, and must not get into a file of the repository.
    url = options.repository or re.sub(r"^(https?://)[^/@]*@", r"\1", origin)
    files = repository_files(
        options.gitops,
        name,
        namespace=options.namespace,
        repository=url or _PLACEHOLDER,
        known_as=normalised(url) or name,
        owner=options.owner,
        kubernetes_version=options.kubernetes_version,
    )
    new = {path: text for path, text in files.items() if not os.path.lexists(folder / path)}
    contents = {path: text.encode() for path, text in new.items()}
    # The folder of manifests is written later.
    refusals = refused(folder, [*new, OUTPUT]) or write_files(folder, contents, only_new=True)
    if refusals:
        raise RefusedError(refusals)
    if notices(options):
        for path in files:
            done = "wrote" if path in new else "kept "
            click.echo(f"{done} {folder / path}", err=True)
    # The `etcompile render` of the files.
    words = [str(folder / JOBS), "--overlay", str(folder / OVERLAY), "-d", str(folder / OUTPUT)]
    words += [f"--output-format={options.form}", f"--color={options.color}"]
    words += ["--quiet"] if options.quiet else []
    with render.make_context("render", words, parent=ctx.parent) as inner:
        render.invoke(inner)
