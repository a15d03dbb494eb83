"""What a container's command line runs, as far as its words tell.

Frontends and rules both ask, and neither may ask the other.
"""

import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

LAUNCHERS = ("horovodrun", "mpirun", "mpiexec", "deepspeed", "torchrun")
"""Programs that start a training on other hosts."""

_LEAST = ("--min-np", "--min-num-proc")
_SHELLS = ("sh", "bash", "dash")


def command_words(container: Mapping[str, Any]) -> list[str]:
    """The words of a container's command and arguments, a `sh -c` script taken apart.

    Args:
        container: A container, JSON.

    Returns:
        The words; none if the script cannot be split into words.
    """
    words: list[str] = [*container.get("command", ()), *container.get("args", ())]
    is_shell = bool(words) and PurePosixPath(words[0]).name in _SHELLS
    if not (len(words) > 2 and is_shell and words[1].startswith("-") and words[1].endswith("c")):
        return words
    try:
        return shlex.split(words[2], comments=True)
    except ValueError:
        return []


def launch_program(container: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """The launcher program that a container runs, with the words after it; None if none is seen."""
    words = command_words(container)
    for place, word in enumerate(words):
        if (program := PurePosixPath(word).name) in LAUNCHERS:
            return program, words[place + 1 :]
    return None


def discovers_hosts(container: Mapping[str, Any]) -> bool:
    """Whether a container runs an elastic Horovod driver, which asks a script for its hosts."""
    return any("--host-discovery-script" in word for word in command_words(container))


def least_workers(
    launcher: Mapping[str, Any],
    replicas: int,
    slots: int,
    *,
    others: int = 0,
    stated: int | None = None,
) -> int:
    """How many workers a launcher needs to begin.

    Args:
        launcher: The container that starts the training on its workers.
        replicas: The workers that the document declares.
        slots: Processes for each.
        others: Hosts besides the workers.
        stated: The fewest workers, where the document says so.

    Returns:
        Fewer than all only for an elastic horovodrun, and for a launcher of which nothing can be
        seen where the document states a number.
    """
    found = launch_program(launcher)
    if found is None:
        return replicas if stated is None else min(stated, replicas)
    program, words = found
    if program != "horovodrun" or not discovers_hosts(launcher):
        return replicas
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        value = value if equals else following
        if flag in _LEAST and value.isdecimal() and slots > 0:
            return min(max(-(-int(value) // slots) - others, 1), replicas)
    return replicas if stated is None else min(stated, replicas)
