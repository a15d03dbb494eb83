"""Import the module of a subcommand, run it, and turn errors into exit codes.

Importing only what runs makes `etcompile render` fast; a command is a module of this package
named in `_GROUPS`.
"""

import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import click

from etcompile._version import __version__
from etcompile.cli.command_line import HELP, Group
from etcompile.exitcodes import INTERNAL, INTERRUPTED, REFUSED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "etcompile"
_PLUGIN = "kubectl-etcompile"
"""The name of the program as a plugin of kubectl."""

_GROUPS = {
    "Commands": {
        "check": "Report the errors and warnings of job files.",
        "render": "Compile job files to Kubernetes manifests.",
        "diff": "Show what apply would change in a cluster, or what changed since a revision.",
        "apply": "Create or update the objects of jobs in a cluster.",
        "status": "Show the state of jobs in a cluster.",
        "why": "Show why a job failed, or what it waits for.",
        "scale": "Change the number of workers of a job.",
        "watch": "Run the watcher, which replaces failed Pods and updates host lists.",
    },
    "Manage jobs": {
        "logs": "Show the logs of a job's Pods.",
        "delete": "Delete jobs from a cluster.",
        "restart": "Run a job again, with new Pods.",
        "checkpoint": "Ask the commands of a job for a checkpoint.",
        "migrate": "Take a job over from its operator.",
    },
    "Tools": {
        "init": "Create a repository to start from.",
        "capacity": "Write down what a cluster has, for check --capacity.",
        "graph": "Show the order in which the objects of jobs start.",
        "explain": "Explain an error or a warning.",
        "kinds": "List the kinds that can be compiled.",
        "config": "Show the settings of the configuration file, and where each comes from.",
        "schema": "Print the JSON Schema of a kind.",
        "completion": "Print the completion script of a shell.",
        "lsp": "Serve an editor: errors as you type, and corrections.",
        "argocd": "Run as Argo CD's plugin, or write the files that Argo CD needs.",
        "flux": "Write the files that Flux needs.",
        "krm": "Run as a KRM function of kustomize or kpt.",
    },
}
"""The sections of `--help`, each with its commands."""

_COMMANDS = {name: words for group in _GROUPS.values() for name, words in group.items()}

_SYNONYMS = {
    "check": "lint test validate verify",
    "render": "build compile convert generate template",
    "diff": "plan preview",
    "apply": "create deploy install run submit sync up upgrade",
    "status": "describe get list ls ps show",
    "why": "debug events",
    "scale": "resize",
    "logs": "log tail",
    "delete": "del destroy down remove rm stop uninstall",
    "restart": "rerun retry",
    "--version": "version",
}
"""Words of other programs, by the command that they mean."""

_OF_A_STREAM = frozenset({errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""Errors of writing to an open stream, rather than to a file that is opened by its name."""


class _Commands(Group):
    """A group whose commands are imported one at a time."""

    synonyms: Mapping[str, str] = {
        word: name for name, words in _SYNONYMS.items() for word in words.split()
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help COMMAND` as `COMMAND --help`, as with kubectl."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"etcompile.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete commands by their names, without importing them."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=words)
            for name, words in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@click.group(PROGRAM, cls=_Commands, context_settings=HELP)
@click.version_option(__version__, "-V", "--version", prog_name=PROGRAM)
def program() -> None:
    """Compile training jobs to plain Kubernetes manifests.

    Reads the job files of et-operator, the Kubeflow Training Operator, Kubeflow Trainer, the MPI
    Operator and DLRover, and writes Pods, Services and ConfigMaps that Git can hold. `etcompile
    kinds` lists the kinds.
    """


def main() -> None:
    """Run the command line; never end in a traceback unless ETCOMPILE_DEBUG is set."""
    # A run creates hardly any cycles of references, and ends soon: collecting them would take a
    # tenth of its time, half of it at the very end.
    gc.disable()
    outlive_readers()
    try:
        # click returns the code that a command passes to ctx.exit().
        is_plugin = os.path.basename(sys.argv[0]) == _PLUGIN  # noqa: PTH119 - start quickly
        name = "kubectl etcompile" if is_plugin else PROGRAM
        code = program(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except OSError as error:
        # Errors of input files and output folders are handled where those are opened.
        if error.filename is None and error.errno in _OF_A_STREAM:
            click.echo(f"etcompile: cannot write standard output: {error.strerror}", err=True)
            give_up(sys.stdout)
        else:
            where = f": {error.filename}" if error.filename is not None else ""
            click.echo(f"etcompile: {error.strerror or error}{where}", err=True)
        sys.exit(REFUSED)
    except Exception as error:
        if os.environ.get("ETCOMPILE_DEBUG"):
            raise
        name = type(error).__name__
        click.echo(f"etcompile: internal error: {name}: {error}", err=True)
        click.echo("this is a bug; ETCOMPILE_DEBUG=1 shows where", err=True)
        sys.exit(INTERNAL)
    else:
        try:
            if not sys.stdout.closed:  # a language server closes it at exit
                sys.stdout.flush()
        except OSError:
            give_up(sys.stdout)  # the exit code is that of the rollout, even if nobody reads it
        sys.exit(code)
    finally:
        gc.freeze()


# Standard output and standard error whose reader may go ------------------------------------------


class _Pipe(io.FileIO):
    """A file descriptor that drops its output once its reader has gone.

    `etcompile apply jobs/ | head -1` must neither stop half-way nor change the exit code of the
    rollout.
    """

    gone = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            self.gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive_readers() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            raw: Any = _Pipe(stream.fileno(), "wb", closefd=False)
        except (AttributeError, OSError, ValueError):
            continue  # it is closed, or no file of the operating system
        stream.flush()
        text = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            newline="\n",
            line_buffering=stream.line_buffering or name == "stderr",
        )
        setattr(sys, name, text)


def reader_is_gone() -> bool:
    """Return True if nobody reads standard output any more, so that endless output may stop."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return bool(getattr(raw, "gone", False))


def give_up(stream: TextIO) -> None:
    """Send the rest of a stream nowhere, so that it cannot fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
