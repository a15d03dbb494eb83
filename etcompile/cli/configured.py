"""What the configuration file of a repository says of the options of a command.

A setting has the name of an option of `etcompile render` or `etcompile check`, and is read by that
option itself: what the command line refuses, the file is refused for, at the line that says it.
What a file says counts where neither the command line nor an overlay says otherwise.
"""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from etcompile.cli.command_line import (
    OVERRIDES,
    SectionedCommand,
    Setting,
    did_you_mean,
    filled,
    long_name,
    parameters,
)
from etcompile.cli.options import (
    SETTINGS,
    ReportOptions,
    SettingOptions,
    compiler_options,
)
from etcompile.cli.reporting import report
from etcompile.compiler import Options
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.exitcodes import REFUSED
from etcompile.load import Boundary, access, configuration
from etcompile.load.configuration import Configuration, Place
from etcompile.model.settings import secret_mode

if TYPE_CHECKING:
    from etcompile.plan.step import JobSet

ENVIRONMENTS = "environments"
EACH_TIME = {
    "output-dir": "where the result goes is said where it is wanted",
    "output": "its form is said where it is wanted",
    "check": "it makes another command of render",
    "force": "it destroys what somebody has edited",
    "replace": "it is consent, which counts once",
    "fix": "it changes files",
    "unsafe-fixes": "it changes files in a way that somebody has to look at",
    "diff": "it makes another command of check",
    "environment": "the file holds all environments, and the command line chooses",
    "config": "it names the file itself",
    "isolated": "it leaves the file out",
}
"""Options that are no settings, each with the reason."""
REPOSITORY_NAME = "repository-name"
"""The setting that is no option of a command."""
_META = f"{__name__}.configured"
_OWN = f"{__name__}.own"
"""Where a `BoundedCommand` keeps the files that its own command line names."""
INPUTS = f"{__name__}.inputs"
"""Where a command keeps the inputs that its command line does not name."""


class FileValue(Struct, frozen=True):
    """The value of a setting in the file.

    Args:
        place: The keys that lead to it in the file.
        default: The default of the option: paths are seen from the working directory.
    """

    value: Any
    place: Place
    default: Any


class Configured(Struct, frozen=True):
    """What the configuration file says of a run.

    Args:
        configuration: The file; None if there is none, or none that can be read.
        settings: What holds, by the names of the options.
    """

    configuration: Configuration | None = None
    settings: Mapping[str, FileValue] = {}
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def repository_name(self) -> tuple[str, str] | None:
        """The name of the repository, and the folder of the file; None if it has no name."""
        if self.configuration is None or REPOSITORY_NAME not in self.settings:
            return None
        return str(self.settings[REPOSITORY_NAME].default), self.configuration.folder

    @property
    def record(self) -> tuple[str, str] | None:
        """The file as the lock file names it, seen from the repository's root, and its digest."""
        if self.configuration is None or set(self.settings) == {REPOSITORY_NAME}:
            return None  # nothing that is rendered depends on it
        file, root = self.configuration.file, self.configuration.root
        name = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        return name, self.configuration.digest


class CompilingCommand(SectionedCommand):
    """A command that compiles, whose options have their defaults from the configuration file."""

    for_others = False
    """It runs for whoever can write to a repository, on a machine of somebody else."""

    def repository(self) -> str | None:
        """The folder at which the search ends; None if it is the repository of the input."""
        return None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the file before the options that it has the defaults of."""
        if not ctx.resilient_parsing:
            first = click.Context(self, parent=ctx.parent, resilient_parsing=True)
            click.Command.parse_args(self, first, list(args))
            files, overrides = [], {}
            known = {param.key for param in self.params if isinstance(param, Setting)}
            for word in first.params.get("config") or ():
                key, sign, value = word.partition("=")
                if not (sign and re.fullmatch("[a-z-]+", key)):
                    files.append(word)
                elif key in known:
                    overrides[key] = value
                else:
                    problem = f"--config {word}: there is no such setting."
                    raise click.UsageError(f"{problem}{did_you_mean(key, known)}", ctx)
            if len(files) > 1:
                problem = "--config names one file, and settings as KEY=VALUE"
                raise click.UsageError(problem, ctx)
            ctx.meta[OVERRIDES] = overrides
            if files and first.params.get("isolated"):
                problem = "--config names a file, and --isolated reads none: give one of them."
                raise click.UsageError(problem, ctx)
            settings_of_file = ctx.meta[_META] = configured(
                ctx.meta.get(INPUTS) or first.params.get("paths") or (),
                environment=first.params.get("environment"),
                file=files[0] if files else None,
                isolated=bool(first.params.get("isolated")),
                root=self.repository(),
                for_others=self.for_others,
            )
            names = {long_name(param): param.name for param in self.params if param.name}
            ctx.default_map = {
                names[name]: value.default
                for name, value in settings_of_file.settings.items()
                if name in names
            }
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, unless the file is faulty."""
        if diagnostics := of(ctx).diagnostics:
            options = filled(ReportOptions, ctx.params)
            report(diagnostics, options, are_data=ctx.info_name == "check")
            ctx.exit(REFUSED)
        return super().invoke(ctx)


class BoundedCommand(CompilingCommand):
    """A command that runs for whoever can write to a repository.

    `argocd generate` and `krm` run on a machine that does not belong to those people. They open
    nothing outside of the repository, except what their own command line names, since whoever
    installed them wrote that.
    """

    for_others = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notes the files and folders that the command line names by absolute paths.

        What it names by relative paths lies in the repository: it may be a link of somebody else's.
        """
        first = click.Context(self, resilient_parsing=True)
        click.Command.parse_args(self, first, list(args))
        files: list[str] = [*(first.params.get("paths") or ())]
        for param in self.params:
            value = first.params.get(param.name or "")
            if isinstance(param, Setting) and param.is_file and value:
                files += map(str, value) if param.multiple else [str(value)]
        # What is wrong with it is reported when the options are read.
        with contextlib.suppress(ValueError):
            files.append(secret_mode(first.params.get("secret") or "").file or "")
        ctx.meta[_OWN] = [file for file in files if os.path.isabs(file)]  # noqa: PTH117
        return super().parse_args(ctx, args)


def bounded(ctx: click.Context, options: Options, root: str) -> Options:
    """The options of a `BoundedCommand`, which opens nothing outside of the folder `root`."""
    boundary = Boundary(root, tuple(ctx.meta[_OWN]))
    return structs.replace(options, limits=structs.replace(options.limits, boundary=boundary))


def of(ctx: click.Context) -> Configured:
    """What the configuration file says of a run, whose command is a `CompilingCommand`."""
    result: Configured = ctx.meta.get(_META) or Configured()
    return result


def configured(
    paths: Sequence[str],
    *,
    environment: str | None = None,
    file: str | None = None,
    isolated: bool = False,
    root: str | None = None,
    for_others: bool = False,
) -> Configured:
    """What the configuration file says of a run.

    Args:
        paths: The inputs, as on the command line; the working directory if there are none.
        file: The file; the nearest to the inputs if None.
        root: The folder at which the search ends; the root of the repository of the input if None.
        for_others: Settings that run programs or let Secrets pass are refused.
    """
    missing = "--isolated leaves the configuration file out"
    result: Configuration | Diagnostic | None = None
    if not isolated:
        missing = "there is no configuration file"
        result = _named(file) if file is not None else _nearest(paths or (".",), root)
    if isinstance(result, Configuration):
        return _Reading(result, environment, for_others=for_others).read()
    if isinstance(result, Diagnostic):
        return Configured(diagnostics=(result,))
    if environment is None:
        return Configured()
    advice = f"{missing}; an environment is a table [environments.{environment}] of it"
    unknown = diagnose(codes.UNKNOWN_ENVIRONMENT, None, name=environment, advice=advice)
    return Configured(diagnostics=(unknown,))


def _named(file: str) -> Configuration | Diagnostic:
    """The file of `--config`."""
    root = configuration.root_of(os.path.dirname(os.path.realpath(file)))  # noqa: PTH120
    problem = "it has no table [tool.etcompile]"
    try:
        if (result := configuration.read(file, root)) is not None:
            return result
    except (FileNotFoundError, NotADirectoryError):
        problem = "there is no such file"
    return diagnose(codes.CONFIGURATION_SYNTAX, Location(file), problem=problem)


def _nearest(paths: Sequence[str], root: str | None) -> Configuration | Diagnostic | None:
    """The file that counts for all inputs; the problem if there are several."""
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
    """The settings that a file can have, as the options that they are the defaults of."""
    params = (param for group in SETTINGS for param in parameters(group))
    return {param.key: param for param in params if isinstance(param, Setting)}


def job_set(
    paths: Sequence[str], name: str | None = None, *, prune: bool = False
) -> "JobSet | None":
    """The set that PATHs are, by the configuration file, the Git remote or `--set`."""
    from etcompile.operations import job_sets

    repository = of(click.get_current_context()).repository_name
    try:
        result = job_sets.job_set(paths, name, repository=repository)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error
    if result is None and prune:
        click.echo(
            "--prune does not find jobs whose files were removed: nothing names the repository. Set"
            " repository-name in etcompile.toml, add a Git remote origin, or use --set NAME",
            err=True,
        )
    return result


class ConfigurationError(Exception):
    """A configuration file is faulty; `diagnostics` say why."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(
            "; ".join(f"{problem.location}: {problem.message}" for problem in diagnostics)
        )
        self.diagnostics = tuple(diagnostics)


def configured_options(path: str | os.PathLike[str], *words: str) -> Options:
    """How `etcompile render` compiles a file: as its configuration file says.

    Args:
        *words: Options of `etcompile render` that count before the file, such as
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


class _Reading:
    """Reads the settings of a file, and collects what is wrong with them."""

    def __init__(self, file: Configuration, environment: str | None, *, for_others: bool) -> None:
        self.file = file
        self.environment = environment
        self.for_others = for_others
        self.known = settings()
        self.problems: list[Diagnostic] = []

    def read(self) -> Configured:
        """The settings that hold. Environments that were not chosen are checked, too."""
        values = self.file.values
        held = self._table({k: v for k, v in values.items() if k != ENVIRONMENTS}, ())
        environments = values.get(ENVIRONMENTS, {})
        if not isinstance(environments, dict):
            self._wrong((ENVIRONMENTS,), "it is no table of environments", "[environments.prod]")
            environments = {}
        for name, table in environments.items():
            place = (ENVIRONMENTS, name)
            if not isinstance(table, dict):
                self._wrong(place, "it is no table", f"[environments.{name}]")
                continue
            chosen = self._table(table, place)
            if name == self.environment:
                held |= chosen
        if self.environment is not None and self.environment not in environments:
            known = ", ".join(environments) or "none"
            advice = f"it has {known}" if environments else "it has no environments"
            where = Location(self.file.file)
            name = self.environment
            self.problems.append(
                diagnose(codes.UNKNOWN_ENVIRONMENT, where, name=name, advice=advice)
            )
        return Configured(configuration=self.file, settings=held, diagnostics=tuple(self.problems))

    def _table(self, table: Mapping[str, Any], above: Place) -> dict[str, FileValue]:
        held = {}
        for key, value in table.items():
            place = (*above, key)
            if key not in self.known:
                advice = self._advice(key)
                where = self.file.location(place)
                self.problems.append(
                    diagnose(codes.UNKNOWN_SETTING, where, name=key, advice=advice)
                )
            elif self.for_others and value and (danger := self.known[key].danger):
                problem = f"this runs for whoever can write to the repository, and {danger}"
                self._wrong(place, problem, "let who installs it give the option")
            elif (default := self._default(self.known[key], value, place)) is not None:
                held[key] = FileValue(value, place, default)
        return held

    def _advice(self, key: str) -> str:
        """What to do about a key that is no setting."""
        from etcompile.diagnostics.spelling import probably

        if key in EACH_TIME:
            return f"--{key} is given on the command line: {EACH_TIME[key]}"
        written = key.replace("_", "-")
        names = {*self.known, ENVIRONMENTS}
        near = written if written in names else probably(written, names)
        if near is None and f"{written[:-1]}" in names:
            near = written[:-1]
        return f"did you mean '{near}'?" if near else "`etcompile config` lists the settings"

    def _default(self, param: Setting, value: Any, place: Place) -> Any:
        """The value as a default of the option; None if the option refuses it."""
        if problem := _wrong_type(param, value):
            self._wrong(place, *problem)
            return None
        items: list[tuple[Place, Any]] = [(place, value)]
        if param.multiple:
            items = [((*place, number), item) for number, item in enumerate(value)]
        ctx = click.Context(click.Command("etcompile"), info_name="etcompile")
        defaults = []
        for where, item in items:
            default = self._path(param, item, where) if isinstance(item, str) else item
            if default is None:
                continue
            try:
                param.process_value(ctx, [default] if param.multiple else default)
            except click.BadParameter as error:
                self._wrong(where, error.message.rstrip("."), "")
            else:
                defaults.append(default)
        if len(defaults) < len(items):
            return None
        return defaults if param.multiple else defaults[0]

    def _path(self, param: Setting, value: str, place: Place) -> str | None:
        """A text, with its path as seen from the working directory; None if that leads out."""
        from etcompile.overlays.overlay_files import shipped

        scheme, name = "", value
        if param.key == "secret":
            head, _, name = value.rpartition(":")
            scheme = f"{head}:"
            names_file = value.startswith("sealed:")
        else:
            names_file = param.is_file and not (param.key == "overlay" and value in shipped())
            is_cluster = param.key == "capacity" and value.partition(":")[0] == "cluster"
            names_file = names_file and not is_cluster
        if not names_file:
            return value
        path = os.path.join(self.file.folder, name)  # noqa: PTH118
        try:
            access.resolved(path, Boundary(self.file.root))
        except access.OutsideError:
            problem = f"it leads out of {self.file.root}"
            self._wrong(place, problem, "name such a file on the command line")
            return None
        except OSError:
            pass  # reported when it is opened
        return scheme + os.path.relpath(path)

    def _wrong(self, place: Place, problem: str, advice: str) -> None:
        name = ".".join(key for key in place if isinstance(key, str))
        where = self.file.location(place)
        wrong = diagnose(codes.WRONG_SETTING, where, name=name, problem=problem, advice=advice)
        self.problems.append(wrong)


def _wrong_type(param: Setting, value: Any) -> tuple[str, str] | None:
    """Why the type of a value cannot be that of the option, and what to write; None if it can."""
    if param.is_flag:
        return None if isinstance(value, bool) else ("it must be true or false", "")
    if param.multiple:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return None
        example = f'["{value}"]' if isinstance(value, str) else '["a", "b"]'
        return "it must be a list of strings", f"write {example}"
    if isinstance(param.type, click.IntRange):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return None if is_number else ("it must be a number", "")
    return None if isinstance(value, str) else ("it must be a string", "write it in quotes")
