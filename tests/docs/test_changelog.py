"""The changelog names what the version has, so that nobody tries a flag that has gone."""

import re
from pathlib import Path

import click

from etcompile.cli.main import program

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
NEWEST = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1]


def flags(group: click.Group) -> set[str]:
    options: set[str] = {"--help", "--version", "--filename"}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        options |= flags(command) if isinstance(command, click.Group) else set()
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                options |= {*param.opts, *param.secondary_opts}
    return options


def test_flags_under_added_exist() -> None:
    added = NEWEST.partition("### Added")[2].partition("### ")[0]
    ours = re.sub(r"`kubectl [^`]*`", "", added)
    named = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)}
    assert named
    assert named - flags(program) == set()


def test_flags_elsewhere_exist_or_are_said_to_be_gone() -> None:
    changed = NEWEST.partition("### Changed")[2]
    code = " ".join(re.findall(r"`[^`]+`", changed))
    missing = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)} - flags(program)
    for flag in missing:
        assert re.search(rf"no `{flag}`|`{flag}` is", " ".join(changed.split())), flag
