"""Declare the options that several commands share, as decorators.

A setting of `etcompile.toml` may have a flag; every other setting, and each of those too, is set
for one call by `--config KEY=VALUE`. A command that compiles is decorated with `compiles`, and
receives what holds as a `Configured`.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec import Struct

from etcompile.cli import completion
from etcompile.cli.command_line import Paths, converted, did_you_mean
from etcompile.cli.reporting import Reporting, report
from etcompile.data import setting_schemas
from etcompile.diagnostics import RefusedError
from etcompile.exitcodes import REFUSED

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured
    from etcompile.kubeapi import Cluster
    from etcompile.plan.scope import Rights
    from etcompile.plan.step import JobSet

Decorator = Callable[[Any], Any]

_FLAGS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "capacity": ((), {"metavar": "FILE|cluster[:CONTEXT]", "type": click.Path()}),
    "color": ((), {}),
    "concurrency": ((), {"metavar": "N", "type": click.IntRange(1, 256)}),
    "ignore": ((), {"metavar": "CODE", "shell_complete": completion.codes}),
    "namespace": (("-n",), {"metavar": "NS"}),
    "output-format": ((), {}),
    "overlay": ((), {"metavar": "FILE", "shell_complete": completion.overlays}),
    "quiet": (("-q",), {}),
    "run": ((), {"metavar": "ID|auto"}),
    "strict": ((), {}),
}
"""The settings that have a flag: its other words, and what the schema does not say of it."""
REPORTING = ("output-format", "color", "quiet")
RENDERING = ("namespace", "overlay", "run", "strict", "ignore", *REPORTING)


def combined(*options: Decorator) -> Decorator:
    """Return one decorator of several, in the order of `--help`."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def packed(name: str, struct: type[Struct], *options: Decorator) -> Decorator:
    """Return a decorator of options that a command receives as one struct, by its fields."""

    def decorated(command: Any) -> Any:
        @functools.wraps(command)
        def run(*args: Any, **params: Any) -> Any:
            values = {field: params.pop(field) for field in struct.__struct_fields__}
            return command(*args, **params, **{name: struct(**values)})

        return combined(*options)(run)

    return decorated


def setting(key: str) -> Decorator:
    """Return the flag of a setting, as its schema describes it."""
    schema, (words, attributes) = setting_schemas()[key], _FLAGS[key]
    if choices := schema.get("enum"):
        attributes = {"type": click.Choice(choices), **attributes}
    default = schema.get("default")
    return click.option(
        *(*words, f"--{key}"),
        help=schema["description"],
        default=default,
        show_default=default not in (None, False),
        is_flag=schema["type"] == "boolean",
        multiple=schema["type"] == "array",
        **attributes,
    )


def passed(ctx: click.Context, keys: Sequence[str], params: dict[str, Any]) -> dict[str, Any]:
    """Take the flags of settings out of the parameters; return those of the command line."""
    names = {key: key.replace("-", "_") for key in keys}
    values = {key: params.pop(name) for key, name in names.items()}
    return {
        key: value
        for key, value in values.items()
        if ctx.get_parameter_source(names[key]) is ParameterSource.COMMANDLINE
    }


@contextmanager
def refusals_reported(ctx: click.Context, reporting: Reporting) -> Iterator[None]:
    try:
        yield
    except RefusedError as error:
        report(error.diagnostics, reporting)
        ctx.exit(error.code)


def reports(*more: str) -> Decorator:
    """Decorate a command that reports: it receives `reporting`.

    Args:
        more: Settings with a flag, in addition to those of all such commands.
    """

    def decorated(command: Any) -> Any:
        @functools.wraps(command)
        def run(**params: Any) -> None:
            ctx = click.get_current_context()
            flags = passed(ctx, (*REPORTING, *more), params)
            if "ignore" in flags:
                from etcompile.compiler.configured import value_of

                with usage_errors(ctx, flags):
                    flags["ignore"] = value_of("ignore", flags["ignore"])
            reporting = Reporting.of(flags)
            with refusals_reported(ctx, reporting):
                command(reporting=reporting, **params)

        return combined(*map(setting, (*more, *REPORTING)))(run)

    return decorated


# Commands that compile ----------------------------------------------------------------------------

PATHS = click.argument(
    "paths", metavar="PATH...", cls=Paths, nargs=-1, required=True, type=click.Path()
)
OPTIONAL_PATHS = click.argument(
    "paths", metavar="[PATH...]", cls=Paths, nargs=-1, type=click.Path()
)
_CONFIGURATION = (
    click.option(
        "--environment",
        metavar="NAME",
        help="Environment in the configuration file whose settings apply.",
    ),
    click.option(
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        type=click.Path(),
        shell_complete=completion.settings,
        help="Configuration file, none to read none, or a setting that overrides the file's, such"
        " as gang=volcano. May be repeated.  [default: the nearest etcompile.toml above the first"
        " PATH, or pyproject.toml with a table tool.etcompile, up to the root of the repository]",
    ),
)


class Door(Struct, frozen=True):
    """What a program that runs for others adds to its command line.

    Args:
        root: The folder outside of which it opens nothing.
        problem: Why its request is refused.
    """

    root: str
    paths: tuple[str, ...] = ()
    environment: str | None = None
    settings: Mapping[str, Any] = {}
    problem: RefusedError | None = None


def compile_options(*flags: str) -> Decorator:
    return combined(*map(setting, flags), *_CONFIGURATION)


def choices(
    ctx: click.Context, flags: Sequence[str], params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the options of `compile_options` out of the parameters.

    Returns:
        The arguments of `configured` that they are, and the settings with a flag.
    """
    from etcompile.compiler.configured import from_text

    flagged = passed(ctx, flags, params)
    overrides, files = dict(flagged), []
    for word in params.pop("config"):
        key, sign, text = word.partition("=")
        if key in setting_schemas() and sign:
            with usage_errors(ctx, flagged):
                value = from_text(key, text)
            _override(overrides, key, value)
        elif sign and key.replace("-", "").isalpha() and key.islower():
            problem = f"--config {word}: there is no such setting."
            raise click.UsageError(f"{problem}{did_you_mean(key, setting_schemas())}", ctx)
        else:
            files.append(word)
    if len(files) > 1:
        raise click.UsageError("--config names one file, and settings as KEY=VALUE", ctx)
    isolated = files == ["none"]
    how = {
        "environment": params.pop("environment"),
        "file": files[0] if files and not isolated else None,
        "isolated": isolated,
        "overrides": overrides,
    }
    return how, flagged


def compiles(*flags: str, door: Callable[[], Door] | None = None) -> Decorator:
    """Decorate a command that compiles: it receives `configured` and `reporting`.

    Args:
        flags: The settings that have a flag.
        door: For a command that runs for others.
    """

    def decorated(command: Any) -> Any:
        @functools.wraps(command)
        def run(**params: Any) -> None:
            from etcompile.compiler.configured import configured

            ctx = click.get_current_context()
            how, flagged = choices(ctx, flags, params)
            paths, problem = params.get("paths"), None
            # A command without inputs, such as krm and delete --job, reads no folder either.
            inputs = paths or ("-" if paths is None or params.get("names") else ".",)
            if door is not None:
                way = door()
                inputs, problem = way.paths or inputs, way.problem
                how["root"] = way.root
                for key, value in way.settings.items():
                    _override(how["overrides"], key, value)
                how["environment"] = way.environment or how["environment"]
            with usage_errors(ctx, flagged):
                settings = configured(inputs, **how)
            reporting = Reporting.of(settings.values)
            if settings.diagnostics:
                report(settings.diagnostics, reporting, are_data=ctx.info_name == "check")
                ctx.exit(REFUSED)
            with refusals_reported(ctx, reporting):
                if problem is not None:
                    raise problem
                command(configured=settings, reporting=reporting, **params)

        return compile_options(*flags)(run)

    return decorated


def _override(overrides: dict[str, Any], key: str, value: Any) -> None:
    """Set a value; lists add up, from whichever words of the command line they come."""
    is_list = isinstance(value, tuple)
    overrides[key] = (*overrides.get(key, ()), *value) if is_list else value


@contextmanager
def usage_errors(ctx: click.Context, flags: Mapping[str, Any]) -> Iterator[None]:
    """Report a setting that does not take its value as click reports an option."""
    from etcompile.compiler.configured import SettingError

    try:
        yield
    except SettingError as error:
        option = f"'--{error.key}'" if error.key in flags else f"'--config {error.key}'"
        raise click.BadParameter(error.problem, ctx, param_hint=option) from error


def job_set(
    configured: "Configured", paths: Sequence[str], *, prune: bool = False
) -> "JobSet | None":
    from etcompile.operations import declarations

    repository = configured.repository_name
    try:
        result = declarations.job_set(paths, configured.values["set"], repository=repository)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--config set'") from error
    if result is None and prune:
        click.echo(
            "--prune does not find jobs whose files were removed: nothing names the repository. Set"
            " repository-name in etcompile.toml, add a Git remote origin, or use --config set=NAME",
            err=True,
        )
    return result


# Commands that read or change a cluster -----------------------------------------------------------

JOB = click.argument("job", metavar="JOB")
LIVE_NAMESPACE = click.option(
    "-n", "--namespace", metavar="NS", help="Namespace.  [default: that of the context]"
)
GIVE_UP = "Give up after this time, such as 90s, 10m or 1h30m; 0 means never."


def timeout(default: str | None = None) -> Decorator:
    from etcompile.model.settings import duration

    more = "" if default else "  [default: 15m; never with --wait complete]"
    return click.option(
        "--timeout",
        metavar="T",
        default=default,
        show_default=default is not None,
        callback=converted(duration),
        help=f"{GIVE_UP}{more}",
    )


def wait(help: str) -> Decorator:  # noqa: A002 - as of click.option
    kind = click.Choice(["ready", "complete", "none"])
    return click.option("--wait", type=kind, default="ready", show_default=True, help=help)


class Connection(Struct, frozen=True):
    context: str | None = None
    kubeconfig: Path | None = None

    def connect(self, namespace: str | None = None, **how: Any) -> "Cluster":
        """Connect to the cluster; the arguments are those of `kubeapi.connect`."""
        from etcompile.kubeapi import connect

        return connect(self.context, namespace, self.kubeconfig, **how)


_CONNECTION = (
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=completion.contexts,
        help="Context of the kubeconfig.  [default: the current context]",
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Path of the kubeconfig.  [default: $KUBECONFIG, else ~/.kube/config]",
    ),
)
connects = packed("connection", Connection, *_CONNECTION)


def chooses_output(description: str, *formats: str) -> Decorator:
    """Return the option that chooses the format of standard output; the first is the default."""
    return click.option(
        *("-o", "--output"),
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=description,
    )


PROGRESS = chooses_output(
    "Progress as text for people, or as one JSON event per line for programs.", "text", "json"
)


class ChangeOptions(Connection, frozen=True):
    """The cluster to change, how to show it, and whether to ask before."""

    output: str = "text"
    dry_run: str | None = None
    yes: bool = False


changes_cluster = packed(
    "cluster",
    ChangeOptions,
    click.option(
        "--dry-run",
        metavar="[=client|server]",
        type=click.Choice(["client", "server"]),
        help="Change nothing and show the plan. =server also validates it with the API server.",
    ),
    click.option(
        "-y", "--yes", is_flag=True, help="Do not ask before objects are deleted or replaced."
    ),
    PROGRESS,
    *_CONNECTION,
)


class RightsOptions(Struct, frozen=True):
    prune: bool
    replace: bool
    replace_data: tuple[str, ...]
    adopt: bool
    targets: tuple[str, ...]

    def rights(self, configured: "Configured") -> "Rights":
        """Return the rights of a plan.

        Raises:
            click.BadParameter: the file of `ignore-differences` cannot be read.
        """
        from etcompile.load import load
        from etcompile.plan.ignore_differences import Ignored, IgnoreError, ignored
        from etcompile.plan.scope import Rights

        rules: list[Ignored] = []
        if (file := configured.values["ignore-differences"]) is not None:
            hint = "'--config ignore-differences'"
            loaded = load([str(file)])
            for diagnostic in loaded.diagnostics:
                problem = f"{diagnostic.location}: {diagnostic.message}"
                raise click.BadParameter(problem, param_hint=hint)
            for document in loaded.documents:
                try:
                    rules += ignored(document.data)
                except IgnoreError as error:
                    problem = f"{document.locate(error.path)}: {error.problem}"
                    raise click.BadParameter(problem, param_hint=hint) from error
        return Rights(
            replace=self.replace,
            replace_data=frozenset(self.replace_data),
            adopt=self.adopt,
            prune=self.prune,
            take_ownership=frozenset(configured.values["take-ownership"]),
            drain=configured.values["drain"],
            ignored=tuple(rules),
        )


takes_rights = packed(
    "rights",
    RightsOptions,
    click.option("--prune", is_flag=True, help="Delete objects that are no longer in the files."),
    click.option(
        "--replace",
        is_flag=True,
        help="Delete and recreate objects whose changed fields are immutable.",
    ),
    click.option(
        "--replace-data",
        multiple=True,
        metavar="NAME",
        help="Replace this object although it holds data: NAME, KIND/NAME or NAMESPACE/KIND/NAME."
        " May be repeated.",
    ),
    click.option(
        "--adopt",
        is_flag=True,
        help="Take over objects that other people or tools created.",
    ),
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="NAME",
        help="Limit the run to this object: NAME, KIND/NAME or NAMESPACE/KIND/NAME. May be"
        " repeated.",
    ),
)
