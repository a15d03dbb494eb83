"""A mistake of a command line is told with its option."""

import re

import pytest
from click.testing import CliRunner

from etcompile.cli.main import program

MISTAKES = {"--namespace": "A_", "--ignore": "ET0000", "--output-format": "xml"}

WRONG = (
    "gang=volcanoo",
    "profile=argcd",
    "secret=vault",
    "split=perhaps",
    "concurrency=0",
    "gnag=x",
)
"""Values of `--config`."""


def rejected_options(*arguments: str) -> list[str]:
    """The options that the errors of a command line name, in their order."""
    run = CliRunner().invoke(program, arguments)
    assert run.exit_code == 2
    return re.findall(r"^Error: .*?(--[a-z-]+)", run.output, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        *((command, *pair) for command in ("check", "render") for pair in MISTAKES.items()),
        *((command, "--config", word) for command in ("render", "apply") for word in WRONG),
        ("diff", "--namespace", "A_"),
        *(("check", "--gnag"), ("check", "--colour=x"), ("explain", "--foo")),
        *(("explain", "--output", "xml"), ("argocd", "generate", "--config", "gang=x")),
    ],
    ids=" ".join,
)
def test_impossible_option_value_is_rejected(words: tuple[str, ...]) -> None:
    name = next(word for word in words if word.startswith("--"))
    assert rejected_options(*words, "job.yaml") == [name.partition("=")[0]]


def test_several_codes_that_cannot_be_ignored_are_all_named() -> None:
    run = CliRunner().invoke(program, ["check", "--ignore", "ET0000,ET2001", "job.yaml"])
    assert "ET0000" in run.output
    assert "ET2001" in run.output


def test_a_setting_of_the_file_is_no_flag_and_says_where_it_belongs() -> None:
    run = CliRunner().invoke(program, ["render", "--services", "shared", "job.yaml"])
    assert run.exit_code == 2
    assert "--services is a setting: write it into etcompile.toml" in run.output
    assert "--config services=VALUE" in run.output
