"""What a container's command line runs, as far as its words tell.

Frontends and rules both ask, and neither may ask the other.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.launch.shell import command_line, file_name, script_of, script_words

LAUNCHERS = ("horovodrun", "mpirun", "mpiexec", "deepspeed", "torchrun")
"""Programs that start a training on other hosts."""
_LEAST = ("--min-np", "--min-num-proc")


def command_words(container: Mapping[str, Any]) -> list[str]:
    """The words of a container's command and arguments, a `sh -c` script taken apart.

    Returns:
        The words; none if a quote of the script is never closed.
    """
    words = command_line(container)
    script = script_of(words)
    return words if script is None else script_words(script)


def launch_program(container: Mapping[str, Any]) -> str | None:
    """The launcher that a container's words name; None if there is none among them."""
    programs = (file_name(word) for word in command_words(container))
    return next((program for program in programs if program in LAUNCHERS), None)


def may_launch(container: Mapping[str, Any]) -> bool:
    """Whether a container may run mpirun, mpiexec or horovodrun; quick, and unsure of a yes."""
    return any(name in word for word in command_line(container) for name in LAUNCHERS[:3])


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
        slots: Processes for each.
        others: Hosts besides the workers.
        stated: The fewest workers, where the document says so.

    Returns:
        Fewer than all only for an elastic horovodrun, and for a launcher of which nothing can be
        seen where the document states a number.
    """
    program = launch_program(launcher)
    if program is not None and (program != "horovodrun" or not discovers_hosts(launcher)):
        return replicas
    from etcompile.launch.launchers import launches  # noqa: PLC0415 - most jobs have no launcher

    least = (
        value
        for launch in (launches(launcher) if program else ())
        if launch.program == "horovodrun"
        for _, value in launch.numbers(*_LEAST)
    )
    if slots > 0 and (value := next(least, None)) is not None:
        return min(max(-(-value // slots) - others, 1), replicas)
    return replicas if stated is None else min(stated, replicas)
