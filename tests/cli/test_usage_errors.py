"""All mistakes of a command line are told at once."""

import re

import pytest
from click.testing import CliRunner

from etcompile.cli.main import _etcompile as etcompile

MISTAKES = {
    "--gang": "volcanoo",
    "--services": "sharde",
    "--kubernetes-version": "9.9",
    "--namespace": "A_",
    "--secret": "vault",
    "--dlrover-version": "new",
    "--ignore": "ET0000",
    "--output-format": "xml",
}


def told(*arguments: str) -> list[str]:
    """The options that the errors of a command line name, in their order."""
    run = CliRunner().invoke(etcompile, arguments)
    assert run.exit_code == 2
    return re.findall(r"^Error: .*?(--[a-z-]+)", run.output, re.MULTILINE)


@pytest.mark.parametrize("command", ["check", "render", "diff"])
def test_all_values_that_cannot_be_are_told(command: str) -> None:
    words = [word for pair in MISTAKES.items() for word in pair]
    assert told(command, "job.yaml", *words) == list(MISTAKES)


def test_unknown_options_are_told_beside_wrong_values() -> None:
    arguments = ["check", "--gnag", "--services", "sharde", "--colour=x", "job.yaml"]
    assert told(*arguments) == ["--gnag", "--colour", "--services"]


def test_commands_of_groups_and_without_sections_tell_all_too() -> None:
    assert told("explain", "-o", "xml", "--foo") == ["--foo", "--output"]
    assert told("argocd", "generate", "--gang", "x", "--services", "y") == ["--gang", "--services"]


def test_several_codes_that_cannot_be_ignored_are_all_named() -> None:
    run = CliRunner().invoke(etcompile, ["check", "--ignore", "ET0000,ET2001", "job.yaml"])
    assert "ET0000" in run.output
    assert "ET2001" in run.output


def test_one_mistake_is_told_once() -> None:
    assert told("check", "--gang", "volcanoo", "job.yaml") == ["--gang"]
