"""What runs in the Pods of a role, and the options of its commands.

What a launcher starts by mpirun or horovodrun runs in the Pods of the hosts: its paths are those
of their containers, and its devices theirs. Apart from the reader of command lines, which knows
neither roles nor where a word is written.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from etcompile.diagnostics import Location
from etcompile.launch.commands import LAUNCHERS
from etcompile.launch.shell import Command, commands
from etcompile.model import Job, Role

_LAUNCHERS = frozenset(LAUNCHERS) - {"torchrun"}
"""Programs that start a training on other hosts; torchrun runs on each of them."""


class Given(NamedTuple):
    """An option of a command, and its value.

    Args:
        name: Without its dashes, words joined by `_`.
        value: As it is written; None without one.
        written: The option as it stands in the command line, with its dashes.
        by: The role in whose template it is written.
    """

    name: str
    value: str | None
    written: str
    by: Role

    @property
    def place(self) -> Location:
        """Where it is written."""
        return place_of(self.by, self.written)


class Started(Struct, frozen=True):
    """A command that runs in the main container of a role.

    Args:
        words: Its words, those with a value that only the shell knows left out.
        program: The file name of its program.
        options: Its options, in order.
        by: The role in whose template it is written.
    """

    words: frozenset[str]
    program: str
    options: tuple[Given, ...]
    by: Role


def started(job: Job) -> Mapping[str, tuple[Started, ...]]:
    """What runs in the main containers of each role, by the role's name."""
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    found: dict[str, list[Started]] = {role.name: [] for role in job.roles}
    for role in job.roles:
        for command in commands(role.template.main_container):
            program = command.program
            elsewhere = program in _LAUNCHERS and hosts and role.name not in hosts
            words = frozenset(word.text for word in command.words if word.literal)
            run = Started(words, program, tuple(_options(command, role)), role)
            for name in hosts if elsewhere else {role.name}:
                found.get(name, []).append(run)
    return {name: tuple(those) for name, those in found.items()}


def place_of(role: Role, text: str) -> Location:
    """The word that has a text, in the command line of a role's main container.

    Args:
        role: The role in whose template it is written.
        text: An option, or a part of a script.
    """
    main = role.template.main_container
    names = [container["name"] for container in role.template.spec["containers"]]
    path = ("spec", "containers", names.index(main["name"]))
    field = "command"
    for field in ("command", "args"):
        for index, word in enumerate(main.get(field, ())):
            if text in word:
                return role.template.origin.locate(*path, field, index)
    return role.template.origin.locate(*path, field)


def _options(command: Command, role: Role) -> Iterator[Given]:
    # Without a command, the arguments are those of the image's own.
    words = command.words[not command.words[0].text.startswith("-") :]
    for place, word in enumerate(words):
        if not word.literal or not word.text.startswith("-"):
            continue
        written, equals, value = word.text.partition("=")
        following = words[place + 1] if place + 1 < len(words) else None
        if not equals and following and following.literal and not following.text.startswith("-"):
            value, equals = following.text, "="
        name = written.lstrip("-").replace("-", "_")
        yield Given(name, value if equals else None, written, role)
