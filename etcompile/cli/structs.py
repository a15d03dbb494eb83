"""The parameters of a command: several at once, and what click read as a frozen struct."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import fields

from etcompile.cli.suggestion import Choice

T = TypeVar("T", bound=Struct)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def adds(*options: Decorator) -> Decorator:
    """Gives a command several parameters, in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda inner, option: option(inner), reversed(options), command)

    return decorated


def output_option(*formats: str, help: str) -> Decorator:  # noqa: A002 - as click calls it
    """`-o/--output FORMAT`, as kubectl has it.

    Args:
        formats: What the answer can be; the first if nobody says.
        help: What they are for.
    """
    return click.option(
        "-o",
        "--output",
        type=Choice([*formats]),
        default=formats[0],
        show_default=True,
        help=help,
    )


def takes(struct: type[T]) -> Callable[[Callable[[click.Context, T], None]], Callable[..., None]]:
    """Gives a command its parameters as one value.

    Args:
        struct: Each parameter of the command is a field of it, or of a struct that it holds.
    """

    def decorated(command: Callable[[click.Context, T], None]) -> Callable[..., None]:
        @click.pass_context
        @functools.wraps(command)
        def called(ctx: click.Context, /, **params: Any) -> None:
            command(ctx, taken(struct, params))

        return called

    return decorated


def taken(struct: type[T], params: Mapping[str, Any]) -> T:
    """The struct of a command's parameters.

    Raises:
        TypeError: a parameter is no field of it, or there is none for a field.
    """
    left = dict(params)
    given = _filled(struct, left)
    if left:
        raise TypeError(f"{struct.__name__} has no field for {', '.join(left)}")
    return given


def _filled(struct: type[T], left: dict[str, Any]) -> T:
    """The struct; what goes into it is taken out of what is left."""
    values: dict[str, Any] = {}
    for field in fields(struct):
        if field.name in left:
            values[field.name] = left.pop(field.name)
        elif isinstance(field.type, type) and issubclass(field.type, Struct):
            values[field.name] = _filled(field.type, left)
    return struct(**values)
