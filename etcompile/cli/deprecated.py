"""What is still there and is to go: an option that says so when somebody uses it (ET5030).

Apart from the options, because none may be deprecated today. How long something stays, and how it
is told: docs/stability.md.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from etcompile.diagnostics import Diagnostic, Location

_USED = f"{__name__}.used"
_TOLD = f"{__name__}.told"
_NOT_GIVEN = (ParameterSource.DEFAULT, None)


class DeprecatedOption(click.Option):
    """An option that works as before and warns: `click.option("--old", cls=DeprecatedOption, ...)`.

    Args:
        since: The version that deprecates it.
        gone: The first version without it.
        instead: What to do instead, as an advice: `use --new`.
        attributes: As for any option; the help gets a word about it.
    """

    def __init__(self, *args: Any, since: str, gone: str, instead: str, **attributes: Any) -> None:
        self.since, self.gone, self.instead = since, gone, instead
        words = str(attributes.pop("help", "")).strip()
        notice = f"Deprecated since {since}: {instead}."
        attributes["help"] = f"{words} {notice}".strip()
        super().__init__(*args, **attributes)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """The value, as of any option; that it was given is noted."""
        found = super().handle_parse_result(ctx, opts, args)
        if ctx.resilient_parsing or self.name is None:
            return found
        source = ctx.get_parameter_source(self.name)
        if source not in _NOT_GIVEN:
            name = max(self.opts, key=len)
            where = None
            if source is ParameterSource.DEFAULT_MAP:
                where = _in_configuration(ctx, name.removeprefix("--"))
            note(ctx, name, self.since, self.gone, self.instead, where)
        return found


def note(
    ctx: click.Context,
    name: str,
    since: str,
    gone: str,
    instead: str,
    where: "Location | None" = None,
) -> None:
    """Notes that something deprecated is used, so that it is told with what else there is to tell.

    Args:
        ctx: The context of the command.
        name: What is deprecated, as users write it; a command calls this with its own name.
        since: The version that deprecates it.
        gone: The first version without it.
        instead: What to do instead, as an advice.
        where: Where it stands, if in a file.
    """
    from etcompile.diagnostics import codes, diagnose

    noted = diagnose(codes.DEPRECATED, where, name=name, since=since, gone=gone, advice=instead)
    if not ctx.meta.get(_USED):
        ctx.call_on_close(lambda: _tell_at_the_end(ctx))
    ctx.meta[_USED] = (*ctx.meta.get(_USED, ()), noted)


def used() -> "Sequence[Diagnostic]":
    """What deprecated things this run uses."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(_USED, ()) if ctx is not None else ()


def untold() -> "Sequence[Diagnostic]":
    """Those that were not told yet; whoever asks tells them."""
    found = used()
    if not found:
        return ()
    meta = click.get_current_context().meta
    told = meta.get(_TOLD, 0)
    meta[_TOLD] = len(found)
    return found[told:]


def _tell_at_the_end(ctx: click.Context) -> None:
    """Tells what a command has not told that had nothing else to say."""
    from etcompile.cli.options import TalkOptions, tell
    from etcompile.cli.structs import taken

    names = [name for name in TalkOptions.__struct_fields__ if name in ctx.params]
    params = {name: ctx.params[name] for name in names}
    quiet = {"form": "text", "ignore": (), "color": "auto", "quiet": False}
    with ctx.scope(cleanup=False):
        if ctx.meta.get(_TOLD, 0) < len(used()):
            tell((), taken(TalkOptions, {**quiet, **params}))


def _in_configuration(ctx: click.Context, key: str) -> "Location | None":
    from etcompile.cli.configured import of

    found = of(ctx)
    if found.configuration is None or key not in found.settings:
        return None
    return found.configuration.location(found.settings[key].place)
