"""Find the settings that hold for an input: defaults, `etcompile.toml`, and the user's overrides.

`schemas/configuration.json` describes each setting: its type, its choices and its default. What
more there is to know of one is a row of `_RULES`. The file is refused, at its line, for what the
command line is refused for. A setting of the file counts if neither the user nor an overlay says
otherwise.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml  # noqa: F401 - early; see below
from msgspec import Struct

from etcompile.check import kubernetes
from etcompile.compiler.choices import Options, refusal
from etcompile.data import setting_schemas
from etcompile.diagnostics import Diagnostic, Location, RefusedError, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.diagnostics.suppression import codes_of, option_problems
from etcompile.k8s.names import is_label
from etcompile.load import Boundary, Limits, access, configuration
from etcompile.load.access import Exclude
from etcompile.load.configuration import Configuration, Place
from etcompile.model import Settings
from etcompile.model.settings import duration, secret_mode, setting_value
from etcompile.overlays.overlay_files import shipped

# yaml compiles patterns on import. At the end of a long chain of imports, where it is first used,
# CPython 3.11 maps and unmaps memory at each of 1,500 calls.

ENVIRONMENTS = "environments"
_FIELDS = {"overlay": "overlays", "profile": "profiles"}
"""The settings that a field of another name holds."""
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on", "y", "t"), True),
    **dict.fromkeys(("false", "0", "no", "off", "n", "f"), False),
}


class SettingError(ValueError):
    """A setting does not take a value.

    Args:
        item: The index of the value in a list.
    """

    def __init__(self, key: str, problem: str, advice: str = "", item: int | None = None) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem, self.advice, self.item = key, problem, advice, item


class ConfigurationError(RefusedError):
    pass


class Rule(Struct, frozen=True):
    """What the schema does not say of a setting.

    Args:
        read: Converts its value; raises ValueError.
        path: Returns the path in its text, None if there is none.
        danger: Why programs that run for anybody who can write to a repository refuse it in the
            file.
    """

    read: Callable[[Any], Any] = lambda value: value
    path: Callable[[str], str | None] = lambda _: None
    danger: str = ""


class Configured(Struct, frozen=True):
    """The settings that hold for a run, by their names in the file.

    Args:
        values: All of them, as the compiler takes them.
        overrides: Those that the user sets for this run.
        written: Those of the file: each value as it is there, and its place.
        configuration: The file.
        boundary: What a run for others may open.
    """

    values: Mapping[str, Any]
    overrides: frozenset[str] = frozenset()
    written: Mapping[str, tuple[Any, Place]] = {}
    configuration: Configuration | None = None
    boundary: Boundary | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def options(self) -> Options:
        chosen = {_field(key): self.values[key] for key in (*self.overrides, *self.written)}
        named = Settings.__struct_fields__, Options.__struct_fields__
        settings, others = ({n: chosen[n] for n in names if n in chosen} for names in named)
        file = None if "exclude" in self.overrides else self.configuration
        exclude = Exclude(self.values["exclude"], file.folder if file else ".")
        return Options(
            settings=Settings(**settings),
            explicit=frozenset(map(_field, self.overrides)),
            chosen=frozenset(chosen),
            limits=Limits(boundary=self.boundary, exclude=exclude),
            **others,
        )

    @property
    def repository_name(self) -> tuple[str, str] | None:
        """Return the name of the repository, and the folder of the file that has it."""
        name = self.values["repository-name"]
        return (name, self.configuration.folder) if self.configuration and name else None

    @property
    def record(self) -> tuple[str, str] | None:
        """Return the path of the file from the repository's root, and its digest."""
        if self.configuration is None or set(self.written) == {"repository-name"}:
            return None  # nothing that is rendered depends on it
        file, root = self.configuration.file, self.configuration.root
        name = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        return name, self.configuration.digest


def configured_options(
    path: str | os.PathLike[str], *, environment: str | None = None, **settings: Any
) -> Options:
    """Return the options with which `etcompile render` compiles a file.

    Args:
        settings: Override the configuration file, such as `gang="volcano"`.

    Raises:
        ConfigurationError: the configuration file is faulty.
        SettingError: a setting does not take its value.
    """
    overrides = {name.replace("_", "-"): value for name, value in settings.items()}
    for key in overrides.keys() - setting_schemas().keys():
        raise TypeError(f"there is no setting '{key}'")
    result = configured([os.fspath(path)], environment=environment, overrides=overrides)
    if result.diagnostics:
        raise ConfigurationError(result.diagnostics)
    return result.options


def configured(
    paths: Sequence[str],
    *,
    environment: str | None = None,
    file: str | None = None,
    isolated: bool = False,
    overrides: Mapping[str, Any] | None = None,
    root: str | None = None,
) -> Configured:
    """Read the settings of a run.

    Args:
        paths: The inputs, as on the command line.
        file: The configuration file; the nearest to the inputs if None.
        isolated: Read no file.
        overrides: The values of the user, by setting.
        root: The folder at which the search ends, for a command that runs for whoever can write to
            a repository: it opens nothing outside of that folder, except absolute paths of the
            user, and refuses settings that run programs or let Secrets pass. A relative path is in
            the repository, and may be a link that another author created. None: the root of the
            input's repository.

    Raises:
        SettingError: a setting does not take the value of the user.
    """
    values = {
        key: schema.get("default", () if schema["type"] == "array" else None)
        for key, schema in setting_schemas().items()
    }
    chosen = {key: value_of(key, value) for key, value in (overrides or {}).items()}
    named = [*paths]
    for key, value in (overrides or {}).items():
        texts = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
        named += (path for text in texts if (path := _rule(key).path(text)))
    absolute = tuple(path for path in named if os.path.isabs(path))  # noqa: PTH117
    result: Configuration | Diagnostic | None = None
    if file is not None:
        result = configuration.named(file)
    elif not isolated:
        result = configuration.of_inputs(paths, root)
    written: dict[str, tuple[Any, Place]] = {}
    problems: list[Diagnostic] = []
    if isinstance(result, Configuration):
        known = _file_settings(result, environment, problems, for_others=root is not None)
        written = {key: (value, place) for key, (value, place, _) in known.items()}
        values |= {key: converted for key, (_, _, converted) in known.items()}
    elif isinstance(result, Diagnostic):
        problems.append(result)
    elif environment is not None:
        missing = "--config none leaves it out" if isolated else "there is none"
        advice = f"an environment is a table [environments.{environment}] of the configuration file"
        facts = {"name": environment, "advice": f"{advice}; {missing}"}
        problems.append(diagnose(codes.UNKNOWN_ENVIRONMENT, None, **facts))
    return Configured(
        values=values | chosen,
        overrides=frozenset(chosen),
        written=written,
        configuration=result if isinstance(result, Configuration) else None,
        boundary=None if root is None else Boundary(root, absolute),
        diagnostics=tuple(problems),
    )


def _file_settings(
    file: Configuration, environment: str | None, problems: list[Diagnostic], *, for_others: bool
) -> dict[str, tuple[Any, Place, Any]]:
    """Return the settings that apply: the value, its place, and what the compiler takes.

    Other environments are checked, too.
    """
    applied: dict[str, tuple[Any, Place, Any]] = {}

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
            if key not in setting_schemas():
                near = probably(key.replace("_", "-"), {*setting_schemas(), ENVIRONMENTS})
                advice = f"did you mean '{near}'?" if near else "see `etcompile config`"
                facts = {"name": key, "advice": advice}
                problems.append(diagnose(codes.UNKNOWN_SETTING, file.location(place), **facts))
                continue
            if for_others and value and (danger := _rule(key).danger):
                problem = f"this runs for whoever can write to the repository, and {danger}"
                wrong(place, problem, "let who installs it give the option")
                continue
            try:
                converted = value_of(key, value, file)
            except SettingError as error:
                item = () if error.item is None else (error.item,)
                wrong((*place, *item), error.problem, error.advice)
                continue
            if not above or above[-1] == environment:
                applied[key] = value, place, converted
    if environment is not None and environment not in environments:
        names = ", ".join(environments)
        facts = {"name": environment, "advice": f"it has {names or 'no environments'}"}
        problems.append(diagnose(codes.UNKNOWN_ENVIRONMENT, Location(file.file), **facts))
    return applied


# The values ---------------------------------------------------------------------------------------


def from_text(key: str, text: str) -> Any:
    """Return the value of `--config KEY=VALUE`."""
    match setting_schemas()[key]["type"]:
        case "boolean":
            if text.lower() not in _BOOLEANS:
                raise SettingError(key, f"'{text}' is not a valid boolean")
            return _BOOLEANS[text.lower()]
        case "integer":
            if not re.fullmatch(r"-?\d{1,9}", text):
                raise SettingError(key, f"'{text}' is not a valid integer")
            return int(text)
        case "array":
            return tuple(text.split(","))
    return text


def value_of(key: str, value: Any, file: Configuration | None = None) -> Any:
    """Convert the value of a setting to what the compiler takes.

    Args:
        file: The configuration file, to whose folder paths are relative.

    Raises:
        SettingError: the setting does not take it.
    """
    schema, rule = setting_schemas()[key], _rule(key)
    is_list = isinstance(value, list | tuple)
    match schema["type"]:
        case "boolean":
            if not isinstance(value, bool):
                raise SettingError(key, "it must be true or false")
        case "array":
            if not (is_list and all(isinstance(item, str) for item in value)):
                example = f'["{value}"]' if isinstance(value, str) else '["a", "b"]'
                raise SettingError(key, "it must be a list of strings", f"write {example}")
        case "integer":
            if not isinstance(value, int) or isinstance(value, bool):
                raise SettingError(key, "it must be a number")
            least, most = schema["minimum"], schema["maximum"]
            if not least <= value <= most:
                raise SettingError(key, f"{value} is not in the range {least}<=x<={most}")
        case "string":
            if not isinstance(value, str):
                raise SettingError(key, "it must be a string", "write it in quotes")
    choices = schema.get("items", schema).get("enum")
    items = []
    for number, item in enumerate(value if is_list else (value,)):
        place = number if is_list else None
        if choices and item not in choices:
            problem = f"{item!r} is not one of {', '.join(map(repr, choices))}"
            raise SettingError(key, problem, item=place)
        try:
            here = _relocated(item, rule, file) if file and isinstance(item, str) else item
            converted = rule.read((here,) if is_list else here)
        except access.OutsideError as error:
            problem = f"it leads out of {error.boundary.root}"
            advice = "name such a file on the command line"
            raise SettingError(key, problem, advice, place) from None
        except ValueError as error:
            raise SettingError(key, str(error), item=place) from None
        items.append(here)
    return rule.read(tuple(items)) if is_list else converted


def _relocated(text: str, rule: Rule, file: Configuration) -> str:
    """Make the path in a text of the file relative to the working directory."""
    if not (name := rule.path(text)):
        return text
    path = os.path.join(file.folder, name)  # noqa: PTH118
    try:
        access.resolved(path, Boundary(file.root))
    except access.OutsideError:
        raise
    except OSError:
        pass  # reported when it is opened
    return text.removesuffix(name) + os.path.relpath(path)


def _field(key: str) -> str:
    return _FIELDS.get(key, key.replace("-", "_"))


def namespace_name(value: str) -> str:
    if not is_label(value):
        raise ValueError(f"'{value}' is not a valid namespace")
    return value


def minor_version(value: str) -> str:
    """Return the version of a schema: 1.34 for v1.34.4, which a server reports."""
    version = ".".join(value.removeprefix("v").split(".")[:2])
    known = kubernetes.versions()
    if version not in known:
        raise ValueError(f"{version} is not known; use {known[0]} to {known[-1]}")
    return version


def _dlrover_version(value: str) -> str:
    if not re.fullmatch(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", value):
        raise ValueError(f"'{value}' is not a version such as 0.6.1")
    return value


def _prices(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[^=]+=\d+(\.\d+)?", value):
            raise ValueError(f"'{value}' is no price; write RESOURCE=PRICE: nvidia.com/gpu=2.50")
    return values


def _codes(values: tuple[str, ...]) -> tuple[str, ...]:
    if words := [f"{problem.message}; {problem.hint}" for problem in option_problems(values)]:
        raise ValueError("; ".join(words))
    return codes_of(values)


def _patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    Exclude(values).matches(".")
    return values


def _existing(what: str, exists: Callable[[Path], bool]) -> Callable[[str], Path]:
    def read(text: str) -> Path:
        if not exists(Path(text)):
            raise ValueError(f"{what} '{text}' does not exist")
        return Path(text)

    return read


def _text(name: str) -> Rule:
    """Return the rule of a free text, whose syntax is in the schema of overlays."""

    def checked(value: str) -> str | None:
        text: str | None = setting_value(name, value)
        is_default = text in (None, getattr(Settings(), name))
        if not is_default and (problem := refusal(name, text)):
            raise ValueError(problem)
        return text

    return Rule(checked)


def _secret_file(text: str) -> str | None:
    try:
        return secret_mode(text).file
    except ValueError:
        return None  # reported when it is read


_RULES = {
    "capacity": Rule(path=lambda text: None if text.partition(":")[0] == "cluster" else text),
    "allow-plain-secrets": Rule(danger="it lets Secrets pass"),
    "cluster-domain": _text("cluster_domain"),
    "dlrover-version": Rule(_dlrover_version),
    "drain": Rule(duration),
    "exclude": Rule(_patterns),
    "gang-scheduler": _text("gang_scheduler"),
    "ignore": Rule(_codes),
    "ignore-differences": Rule(_existing("File", Path.is_file), str),
    "init-image": _text("init_image"),
    "kubectl-image": _text("kubectl_image"),
    "kubernetes-version": Rule(minor_version),
    "namespace": Rule(namespace_name),
    "overlay": Rule(path=lambda text: None if text in shipped() else text),
    "price": Rule(_prices),
    "profile": Rule(partial(setting_value, "profiles")),
    "run": _text("run"),
    "runtimes": Rule(path=str),
    "secret": Rule(secret_mode, _secret_file),
    "templates": Rule(_existing("Directory", Path.is_dir), str, danger="a template is a program"),
}


def _rule(key: str) -> Rule:
    return _RULES.get(key, Rule())
