"""click's commands as this command line has them.

Every command has `-h`, reports all that is wrong with a command line at once, where click stops at
the first option that it cannot use, and names the nearest command or value for a misspelt one. The
help of a command that compiles has its thirty options in sections.
"""

from collections.abc import Collection, Iterator
from typing import Any

import click
from click.core import iter_params_for_processing

_SECTIONS = {
    "Input": "--filename --namespace --overlay --runtimes --set --beside --allow-empty --job",
    "Configuration": "--environment --config --isolated",
    "Output": "--output --output-dir --plan --split --layout --check --run --exit-zero",
    "Changes": "--against --dry-run --force --prune --replace --replace-data --adopt --target --yes"
    " --take-ownership --to --add --remove --pods --kind --in-place --apply",
    "Corrections": "--fix --unsafe-fixes --diff",
    "Waiting": "--wait --timeout --drain",
    "Cluster": "--context --kubeconfig --concurrency",
    "Gang scheduling": "--gang",
    "Secrets": "--secret",
    "GitOps": "--profile",
    "Diagnostics": "--strict --ignore --select --output-format --color --quiet",
}
"""The flags by section, both in the order in which they are shown."""
_PLACES = {
    flag: (title, place)
    for title, flags in _SECTIONS.items()
    for place, flag in enumerate(flags.split())
}
OTHER = "Other options"


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
        """The error for a flag that is a setting of the configuration file."""
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


class SectionedCommand(Command):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, each under the title of its section."""
        shown = [
            (param, record)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        ]
        for title in (*_SECTIONS, OTHER):
            listed = [
                (_place(param)[1], record) for param, record in shown if section_of(param) == title
            ]
            if listed:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in sorted(listed)])


def section_of(param: click.Parameter) -> str:
    """The title of the section that an option belongs to."""
    return _place(param)[0]


def _place(param: click.Parameter) -> tuple[str, int]:
    """The section of an option, and its place there."""
    return next((_PLACES[flag] for flag in param.opts if flag in _PLACES), (OTHER, 0))


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
