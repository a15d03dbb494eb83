"""The page of commands has every command and every exit code."""

import re
from pathlib import Path

import click

from etcompile import exitcodes
from etcompile.cli.main import program

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")


def test_every_command_has_a_row():
    named = set(re.findall(r"^\| `([a-z-]+)", PAGE, re.MULTILINE))
    assert named == set(program.list_commands(click.Context(program)))


def test_every_exit_code_has_a_row():
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert codes == sorted({0} | {code for name, code in vars(exitcodes).items() if name.isupper()})
