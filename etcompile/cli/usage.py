"""Everything that is wrong with a command line, told at once.

click stops at the first option that it cannot use. Apart from the commands, so that each of them
does it the same way.
"""

from collections.abc import Iterator
from typing import Any

import click
from click.core import iter_params_for_processing


def refuse_without(needed: str, **options: object) -> None:
    """Refuses options that another one would have to be given for.

    Args:
        needed: The other one, as it is written.
        options: What was given.

    Raises:
        click.UsageError: one of them was.
    """
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} needs {needed}")


class UsageErrors(click.UsageError):
    """Several mistakes of one command line.

    Args:
        errors: The mistakes.
        ctx: The context of the command.
    """

    def __init__(self, errors: list[click.UsageError], ctx: click.Context) -> None:
        super().__init__("\nError: ".join(error.format_message() for error in errors), ctx)


class Helped(click.Command):
    """A command or a group that has `-h`, also where it is read ahead without its group."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The flags that show the help."""
        return ["-h", "--help"]


class Command(Helped):
    """A command that tells all mistakes of its command line."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context; `--dry-run` alone is `--dry-run=client`, and never takes the next word."""
        end = args.index("--") if "--" in args else len(args)
        words = [f"{word}=client" if word == "--dry-run" else word for word in args[:end]]
        return super().make_context(info_name, words + args[end:], parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments that are left; a usage error that names all that cannot be used."""
        try:
            return super().parse_args(ctx, [*args])
        except (click.BadParameter, click.NoSuchOption):
            if errors := [*self._errors(ctx, [*args])]:
                raise UsageErrors(errors, ctx) from None
            raise

    def _as_setting(self, error: click.NoSuchOption, ctx: click.Context) -> click.UsageError | None:
        """What to say of a flag that is a setting of the configuration file."""
        name = error.option_name
        options = (param for param in self.params if isinstance(param, click.Option))
        if any(param.hidden and name in param.opts for param in options):
            where = (
                f"write it into etcompile.toml, or pass --config {name.removeprefix('--')}=VALUE"
            )
            return click.UsageError(f"{name} is a setting: {where}", ctx)
        return None

    def _errors(self, ctx: click.Context, args: list[str]) -> Iterator[click.UsageError]:
        """The mistakes of a command line, in the order of its options."""
        again = click.Context(self, parent=ctx.parent, info_name=ctx.info_name)
        parser = self.make_parser(again)
        left, has_unknown = args, False
        while True:
            try:
                values, rest, order = parser.parse_args([*left])
                break
            except click.NoSuchOption as error:
                yield self._as_setting(error, ctx) or error
                shorter = [
                    argument for argument in left if argument.partition("=")[0] != error.option_name
                ]
                if len(shorter) == len(left):
                    return
                left, has_unknown = shorter, True
            except click.UsageError as error:
                yield error
                return
        for param in iter_params_for_processing(order, self.get_params(again)):
            # The value of an unknown option is left over, and looks like an argument.
            if has_unknown and isinstance(param, click.Argument):
                continue
            try:
                param.handle_parse_result(again, values, rest)
            except click.UsageError as error:
                yield error
