"""The boundary of a program that runs for whoever can write to a repository.

Apart from the options, because most commands have none: `etcompile argocd generate` and `etcompile
krm` run on a machine that belongs to somebody else than the repository. What their own command line
names is exempt, since who installed them wrote it.
"""

import os
from collections.abc import Sequence

import click
from msgspec.structs import replace

from etcompile.compiler import Options
from etcompile.load import Boundary
from etcompile.model.settings import secret_mode


def bounded(options: Options, root: str, besides: Sequence[str]) -> Options:
    """The options, with a boundary.

    Args:
        options: How to compile.
        root: The folder in which everything must lie that is opened.
        besides: Files and folders elsewhere that may be opened all the same.
    """
    boundary = Boundary(root, tuple(besides))
    return replace(options, limits=replace(options.limits, boundary=boundary))


def named_files(command: click.Command, args: Sequence[str]) -> list[str]:
    """The files and folders that words of a command line name by absolute paths.

    What they name by relative paths lies in the repository: it may be a link of somebody else's.

    Args:
        command: The command that the words are for.
        args: Its words, as whoever installed it wrote them.
    """
    context = click.Context(command, resilient_parsing=True)
    click.Command.parse_args(command, context, list(args))
    given = context.params
    names = ("paths", "overlays", "runtimes")
    found = [file for name in names for file in given.get(name) or ()]
    if templates := given.get("templates"):
        found.append(str(templates))
    try:
        secret = secret_mode(given.get("secret") or "").file
    except ValueError:
        secret = None  # told when the options are read
    return [file for file in (*found, secret) if file and os.path.isabs(file)]  # noqa: PTH117
