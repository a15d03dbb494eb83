"""Options of the commands that talk to a cluster: which one, and how to write to it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from etcompile.cli import completing
from etcompile.cli.options import concurrency_option, ignore_differences_option
from etcompile.cli.structs import Decorator, adds, output_option
from etcompile.plan.ignore_differences import Ignored
from etcompile.plan.rights import Rights

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster, Repeat
    from etcompile.plan.step import JobSet

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """Seconds, as people write them: `90s`, `10m`, `1h30m`; 0 is no limit."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The seconds."""
        if isinstance(value, int | float):
            return float(value)
        if re.fullmatch(r"\d+", value):
            return float(value)
        if not re.fullmatch(r"(\d+[smhd])+", value):
            self.fail(f"'{value}' is not a duration; write 90s, 10m or 1h30m", param, ctx)
        return float(
            sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(.)", value))
        )


def _connection(context: str, kubeconfig: str) -> tuple[Decorator, Decorator]:
    """Which cluster, and what the help says of both options."""
    return (
        click.option("--context", metavar="NAME", help=context, shell_complete=completing.contexts),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help=kubeconfig,
        ),
    )


_CONNECTION = _connection(
    "Context of the kubeconfig.  [default: the current context]",
    "Path of the kubeconfig.  [default: $KUBECONFIG, else ~/.kube/config]",
)
_WRITES = (
    output_option(
        "text",
        "json",
        help="Progress as text for people, or as one JSON event per line for programs.",
    ),
    concurrency_option,
)


_RIGHTS = (
    click.option(
        "--prune/--no-prune",
        default=False,
        show_default=True,
        help="Delete objects that are no longer in the files.",
    ),
    click.option(
        "--replace",
        is_flag=True,
        help="Delete and recreate objects whose changed fields are immutable.",
    ),
    click.option(
        "--replace-data",
        metavar="NAME",
        multiple=True,
        help="Replace this object although it holds data: NAME, KIND/NAME or NAMESPACE/KIND/NAME."
        " May be repeated.",
    ),
    click.option(
        "--adopt", is_flag=True, help="Take over objects that other people or tools made."
    ),
    click.option(
        "--take-ownership",
        metavar="MANAGER",
        multiple=True,
        help="Change fields that this field manager owns. May be repeated.",
    ),
    ignore_differences_option,
    click.option(
        "--target",
        "targets",
        metavar="NAME",
        multiple=True,
        help="Limit the run to this object: NAME, KIND/NAME or NAMESPACE/KIND/NAME. May be"
        " repeated.",
    ),
)


class Connection(Struct, frozen=True, kw_only=True):
    """What `connection_options` adds."""

    context: str | None
    kubeconfig: Path | None

    def connect(
        self, namespace: str | None, notice: "Callable[[Repeat], None] | None" = None
    ) -> "Cluster":
        """The cluster.

        Raises:
            ClusterError: nothing says how to reach it.
        """
        from etcompile.kubeapi import connect

        return connect(self.context, namespace, self.kubeconfig, notice=notice)


class ClusterOptions(Connection, frozen=True, kw_only=True):
    """What `cluster_options` adds."""

    output: Literal["text", "json"]
    concurrency: int


class RightsOptions(Struct, frozen=True, kw_only=True):
    """What `rights_options` adds."""

    prune: bool
    replace: bool
    replace_data: tuple[str, ...]
    adopt: bool
    take_ownership: tuple[str, ...]
    ignore_differences: str | None
    targets: tuple[str, ...]


rights_options = adds(*_RIGHTS)


def rights(given: RightsOptions) -> Rights:
    """What a plan may do, by the options of `rights_options`."""
    return Rights(
        replace=given.replace,
        replace_data=frozenset(given.replace_data),
        adopt=given.adopt,
        prune=given.prune,
        take_ownership=frozenset(given.take_ownership),
        ignored=_ignored(given.ignore_differences),
    )


def _ignored(file: str | None) -> tuple[Ignored, ...]:
    """The rules of `--ignore-differences`."""
    if file is None:
        return ()
    from etcompile.load import access, parse
    from etcompile.plan.ignore_differences import IgnoreError, ignored

    hint = "--ignore-differences"
    try:
        loaded = parse(access.content(file), file=file)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint=hint) from error
    for diagnostic in loaded.diagnostics:
        raise click.BadParameter(f"{diagnostic.location}: {diagnostic.message}", param_hint=hint)
    rules: list[Ignored] = []
    for document in loaded.documents:
        try:
            rules += ignored(document.data)
        except IgnoreError as error:
            place = document.locate(error.path)
            raise click.BadParameter(f"{place}: {error.problem}", param_hint=hint) from error
    return tuple(rules)


cluster_options = adds(*_CONNECTION, *_WRITES)
connection_options = adds(*_CONNECTION)


def connection_options_of(flag: str) -> Decorator:
    """The same for a command that talks to a cluster only where an option says so.

    Args:
        flag: That option.
    """
    return adds(
        *_connection(
            f"With {flag}: context of the kubeconfig.", f"With {flag}: path of the kubeconfig."
        )
    )


namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NS",
    help="Namespace.  [default: that of the context]",
    shell_complete=completing.namespaces,
)
set_option = click.option(
    "--set",
    "set_name",
    metavar="NAME",
    help="Name of the set of jobs that the PATHs are. A job that was applied with it and is no"
    " longer declared is pruned.  [default: the folder, if every PATH is one]",
)


_NO_SET = (
    "--prune does not find jobs whose files were removed: nothing names the repository. Set"
    " repository-name in etcompile.toml, add a Git remote origin, or use --set NAME"
)


def job_set(
    paths: Sequence[str], name: str | None = None, *, prune: bool = False
) -> "JobSet | None":
    """The set that PATHs are, by the configuration file, the Git remote or `--set`."""
    from etcompile.cli.configured import of
    from etcompile.operations import job_sets

    repository = of(click.get_current_context()).repository_name
    try:
        found = job_sets.job_set(paths, name, repository=repository)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error
    if found is None and prune:
        click.echo(_NO_SET, err=True)
    return found
