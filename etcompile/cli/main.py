"""The `etcompile` command: finds the module of a subcommand when it is asked for.

Importing only what runs keeps `etcompile render` fast; a command is a module of this package
named in `_COMMANDS`.
"""

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from etcompile._version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "etcompile"
_PLUGIN = "kubectl-etcompile"
"""The name by which kubectl knows it."""

_COMMANDS = {
    "render": "compile job specifications to manifests",
    "check": "report everything render would refuse or warn about",
    "diff": "show what applying would do, against a cluster, a folder or a revision",
    "apply": "make a cluster hold what specifications compile to",
    "delete": "remove jobs from a cluster",
    "graph": "show what the compiled objects wait for",
    "status": "what has become of jobs in the cluster",
    "scale": "give a job more or fewer workers",
    "migrate": "take a job over from its operator",
    "watch": "replace what fails and keep host lists true",
    "bundle": "pack what render would write, for a registry",
    "krm": "replace jobs by their objects, as a function of kustomize or kpt",
    "init": "make a repository to start from",
    "argocd": "be Argo CD's plugin, and what to tell Argo CD",
    "flux": "what to tell Flux",
    "explain": "the long form of a diagnostic",
    "kinds": "what can be compiled",
    "schema": "the JSON Schema of a kind",
    "completion": "make a shell complete etcompile",
}


class _Commands(click.Group):
    """A group whose commands are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"etcompile.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands by their names: nothing is imported to tell what each does."""
        from click.shell_completion import CompletionItem

        found = [(name, words) for name, words in _COMMANDS.items() if name.startswith(incomplete)]
        items = [CompletionItem(name, help=words) for name, words in found]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def _etcompile() -> None:
    """Compile training-job specs to plain Kubernetes manifests.

    Reads the job files of et-operator, the Kubeflow Training Operator and the MPI Operator, and
    writes Pods, Services and ConfigMaps that Git can hold. `etcompile kinds` lists them.
    """


def main() -> None:
    """Runs the command line; never ends in a traceback unless ETCOMPILE_DEBUG is set."""
    # A run makes values, hardly a cycle of them, and ends soon: looking for cycles would be a
    # tenth of its time, half of it at the very end.
    gc.disable()
    try:
        # What a command gives to ctx.exit() is what click returns here.
        is_plugin = os.path.basename(sys.argv[0]) == _PLUGIN  # noqa: PTH119 - start quickly
        name = "kubectl etcompile" if is_plugin else PROGRAM
        sys.exit(_etcompile(prog_name=name, standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader has gone (`etcompile render … | head`); say nothing, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        # Files of the input and of the output folder are dealt with where they are touched.
        click.echo(f"etcompile: cannot write standard output: {error.strerror}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        if os.environ.get("ETCOMPILE_DEBUG"):
            raise
        name = type(error).__name__
        click.echo(f"etcompile: internal error: {name}: {error}", err=True)
        click.echo("this is a bug; ETCOMPILE_DEBUG=1 shows where", err=True)
        sys.exit(70)
    finally:
        gc.freeze()
