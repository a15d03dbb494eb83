"""Commands and values that are misspelt on the command line: the error names the nearest one.

click does so for options only. Apart from the commands, so that each of them does it the same way.
"""

from collections.abc import Collection
from typing import Any

import click

from etcompile.cli.usage import Command, Helped


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of an error: ` Did you mean 'render'?`; empty if nothing is near.

    Args:
        name: What was written.
        known: What could have been meant.
    """
    from etcompile.diagnostics.spelling import probably

    near = probably(name.lower(), {word.lower() for word in known})
    meant = next((word for word in known if word.lower() == near), None)
    return f" Did you mean '{meant}'?" if meant else ""


class Group(Helped, click.Group):
    """A group that names the nearest of its commands."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; a usage error if there is none."""
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            ctx.fail(f"No such command '{name}'.{did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


class Choice(click.Choice[str]):
    """One of a few values; the error names the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value; a usage error if it is not one of them."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            words = f"{error.message}{did_you_mean(str(value), self.choices)}"
            raise click.BadParameter(words, ctx, param) from None
