"""The long form of the catalogue: the pages of `docs/diagnostics`, and `etcompile explain`.

`pytest tests/diagnostics --update-goldens` writes the pages anew.
"""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from diagnostics_pages import pages

from etcompile.cli.explain import command
from etcompile.diagnostics import RULES, rule_text

FOLDER = Path(__file__).parents[2] / "docs" / "diagnostics"


def explained(*arguments):
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_pages_are_what_the_catalogue_says(request):
    written = pages(RULES.values())
    if request.config.getoption("--update-goldens"):
        for name, text in written.items():
            (FOLDER / name).write_text(text, "utf-8")
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == written


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_a_section_closes_what_it_opens(rule):
    section = rule_text.as_markdown(rule)
    outside = re.sub(r"^    .*", "", section, flags=re.MULTILINE)
    prose = re.sub(r"(`+)[^`]+\1", "", outside)
    assert "`" not in prose
    assert not re.search(r"(?<!\\)[<>_]", prose)


def test_all_codes_are_explained_on_a_terminal_too():
    text = explained("--all")
    assert all(rule_text.as_text(rule) in text for rule in RULES.values())


def test_without_a_code_all_are_listed_by_code_and_name():
    lines = [line.split() for line in explained().splitlines()]
    assert lines == [[rule.code, rule.name] for rule in RULES.values()]


def test_a_code_and_all_at_once_are_refused():
    done = CliRunner().invoke(command, ["ET2003", "--all"])
    assert (done.exit_code, done.stdout) == (2, "")
