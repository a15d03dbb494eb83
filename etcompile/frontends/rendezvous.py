"""Predict how many nodes meet at DLRover's master from the words of `dlrover-run`.

The agents report it to the master only when they start, so a restarted master must be told
(reference/dlrover.md 4.5). That needs their report before they make it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from etcompile.launch.launchers import command_words
from etcompile.launch.shell import whole_number

_PROGRAM = "dlrover-run"
_MODULE = "dlrover.trainer.torch.elastic_run"
_RANGE = re.compile(r"(?P<low>[1-9]\d{0,5})(:(?P<high>[1-9]\d{0,5}))?", re.ASCII)
_COUNT = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|(\w+))")
_COUNTS = frozenset({"NODE_NUM", "WORKER_NUM", "WORLD_SIZE"})
"""Variables with the number of workers (reference 3.2)."""

_LASTCALL, _JOIN = 60, 600  # seconds that an agent reports by default


class Rendezvous(Struct, frozen=True):
    """The report of an agent when it starts.

    Args:
        unit: Nodes come in multiples of it.
        lastcall: Seconds that the fewest wait for more.
        join: Seconds until a node gives up.
    """

    minimum: int
    maximum: int
    unit: int = 1
    lastcall: int = _LASTCALL
    join: int = _JOIN


def runs_agent(container: Mapping[str, Any]) -> bool:
    return arguments(container, _PROGRAM, _MODULE) is not None


def rendezvous(container: Mapping[str, Any], workers: int) -> Rendezvous | None:
    """Return what the agent of a container will report; None if that is uncertain."""
    words = arguments(container, _PROGRAM, _MODULE)
    if words is None:
        return None
    flags = dict(options(words))
    values = {env["name"]: env.get("value") for env in reversed(container.get("env", ()))}
    nodes = flags.get("nnodes") or values.get("PET_NNODES") or "1:1"
    sizes = parsed("$NODE_NUM" if "auto_config" in flags else nodes, workers)
    unit = whole_number(flags.get("node_unit") or values.get("PET_NODE_UNIT") or "1")
    if sizes is None or not unit:
        return None
    pairs = (pair.partition("=") for pair in flags.get("rdzv_conf", "").split(","))
    seconds = {name: whole_number(value) for name, _, value in pairs}
    lastcall, join = seconds.get("lastcall_timeout"), seconds.get("join_timeout")
    return Rendezvous(
        *sizes, unit, _LASTCALL if lastcall is None else lastcall, _JOIN if join is None else join
    )


def parsed(text: str, workers: int) -> tuple[int, int] | None:
    """Return the fewest and the most nodes of `--nnodes`: `4`, `3:4` or `3:$NODE_NUM`."""

    def count(match: re.Match[str]) -> str:
        return str(workers) if _COUNTS & {*match.groups()} else match[0]

    return node_range(_COUNT.sub(count, text.strip()))


def node_range(text: str) -> tuple[int, int] | None:
    """Return the fewest and the most nodes of `4` or `3:4`; None for anything else."""
    if (match := _RANGE.fullmatch(text)) is None:
        return None
    low = int(match["low"])
    return low, int(match["high"] or low)


def arguments(container: Mapping[str, Any], *programs: str) -> Sequence[str] | None:
    """Return the words after the program that a container runs; None if it runs none of these."""
    words = command_words(container)
    for place, word in enumerate(words):
        if PurePosixPath(word).name in programs:
            return words[place + 1 :]
    return None


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags before the script, with underscores, and their values."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word.endswith(".py") or word in ("&&", "||", ";", "|"):
            return  # what follows is the script's
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            yield flag.replace("-", "_"), value if equals else following
