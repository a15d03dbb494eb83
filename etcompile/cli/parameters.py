"""The parameters of a command, declared once: as the fields of a frozen struct.

    class LogsOptions(ReportOptions, frozen=True, kw_only=True):
        job: str = argument("JOB", shell_complete=completing.jobs)
        rank: int | None = option(metavar="N", help="Only the Pod of this rank.")

    @subcommand("logs", LogsOptions)
    def command(ctx: click.Context, options: LogsOptions) -> None: ...

What the type of a field says is not repeated: a `bool` is a flag, a tuple is an option that may be
repeated, a `Literal` is a choice, and what is not `| None` and has no default is required. A
`setting` may stand in `etcompile.toml` too, and is checked there as on the command line. A field
that is a struct is a group of options that several commands take.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from etcompile.cli.commands import Choice, Command

T = TypeVar("T", bound=Struct)
OVERRIDES = f"{__name__}.overrides"
"""Where a command keeps the settings of `--config KEY=VALUE`, which count before the file's."""


class Setting(click.Option):
    """A setting of `etcompile.toml`; where it is hidden, `--config KEY=VALUE` is its only flag.

    Args:
        is_file: Its value is a file or a folder; the file names it relative to its own folder.
        danger: Why programs that run for whoever can write to a repository refuse it in its file.
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
        """Its name in the file."""
        return long_name(self)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """A flag, unless it is hidden."""
        if not self.hidden:
            super().add_to_parser(parser, ctx)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """The value, that of `--config KEY=VALUE` before that of the file."""
        value = ctx.meta.get(OVERRIDES, {}).get(self.key)
        if value is not None and self.name is not None:
            opts = {**opts, self.name: value.split(",") if self.multiple else value}
        return super().handle_parse_result(ctx, opts, args)


class Declaration(Struct, frozen=True):
    """How a field of a struct is written on the command line; it stands in place of its default.

    Args:
        cls: The class of click's parameter.
        words: The flags of an option.
        attributes: Of click's parameter, as far as the type of the field does not say them.
    """

    cls: type[click.Parameter]
    words: tuple[str, ...]
    attributes: dict[str, Any]


def option(*words: str, **attributes: Any) -> Any:
    """Declares an option.

    Args:
        words: Its flags; a long one only where it is not named like the field.
        attributes: As `click.Option` has them.
    """
    return Declaration(click.Option, words, attributes)


def setting(*words: str, **attributes: Any) -> Any:
    """Declares an option that `etcompile.toml` may set, with attributes of `Setting`, too."""
    return Declaration(Setting, words, attributes)


def argument(
    metavar: str | None = None, *, cls: type[click.Argument] = click.Argument, **attributes: Any
) -> Any:
    """Declares an argument, with attributes as `click.Argument` has them.

    A tuple takes all that is left of the command line.
    """
    return Declaration(cls, (), {"metavar": metavar, **attributes})


def converted(read: Callable[[Any], object]) -> Callable[..., Any]:
    """A callback that converts a value; what the conversion refuses is a usage error.

    Args:
        read: Converts a value, or raises a ValueError that says why it cannot.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or ctx.resilient_parsing:
            return value
        try:
            return read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def long_name(param: click.Parameter) -> str:
    """The long name of an option, without its hyphens."""
    return max(param.opts, key=len).removeprefix("--")


def parameters(
    struct: type[Struct], flags: Collection[str] | None = None
) -> Iterator[click.Parameter]:
    """The parameters that a struct declares: its own before those that it inherits.

    Args:
        struct: The options of a command, or a group of them.
        flags: The settings that have a flag; those that are not declared as hidden if None.
    """
    for field in _in_order(struct):
        if (group := _group(field)) is not None:
            yield from parameters(group, flags)
        elif isinstance(field.default, Declaration):
            param = _parameter(field, field.default)
            if flags is not None and isinstance(param, Setting) and not param.per_call:
                param.hidden = param.key not in flags
            yield param


def _in_order(struct: type[Struct]) -> Iterator[FieldInfo]:
    """The fields of a struct, those of each class before those of its base."""
    declared = {field.name: field for field in fields(struct)}
    cls: Any = struct
    while cls is not Struct:
        inherited = () if cls.__base__ is Struct else cls.__base__.__struct_fields__
        yield from (declared[name] for name in cls.__struct_fields__ if name not in inherited)
        cls = cls.__base__


def _group(field: FieldInfo) -> type[Struct] | None:
    """The struct that a field holds, if that is a group of options."""
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
    default = attributes.get("default")
    is_flag = isinstance(default, bool) and "/" not in words[-1]
    attributes["required"] = "default" not in attributes
    attributes["show_default"] = not is_flag and default not in (None, "", ())
    return declaration.cls([*words, field.name], **attributes)


def _type_attributes(kind: Any) -> dict[str, Any]:
    """What the type of a field says of its parameter."""
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (inner for inner in get_args(kind) if inner is not NoneType)
        return {**_type_attributes(inner), "default": None}
    if kind is bool:
        return {"is_flag": True, "default": False}
    if get_origin(kind) is tuple:
        return {**_type_attributes(get_args(kind)[0]), "multiple": True, "default": ()}
    if get_origin(kind) is Literal:
        return {"type": Choice([*get_args(kind)])}
    return {"type": kind} if kind in (int, float) else {}


def subcommand(
    name: str,
    struct: type[T],
    *,
    cls: type[click.Command] = Command,
    flags: Collection[str] | None = None,
    group: click.Group | None = None,
) -> Callable[[Callable[[click.Context, T], None]], click.Command]:
    """Makes a command of a function that takes its parameters as a struct.

    Args:
        name: What it is called.
        struct: Its parameters.
        cls: The class of the command.
        flags: The settings that have a flag, by their names in the file; all others stand in the
            file, or in `--config KEY=VALUE`. None: as they are declared.
        group: The group that it belongs to.
    """

    def decorated(run: Callable[[click.Context, T], None]) -> click.Command:
        @click.pass_context
        @functools.wraps(run)
        def callback(ctx: click.Context, /, **params: Any) -> None:
            run(ctx, filled(struct, params))

        command = click.command(name, cls=cls, params=[*parameters(struct, flags)])(callback)
        if group is not None:
            group.add_command(command)
        return command

    return decorated


def filled(struct: type[T], params: Mapping[str, Any]) -> T:
    """The struct of a command's parameters, and the structs in it."""
    values: dict[str, Any] = {}
    for field in fields(struct):
        if (group := _group(field)) is not None:
            values[field.name] = filled(group, params)
        elif isinstance(field.default, Declaration):
            values[field.name] = params[field.name]
    return struct(**values)
