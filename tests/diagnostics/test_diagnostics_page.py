"""The long form of the catalogue: `docs/diagnostics.md` and `etcompile explain`."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from etcompile.cli.explain import command
from etcompile.diagnostics import RULES, rule_text

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"
AGAIN = "etcompile explain --all -o markdown > docs/diagnostics.md"


def explained(*arguments):
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_page_is_what_the_catalogue_says():
    assert PAGE.read_text("utf-8") == explained("--all", "-o", "markdown"), f"run: {AGAIN}"


def test_the_page_has_a_section_for_each_code_in_order():
    headings = re.findall(r"^### (ET\d{4})$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == sorted(RULES)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_a_section_closes_what_it_opens(rule):
    section = rule_text.as_markdown(rule)
    assert section.count("```") == 2
    assert "```" not in rule.example
    outside = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
    prose = re.sub(r"(`+)[^`]+\1", "", outside)
    assert "`" not in prose
    assert not re.search(r"(?<!\\)[<>_]", prose)


def test_all_codes_are_explained_on_a_terminal_too():
    text = explained("--all")
    assert all(rule_text.as_text(rule) in text for rule in RULES.values())


def test_one_code_is_explained_in_markdown_too():
    section = explained("replicas-above-max", "-o", "markdown")
    assert section == rule_text.as_markdown(RULES["ET2003"]) + "\n"
    assert section in PAGE.read_text("utf-8")


@pytest.mark.parametrize("arguments", [[], ["ET2003", "--all"]])
def test_one_code_or_all_are_asked_for(arguments):
    done = CliRunner().invoke(command, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
