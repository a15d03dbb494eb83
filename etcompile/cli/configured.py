"""Read the options of a command from the configuration file of a repository.

A setting has the name of an option of `etcompile render` or `etcompile check`, and that option
reads it: the file is refused for what the command line is refused for, at its line. A setting of
the file counts if neither the command line nor an overlay says otherwise.
"""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import yaml  # noqa: F401 - early; see below
from msgspec import Struct, structs

from etcompile.cli.command_line import (
    OVERRIDES,
    SectionedCommand,
    Setting,
    did_you_mean,
    filled,
    parameters,
)
from etcompile.cli.options import FOLDER, SETTINGS, ReportOptions, SettingOptions, compiler_options
from etcompile.cli.reporting import report
from etcompile.diagnostics import Diagnostic, Location, RefusedError, codes, diagnose
from etcompile.exitcodes import REFUSED
from etcompile.load import Boundary, access, configuration
from etcompile.load.configuration import Configuration, Place
from etcompile.model.settings import secret_mode

if TYPE_CHECKING:
    from etcompile.compiler import Options
    from etcompile.plan.step import JobSet

# yaml compiles patterns on import. At the end of a long chain of imports, where it is first used,
# CPython 3.11 maps and unmaps memory at each of 1,500 calls.

ENVIRONMENTS = "environments"
REPOSITORY_NAME = "repository-name"
"""A setting that is no option of a command."""
_META = f"{__name__}.configured"
_NAMED = f"{__name__}.named"
"""Key in `ctx.meta` of the absolute paths of the command line."""
INPUTS = f"{__name__}.inputs"
"""Key in `ctx.meta` of inputs that are not on the command line."""


class FileValue(Struct, frozen=True):
    """The value of a setting in the file; paths in the default are relative to here."""

    value: Any
    place: Place
    default: Any


class Configured(Struct, frozen=True):
    """The configuration file of a run; the settings are by the names of options."""

    configuration: Configuration | None = None
    settings: Mapping[str, FileValue] = {}
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def repository_name(self) -> tuple[str, str] | None:
        if self.configuration is None or REPOSITORY_NAME not in self.settings:
            return None
        return str(self.settings[REPOSITORY_NAME].default), self.configuration.folder

    @property
    def record(self) -> tuple[str, str] | None:
        """Return the path of the file from the repository's root, and its digest."""
        if self.configuration is None or set(self.settings) == {REPOSITORY_NAME}:
            return None  # nothing that is rendered depends on it
        file, root = self.configuration.file, self.configuration.root
        name = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        return name, self.configuration.digest


class CompilingCommand(SectionedCommand):
    """A command that compiles, and whose options have defaults from the configuration file."""

    def repository(self) -> str | None:
        """Return the folder that the command runs for; None for the repository of the input.

        `argocd generate` and `krm` run for anybody who can write to a repository, on a machine of
        somebody else. They open nothing outside of that folder, except absolute paths of their
        command line, which the owner of the machine wrote. A relative path is in the repository,
        and may be a link that another author created.
        """
        return None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file before the options that it has defaults for."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        names = ctx.help_option_names
        first = click.Context(self, resilient_parsing=True, help_option_names=names)
        click.Command.parse_args(self, first, list(args))
        passed = first.params
        settings_here = {param.key: param for param in self.params if isinstance(param, Setting)}
        files, overrides = [], {}
        for word in passed.get("config") or ():
            key, sign, value = word.partition("=")
            if not (sign and re.fullmatch("[a-z-]+", key)):
                files.append(word)
            elif key in settings_here:
                overrides[key] = value
            else:
                problem = f"--config {word}: there is no such setting."
                raise click.UsageError(f"{problem}{did_you_mean(key, settings_here)}", ctx)
        if len(files) > 1:
            raise click.UsageError("--config names one file, and settings as KEY=VALUE", ctx)
        if files and passed.get("isolated"):
            problem = "--config names a file, and --isolated reads none: give one of them."
            raise click.UsageError(problem, ctx)
        ctx.meta[OVERRIDES] = overrides
        named = [*(passed.get("paths") or ())]
        for param in settings_here.values():
            if param.is_file and (value := passed.get(param.name or "")):
                named += map(str, value) if param.multiple else [str(value)]
        # Its errors are reported when the options are read.
        with contextlib.suppress(ValueError):
            named.append(secret_mode(passed.get("secret") or "").file or "")
        ctx.meta[_NAMED] = tuple(file for file in named if os.path.isabs(file))  # noqa: PTH117
        # A command without inputs, such as krm and delete --job, reads no folder either.
        reads_folder = "paths" in passed and not passed.get("names")
        inputs = passed.get("paths") or ("." if reads_folder else "-",)
        result = ctx.meta[_META] = configured(
            ctx.meta.get(INPUTS) or inputs,
            environment=passed.get("environment"),
            file=files[0] if files else None,
            isolated=bool(passed.get("isolated")),
            root=self.repository(),
        )
        if result.configuration is not None:
            ctx.meta[FOLDER] = result.configuration.folder
        ctx.default_map = {
            str(settings_here[key].name): value.default
            for key, value in result.settings.items()
            if key in settings_here
        }
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if diagnostics := of(ctx).diagnostics:
            options = filled(ReportOptions, ctx.params)
            report(diagnostics, options, are_data=ctx.info_name == "check")
            ctx.exit(REFUSED)
        return super().invoke(ctx)


def bounded(ctx: click.Context, options: "Options") -> "Options":
    """Restrict a command that runs for others: it opens nothing outside of its repository."""
    command: Any = ctx.command
    boundary = Boundary(command.repository(), ctx.meta[_NAMED])
    return structs.replace(options, limits=structs.replace(options.limits, boundary=boundary))


def of(ctx: click.Context) -> Configured:
    result: Configured = ctx.meta.get(_META) or Configured()
    return result


def configured(
    paths: Sequence[str],
    *,
    environment: str | None = None,
    file: str | None = None,
    isolated: bool = False,
    root: str | None = None,
) -> Configured:
    """Read the configuration of a run.

    Args:
        paths: The inputs, as on the command line.
        file: The file; the nearest to the inputs if None.
        root: The folder at which the search ends, for a command that runs for others: settings that
            run programs or let Secrets pass are refused. None: the root of the input's repository.
    """
    result: Configuration | Diagnostic | None = None
    if file is not None:
        repository = configuration.root_of(os.path.dirname(os.path.realpath(file)))  # noqa: PTH120
        problem = "it has no table [tool.etcompile]"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            result = configuration.read(file, repository)
        if result is None and not os.path.exists(file):  # noqa: PTH110
            problem = "there is no such file"
        result = result or diagnose(codes.CONFIGURATION_SYNTAX, Location(file), problem=problem)
    elif not isolated:
        result = _nearest(paths, root)
    if isinstance(result, Configuration):
        return _read(result, environment, for_others=root is not None)
    if isinstance(result, Diagnostic):
        return Configured(diagnostics=(result,))
    if environment is None:
        return Configured()
    missing = "--isolated leaves it out" if isolated else "there is none"
    advice = f"an environment is a table [environments.{environment}] of the configuration file;"
    facts = {"name": environment, "advice": f"{advice} {missing}"}
    return Configured(diagnostics=(diagnose(codes.UNKNOWN_ENVIRONMENT, None, **facts),))


def _nearest(paths: Sequence[str], root: str | None) -> Configuration | Diagnostic | None:
    """Return the file that applies to all inputs; the problem if there are several."""
    folders = dict.fromkeys(folder for path in paths for folder in configuration.folders_of(path))
    nearest: Configuration | None = None
    for number, folder in enumerate(folders):
        top = configuration.root_of(folder) if root is None else os.path.realpath(root)
        other = configuration.nearest(folder, top)
        if isinstance(other, Diagnostic):
            return other
        names = [file.file if file else "none" for file in (nearest, other)]
        if number and names[0] != names[1]:
            return diagnose(codes.SEVERAL_CONFIGURATIONS, None, first=names[0], second=names[1])
        nearest = other
    return nearest


def settings() -> dict[str, Setting]:
    params = (param for group in SETTINGS for param in parameters(group))
    return {param.key: param for param in params if isinstance(param, Setting)}


def job_set(
    paths: Sequence[str], name: str | None = None, *, prune: bool = False
) -> "JobSet | None":
    from etcompile.operations import declarations

    repository = of(click.get_current_context()).repository_name
    try:
        result = declarations.job_set(paths, name, repository=repository)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error
    if result is None and prune:
        click.echo(
            "--prune does not find jobs whose files were removed: nothing names the repository. Set"
            " repository-name in etcompile.toml, add a Git remote origin, or use --set NAME",
            err=True,
        )
    return result


class ConfigurationError(RefusedError):
    pass


def configured_options(path: str | os.PathLike[str], *words: str) -> "Options":
    """Return the options with which `etcompile render` compiles a file.

    Args:
        *words: Options of `etcompile render` that override the configuration file, such as
            `"--environment", "prod"`.

    Raises:
        ConfigurationError: the configuration file is faulty.
        click.UsageError: the words are no options.
    """
    command = CompilingCommand("etcompile", params=[*parameters(SettingOptions)])
    with click.Context(command) as ctx:
        ctx.meta[INPUTS] = (os.fspath(path),)
        command.parse_args(ctx, [*words])
        if problems := of(ctx).diagnostics:
            raise ConfigurationError(problems)
        return compiler_options(filled(SettingOptions, ctx.params))


# The values of a file -----------------------------------------------------------------------------


class _WrongValueError(Exception):
    def __init__(self, place: Place, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.place, self.problem, self.advice = place, problem, advice


def _read(file: Configuration, environment: str | None, *, for_others: bool) -> Configured:
    """Return the settings that apply. Other environments are checked, too."""
    from etcompile.diagnostics.spelling import probably

    known = settings()
    held: dict[str, FileValue] = {}
    problems: list[Diagnostic] = []

    def wrong(place: Place, problem: str, advice: str) -> None:
        name = ".".join(key for key in place if isinstance(key, str))
        facts = {"name": name, "problem": problem, "advice": advice}
        problems.append(diagnose(codes.WRONG_SETTING, file.location(place), **facts))

    environments = file.values.get(ENVIRONMENTS, {})
    if not isinstance(environments, dict):
        wrong((ENVIRONMENTS,), "it is no table of environments", "[environments.prod]")
        environments = {}
    tables: list[tuple[Place, Any]] = [((), file.values)]
    tables += (((ENVIRONMENTS, name), table) for name, table in environments.items())
    for above, table in tables:
        if not isinstance(table, dict):
            wrong(above, "it is no table", f"[environments.{above[-1]}]")
            continue
        for key, value in table.items():
            place = (*above, key)
            if place == (ENVIRONMENTS,):
                continue
            if key not in known:
                near = probably(key.replace("_", "-"), {*known, ENVIRONMENTS})
                advice = f"did you mean '{near}'?" if near else "see `etcompile config`"
                facts = {"name": key, "advice": advice}
                problems.append(diagnose(codes.UNKNOWN_SETTING, file.location(place), **facts))
                continue
            try:
                default = _default(known[key], value, place, file, for_others=for_others)
            except _WrongValueError as error:
                wrong(error.place, error.problem, error.advice)
                continue
            if not above or above[-1] == environment:
                held[key] = FileValue(value, place, default)
    if environment is not None and environment not in environments:
        names = ", ".join(environments)
        facts = {"name": environment, "advice": f"it has {names or 'no environments'}"}
        problems.append(diagnose(codes.UNKNOWN_ENVIRONMENT, Location(file.file), **facts))
    return Configured(configuration=file, settings=held, diagnostics=tuple(problems))


def _default(
    param: Setting, value: Any, place: Place, file: Configuration, *, for_others: bool
) -> Any:
    """Convert a value of the file to a default of the option.

    Raises:
        _WrongValueError: the option refuses it.
    """
    if for_others and value and param.danger:
        problem = f"this runs for whoever can write to the repository, and {param.danger}"
        raise _WrongValueError(place, problem, "let who installs it give the option")
    if param.is_flag and not isinstance(value, bool):
        raise _WrongValueError(place, "it must be true or false")
    if param.multiple:
        if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            example = f'["{value}"]' if isinstance(value, str) else '["a", "b"]'
            raise _WrongValueError(place, "it must be a list of strings", f"write {example}")
    elif isinstance(param.type, click.IntRange):
        if not isinstance(value, int) or isinstance(value, bool):
            raise _WrongValueError(place, "it must be a number")
    elif not (param.is_flag or isinstance(value, str)):
        raise _WrongValueError(place, "it must be a string", "write it in quotes")
    ctx = click.Context(click.Command("etcompile"), info_name="etcompile")
    defaults = []
    for number, item in enumerate(value if param.multiple else [value]):
        where = (*place, number) if param.multiple else place
        default = _from_here(param, item, where, file) if isinstance(item, str) else item
        try:
            param.process_value(ctx, [default] if param.multiple else default)
        except click.BadParameter as error:
            raise _WrongValueError(where, error.message.rstrip(".")) from error
        defaults.append(default)
    return defaults if param.multiple else defaults[0]


def _from_here(param: Setting, value: str, place: Place, file: Configuration) -> str:
    """Make the path in a text of the file relative to the working directory."""
    from etcompile.overlays.overlay_files import shipped

    scheme, name = "", value
    names_file = param.is_file
    if param.key == "secret":
        head, _, name = value.rpartition(":")
        scheme, names_file = f"{head}:", value.startswith("sealed:")
    elif param.key == "capacity":
        names_file = value.partition(":")[0] != "cluster"
    elif param.key == "overlay":
        names_file = value not in shipped()
    if not names_file:
        return value
    path = os.path.join(file.folder, name)  # noqa: PTH118
    try:
        access.resolved(path, Boundary(file.root))
    except access.OutsideError:
        advice = "name such a file on the command line"
        raise _WrongValueError(place, f"it leads out of {file.root}", advice) from None
    except OSError:
        pass  # reported when it is opened
    return scheme + os.path.relpath(path)
