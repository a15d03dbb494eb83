"""All mistakes of a command line are told at once."""

import re

import pytest
from click.testing import CliRunner

from etcompile.cli.main import _etcompile as etcompile

MISTAKES = {
    "--gang": "volcanoo",
    "--profile": "argcd",
    "--namespace": "A_",
    "--secret": "vault",
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
    settings = {"--gang", "--profile", "--secret", "--ignore"} if command == "diff" else ()
    wrong = {name: value for name, value in MISTAKES.items() if name not in settings}
    words = [word for pair in wrong.items() for word in pair]
    assert told(command, "job.yaml", *words) == list(wrong)


def test_unknown_options_are_told_beside_wrong_values() -> None:
    arguments = ["check", "--gnag", "--profile", "argcd", "--colour=x", "job.yaml"]
    assert told(*arguments) == ["--gnag", "--colour", "--profile"]


def test_commands_of_groups_and_without_sections_tell_all_too() -> None:
    assert told("explain", "-o", "xml", "--foo") == ["--foo", "--output"]
    assert told("argocd", "generate", "--gang", "x", "--profile", "y") == ["--gang", "--profile"]


def test_several_codes_that_cannot_be_ignored_are_all_named() -> None:
    run = CliRunner().invoke(etcompile, ["check", "--ignore", "ET0000,ET2001", "job.yaml"])
    assert "ET0000" in run.output
    assert "ET2001" in run.output


def test_one_mistake_is_told_once() -> None:
    assert told("check", "--gang", "volcanoo", "job.yaml") == ["--gang"]


def test_a_setting_of_the_file_is_no_flag_and_says_where_it_belongs() -> None:
    run = CliRunner().invoke(etcompile, ["render", "--services", "shared", "job.yaml"])
    assert run.exit_code == 2
    assert "--services is a setting: write it into etcompile.toml" in run.output
    assert "--config services=VALUE" in run.output
