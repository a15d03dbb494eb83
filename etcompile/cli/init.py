"""`etcompile init`: a repository to start from, whose checks pass."""

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from etcompile.cli.options import (
    TalkOptions,
    kubernetes_version_option,
    minor_version,
    talk_options,
    talks,
    tell,
)
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.cli.usage import Command
from etcompile.diagnostics import codes, diagnose
from etcompile.exitcodes import REFUSED
from etcompile.k8s.names import is_label

if TYPE_CHECKING:
    from etcompile.integrations.scaffolding import Plan

_LONGEST_NAME = 52
"""Characters of a name, so that what is named after it has a valid name, too."""
_PLACEHOLDER = "https://git.example.com/your-team/training.git"


class InitOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile init`."""

    folder: Path
    gitops: Literal["argocd", "flux", "none"]
    namespace: str
    name: str | None
    repository: str | None
    owner: str
    kubernetes_version: str
    keep: bool


@click.command("init", cls=Command)
@click.argument(
    "folder",
    metavar="[DIR]",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "--gitops",
    type=Choice(["argocd", "flux", "none"]),
    default="none",
    show_default=True,
    help="What syncs the output: adds its files, and annotates for it.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    default="training",
    show_default=True,
    help="Namespace of the jobs.",
)
@click.option(
    "--name", metavar="NAME", help="Name of the repository.  [default: that of the folder]"
)
@click.option(
    "--repository",
    metavar="URL",
    help="URL for Argo CD or Flux.  [default: the remote origin]",
)
@click.option(
    "--owner",
    metavar="WHO",
    default="@your-org/ml-platform",
    show_default=True,
    help="Owner of production files in CODEOWNERS.",
)
@kubernetes_version_option()
@click.option("--keep", is_flag=True, help="Keep existing files as they are, and add the others.")
@talk_options
@takes(InitOptions)
def command(ctx: click.Context, given: InitOptions) -> None:
    """Create a repository to start from: a job, an overlay, CI, and the files of a GitOps tool.

    Existing files are not overwritten. The new files render as they are, and their checks pass.
    """
    from etcompile.emit.files import refused
    from etcompile.integrations.scaffolding import OUTPUT, existing, repository_files, write

    folder = given.folder
    files = repository_files(_plan(given))
    try:
        there = existing(folder, files)
        if there.other and not given.keep:
            tell(
                [
                    diagnose(codes.SCAFFOLD_IN_THE_WAY, None, file=folder / path)
                    for path in there.other
                ],
                given,
            )
            if talks(given):
                click.echo("nothing was written; --keep leaves these and adds the rest", err=True)
            ctx.exit(REFUSED)
    except OSError as error:
        reason = error.strerror or str(error)
        tell(
            [diagnose(codes.WRITE_FAILED, None, path=error.filename or folder, reason=reason)],
            given,
        )
        ctx.exit(REFUSED)
    wanted = {p: t for p, t in files.items() if p not in {*there.same, *there.other}}
    # The folder of manifests is written, too, when the files are there.
    if problems := refused(folder, [*wanted, OUTPUT]) or write(folder, wanted):
        tell(problems, given)
        ctx.exit(REFUSED)
    if talks(given):
        for path in files:
            done = "wrote" if path in wanted else "kept "
            click.echo(f"{done} {folder / path}", err=True)
    _render(ctx, given)


def _plan(given: InitOptions) -> "Plan":
    """What the repository is for.

    Raises:
        click.BadParameter: a value has the wrong form.
    """
    from etcompile.integrations.scaffolding import Plan
    from etcompile.operations.job_sets import normalised

    for option, value, fits in (
        ("namespace", given.namespace, is_label(given.namespace)),
        ("owner", given.owner, re.fullmatch(r"\S+", given.owner)),
    ):
        if not fits:
            raise click.BadParameter(f"'{value}' is not a valid {option}", param_hint=f"--{option}")
    name = given.name or re.sub(r"[^a-z0-9]+", "-", given.folder.resolve().name.lower()).strip("-")
    if not is_label(name) or len(name) > _LONGEST_NAME:
        problem = f"'{name}' is not a valid name: use lower-case letters, digits and '-'"
        raise click.BadParameter(problem, param_hint="--name")
    url = given.repository or _origin(given.folder)
    return Plan(
        name=name,
        gitops=given.gitops,
        namespace=given.namespace,
        repository=url or _PLACEHOLDER,
        known_as=normalised(url) or name,
        owner=given.owner,
        kubernetes_version=minor_version(given.kubernetes_version),
    )


def _origin(folder: Path) -> str:
    """The URL of the remote `origin`; empty if there is none."""
    where = folder if folder.is_dir() else folder.parent
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, and a folder
            ["git", "-C", str(where), "remote", "get-url", "origin"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    url = done.stdout.strip() if done.returncode == 0 else ""
    # A token in it is for this machine, and no file of the repository is to have it.
    return re.sub(r"^(https?://)[^/@]*@", r"\1", url)


def _render(ctx: click.Context, given: InitOptions) -> None:
    """`etcompile render`, as the files say it."""
    from etcompile.cli.render import command as render
    from etcompile.integrations.scaffolding import JOBS, OUTPUT, OVERLAY

    folder = given.folder
    words = [str(folder / JOBS), "--overlay", str(folder / OVERLAY), "-d", str(folder / OUTPUT)]
    words += [f"--output-format={given.form}", f"--color={given.color}"]
    words += ["--quiet"] if given.quiet else []
    with render.make_context("render", words, parent=ctx.parent) as inner:
        render.invoke(inner)
