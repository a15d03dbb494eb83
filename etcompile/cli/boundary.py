"""The boundary of a program that runs for whoever can write to a repository.

`etcompile argocd generate` and `etcompile krm` run on a machine that does not belong to the people
who write to the repository. They open nothing outside of it, except what their own command line
names, since whoever installed them wrote that.
"""

import contextlib
import os

import click
from msgspec.structs import replace

from etcompile.cli.configured import CompilingCommand
from etcompile.cli.parameters import Setting
from etcompile.compiler import Options
from etcompile.load import Boundary
from etcompile.model.settings import secret_mode

_OWN = f"{__name__}.own"
"""Where a command keeps the files that its own command line names."""


class BoundedCommand(CompilingCommand):
    """A command that runs for whoever can write to a repository."""

    for_others = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the files and folders that the command line names by absolute paths.

        What it names by relative paths lies in the repository: it may be a link of somebody else's.
        """
        first = click.Context(self, resilient_parsing=True)
        click.Command.parse_args(self, first, list(args))
        found: list[str] = [*(first.params.get("paths") or ())]
        for param in self.params:
            value = first.params.get(param.name or "")
            if isinstance(param, Setting) and param.is_file and value:
                found += map(str, value) if param.multiple else [str(value)]
        # What is wrong with it is reported when the options are read.
        with contextlib.suppress(ValueError):
            found.append(secret_mode(first.params.get("secret") or "").file or "")
        ctx.meta[_OWN] = [file for file in found if os.path.isabs(file)]  # noqa: PTH117
        return super().parse_args(ctx, args)


def bounded(ctx: click.Context, options: Options, root: str) -> Options:
    """The options of a `BoundedCommand`, with its boundary.

    Args:
        ctx: The command.
        options: How to compile.
        root: The folder in which everything must lie that is opened.
    """
    boundary = Boundary(root, tuple(ctx.meta[_OWN]))
    return replace(options, limits=replace(options.limits, boundary=boundary))
