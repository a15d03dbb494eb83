"""Adapt click to this command line: commands, and parameters that are declared once.

The parameters of a command are the fields of a frozen struct:

    class _Options(ReportOptions, frozen=True, kw_only=True):
        job: str = argument("JOB")
        rank: int | None = option(metavar="N", help="Only the Pod of this rank.")

    @subcommand("logs", _Options)
    def command(ctx: click.Context, options: _Options) -> None: ...

The type of a field decides: a `bool` is a flag, a tuple is an option that may be repeated, a
`Literal` is a choice, and a field that is not `| None` and has no default is required. A `setting`
may also be in `etcompile.toml`, and is checked there as on the command line; its help is the
description in `schemas/configuration.json`. A field that is a struct is a group of options that
several commands take.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from click.core import ParameterSource
from msgspec import Struct, json
from msgspec.structs import FieldInfo, fields

from etcompile._version import IS_RELEASE, __version__
from etcompile.data import folder

_SECTIONS = {
    "Input": "--namespace --overlay --runtimes --set --beside --allow-empty --job",
    "Configuration": "--environment --config --isolated",
    "Output": "--output --output-dir --plan --split --layout --check --run --exit-zero",
    "Changes": "--against --dry-run --force --prune --replace --replace-data --adopt --target --yes"
    " --take-ownership --to --add --remove --pods --kind --in-place",
    "Corrections": "--fix --unsafe-fixes --diff",
    "Waiting": "--wait --timeout --drain",
    "Cluster": "--capacity --context --kubeconfig --concurrency",
    "Gang scheduling": "--gang",
    "Secrets": "--secret",
    "GitOps": "--profile",
    "Diagnostics": "--strict --ignore --output-format --color --quiet",
}
"""The flags by section, in the order of `--help`."""
_SECTION_OF = {flag: title for title, flags in _SECTIONS.items() for flag in flags.split()}
OTHER = "Other options"
HELP = {"help_option_names": ["-h", "--help"]}
"""`context_settings` of every command."""


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return the end of an error: ` Did you mean 'render'?`; empty if no known name is near."""
    from etcompile.diagnostics.spelling import closest

    near = closest(name, known)
    return f" Did you mean '{near}'?" if near else ""


def refuse_without(needed: str, *names: str) -> None:
    """Refuse options of the command line that have no effect without the option `needed`."""
    ctx = click.get_current_context()
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if param.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} needs {needed}")


def released_image(name: str) -> str:
    """Return the image of this release; a version that is no release asks for `--image`."""
    if not IS_RELEASE:
        raise click.UsageError(
            f"etcompile {__version__} is not a release, and only releases have images: build one"
            f" with 'docker buildx bake' and name it, such as --image ghcr.io/etcompile/{name}:dev"
            " (docs/install.md, Building images)"
        )
    return f"ghcr.io/etcompile/{name}:{__version__}"


class Group(click.Group):
    """A group that suggests a command when none has the name.

    Args:
        synonyms: Words of kubectl, Helm and Terraform, each with the command for it here.
    """

    synonyms: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if not (args[0] in known or args[0].startswith("-") or ctx.resilient_parsing):
            meant = self.synonyms.get(args[0])
            advice = f" Did you mean '{meant}'?" if meant else did_you_mean(args[0], known)
            ctx.fail(f"No such command '{args[0]}'.{advice}")
        return super().resolve_command(ctx, args)


class Command(click.Command):
    """A command with this command line's rules for `--dry-run` and settings."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read `--dry-run` alone as `--dry-run=client`: it never takes the next word."""
        end = args.index("--") if "--" in args else len(args)
        words = [f"{word}=client" if word == "--dry-run" else word for word in args[:end]]
        return super().make_context(info_name, words + args[end:], parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; the error for a flag that is a hidden setting names its place."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if any(isinstance(p, Setting) and p.hidden and name in p.opts for p in self.params):
                flag = f"--config {name.removeprefix('--')}=VALUE"
                words = f"{name} is a setting: write it into etcompile.toml, or pass {flag}"
                raise click.UsageError(words, ctx) from None
            raise


class SectionedCommand(Command):
    """A command whose help shows its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        order = [*_SECTION_OF]
        sections: dict[str, list[tuple[int, tuple[str, str]]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                place = next((order.index(flag) for flag in param.opts if flag in order), 0)
                sections.setdefault(section_of(param), []).append((place, record))
        for title in (*_SECTIONS, OTHER):
            if title in sections:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in sorted(sections[title])])


def section_of(param: click.Parameter) -> str:
    return next((_SECTION_OF[flag] for flag in param.opts if flag in _SECTION_OF), OTHER)


T = TypeVar("T", bound=Struct)
OVERRIDES = f"{__name__}.overrides"
"""Key in `ctx.meta` of the settings of `--config KEY=VALUE`, which override the file's."""


class Setting(click.Option):
    """A setting of `etcompile.toml`; if it is hidden, `--config KEY=VALUE` is its only flag.

    Args:
        is_file: Its value is a file or a folder, in the file relative to the file's folder.
        danger: Why programs that run for anybody who can write to a repository refuse it in the
            file.
        per_call: It differs from call to call, so that every command that takes it has its flag.
    """

    def __init__(
        self,
        *args: Any,
        is_file: bool = False,
        danger: str = "",
        per_call: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.is_file = is_file
        self.danger = danger
        self.per_call = per_call

    @property
    def key(self) -> str:
        return long_name(self)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        if not self.hidden:
            super().add_to_parser(parser, ctx)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Prefer the value of `--config KEY=VALUE` to that of the file."""
        value = ctx.meta.get(OVERRIDES, {}).get(self.key)
        if value is not None and self.name is not None:
            opts = {**opts, self.name: value.split(",") if self.multiple else value}
        return super().handle_parse_result(ctx, opts, args)


def long_name(param: click.Parameter) -> str:
    return max(param.opts, key=len).removeprefix("--")


class Paths(click.Argument):
    """Paths, which `-f FILE` names too, as with kubectl."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        option = click.Option(["-f", "--filename"], multiple=True)
        option.add_to_parser(parser, ctx)
        super().add_to_parser(parser, ctx)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        name = self.name or ""
        if files := opts.get("filename"):
            paths = opts.get(name)
            opts = {**opts, name: (*files, *(paths if isinstance(paths, tuple) else ()))}
        return super().handle_parse_result(ctx, opts, args)


# Parameters as fields of structs ------------------------------------------------------------------


class Declaration(Struct, frozen=True):
    """A parameter of the command line; it replaces the default of the field."""

    cls: type[click.Parameter]
    words: tuple[str, ...]
    attributes: dict[str, Any]


def option(*words: str, **attributes: Any) -> Any:
    """Declare an option; the long flag is optional if it has the name of the field."""
    return Declaration(click.Option, words, attributes)


def setting(*words: str, **attributes: Any) -> Any:
    return Declaration(Setting, words, attributes)


def argument(
    metavar: str | None = None, *, cls: type[click.Argument] = click.Argument, **attributes: Any
) -> Any:
    """Declare an argument, with attributes of `click.Argument`.

    A tuple takes the rest of the command line.
    """
    return Declaration(cls, (), {"metavar": metavar, **attributes})


def converted(read: Callable[[Any], object]) -> Callable[..., Any]:
    """Return a callback that converts a value; its ValueError becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or ctx.resilient_parsing:
            return value
        try:
            return read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def parameters(
    struct: type[Struct], flags: Collection[str] | None = None
) -> Iterator[click.Parameter]:
    """Yield the parameters of a struct, the inherited ones last.

    Args:
        flags: As of `subcommand`.
    """
    declared = {field.name: field for field in fields(struct)}
    cls: Any = struct
    while cls is not Struct:
        inherited = () if cls.__base__ is Struct else cls.__base__.__struct_fields__
        for name in cls.__struct_fields__:
            field = declared[name]
            if name in inherited:
                continue
            if (group := _group(field)) is not None:
                yield from parameters(group, flags)
            elif isinstance(field.default, Declaration):
                param = _parameter(field, field.default)
                if flags is not None and isinstance(param, Setting) and not param.per_call:
                    param.hidden = param.key not in flags
                yield param
        cls = cls.__base__


def _group(field: FieldInfo) -> type[Struct] | None:
    is_group = field.required and isinstance(field.type, type) and issubclass(field.type, Struct)
    return field.type if is_group else None


def _parameter(field: FieldInfo, declaration: Declaration) -> click.Parameter:
    attributes = {**_type_attributes(field.type), **declaration.attributes}
    if issubclass(declaration.cls, click.Argument):
        if attributes.pop("multiple", False):
            attributes["nargs"] = -1
            del attributes["default"]
        attributes.setdefault("required", "default" not in attributes)
        return declaration.cls([field.name], **attributes)
    words = declaration.words
    if not any(word.startswith("--") for word in words):
        words = (*words, f"--{field.name.replace('_', '-')}")
    if issubclass(declaration.cls, Setting):
        key = max(words, key=len).removeprefix("--")
        attributes.setdefault("help", _setting_schemas()[key]["description"])
    default = attributes.get("default")
    attributes["required"] = "default" not in attributes
    attributes["show_default"] = default not in (None, "", (), False)
    return declaration.cls([*words, field.name], **attributes)


@functools.cache
def _setting_schemas() -> Mapping[str, Any]:
    schema = json.decode((folder("schemas") / "configuration.json").read_bytes())
    properties: Mapping[str, Any] = schema["$defs"]["settings"]["properties"]
    return properties


def _type_attributes(kind: Any) -> dict[str, Any]:
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (inner for inner in get_args(kind) if inner is not NoneType)
        return {**_type_attributes(inner), "default": None}
    if kind is bool:
        return {"is_flag": True, "default": False}
    if get_origin(kind) is tuple:
        return {**_type_attributes(get_args(kind)[0]), "multiple": True, "default": ()}
    if get_origin(kind) is Literal:
        return {"type": click.Choice([*get_args(kind)])}
    return {"type": kind} if kind in (int, float) else {}


def subcommand(
    name: str,
    struct: type[T],
    *,
    cls: type[click.Command] = Command,
    flags: Collection[str] | None = None,
    group: click.Group | None = None,
) -> Callable[[Callable[[click.Context, T], None]], click.Command]:
    """Turn a function into a command that passes its parameters as a struct.

    Args:
        flags: The settings with a flag, by their names in the file; others are set in the file or
            by `--config KEY=VALUE`. None: as they are declared.
    """

    def decorated(run: Callable[[click.Context, T], None]) -> click.Command:
        @click.pass_context
        @functools.wraps(run)
        def callback(ctx: click.Context, /, **params: Any) -> None:
            from etcompile.diagnostics import RefusedError

            options: Any = filled(struct, params)
            try:
                run(ctx, options)
            except RefusedError as error:
                from etcompile.cli.reporting import report

                report(error.diagnostics, options)
                ctx.exit(error.code)

        command = click.command(
            name, cls=cls, params=[*parameters(struct, flags)], context_settings=HELP
        )(callback)
        if group is not None:
            group.add_command(command)
        return command

    return decorated


def filled(struct: type[T], params: Mapping[str, Any]) -> T:
    values: dict[str, Any] = {}
    for field in fields(struct):
        if (group := _group(field)) is not None:
            values[field.name] = filled(group, params)
        elif isinstance(field.default, Declaration):
            values[field.name] = params[field.name]
    return struct(**values)
