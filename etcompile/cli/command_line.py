"""Adapt click to this command line: groups, commands, and the sections of `--help`."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import click
from click.core import ParameterSource

from etcompile._version import IS_RELEASE, __version__

_SECTIONS = {
    "Input": "--namespace --overlay --beside --job",
    "Configuration": "--environment --config",
    "Output": "--output --output-dir --plan --check --run --exit-zero",
    "Changes": "--against --dry-run --force --prune --replace --replace-data --adopt --target --yes"
    " --to --add --remove --pods --kind --in-place",
    "Corrections": "--fix --unsafe-fixes --diff",
    "Waiting": "--wait --timeout",
    "Cluster": "--capacity --context --kubeconfig --concurrency",
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
    """A command with this command line's rules for `--dry-run` and settings.

    Args:
        takes_settings: Has `--config KEY=VALUE`.
    """

    takes_settings = False

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
        """Parse the arguments; the error for a setting without a flag says how to set it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if self.takes_settings:
                from etcompile.data import setting_schemas

                if (key := name.removeprefix("--")) in setting_schemas():
                    flag = f"--config {key}=VALUE"
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


class CompilingCommand(SectionedCommand):
    takes_settings = True


def section_of(param: click.Parameter) -> str:
    return next((_SECTION_OF[flag] for flag in param.opts if flag in _SECTION_OF), OTHER)


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
