"""What a container's command line runs, as far as its words tell.

Frontends and rules both ask, and neither may ask the other.
"""

import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

LAUNCHERS = ("horovodrun", "mpirun", "mpiexec", "deepspeed", "torchrun")
"""Programs that start a training on other hosts."""

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
