"""Options of the commands that talk to a cluster: which one, and how to write to it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """Seconds, as people write them: `90s`, `10m`, `1h30m`; 0 is no limit."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The seconds."""
        if isinstance(value, int | float):
            return float(value)
        if re.fullmatch(r"\d+", value):
            return float(value)
        if not re.fullmatch(r"(\d+[smhd])+", value):
            self.fail(f"'{value}' is no duration; write 90s, 10m or 1h30m", param, ctx)
        return float(
            sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(.)", value))
        )


_CONNECTION = (
    click.option(
        "--context", metavar="NAME", help="The kubeconfig's context, if not the current one."
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The kubeconfig, if not KUBECONFIG's or ~/.kube/config.",
    ),
)
_WRITES = (
    click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="A table or lines for people, or an event a line for programs.",
    ),
    click.option(
        "--concurrency",
        metavar="N",
        type=click.IntRange(1, 256),
        default=16,
        show_default=True,
        help="Writes at once.",
    ),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them."""
    for option in reversed((*_CONNECTION, *_WRITES)):
        command = option(command)
    return command


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds those that say which cluster."""
    for option in reversed(_CONNECTION):
        command = option(command)
    return command
