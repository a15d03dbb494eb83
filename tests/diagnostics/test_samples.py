"""The messages that `explain` shows: as they are told, and not as the catalogue writes them."""

import re
import string
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from etcompile.cli.check import command
from etcompile.diagnostics import RULES, rule_text

INPUTS = Path(__file__).parent / "inputs"
FILES = {"ET1013": "hosts.yaml", "ET1014": "ds_config.json"}
"""The names of files that a sample names."""
SHOWN = (
    "ET1005 ET1013 ET1014 ET1015 ET1017 ET1019 ET1040 ET1041 ET1042 ET2001 ET2002 ET2003 "
    "ET2004 ET2005 ET2006 ET2007 ET2008 ET2009 ET2011 ET2013 ET2014 ET2020 ET2030 ET2042 "
    "ET2046 ET2050 ET2061 ET2062 ET2064 ET2067 ET2068 ET2069 ET2110 ET2111 ET2130 ET3001 "
    "ET3004 ET3005 ET4001 ET4010 ET4013 ET4020"
)
"""Codes with an input of which `check` says exactly what `explain` shows."""


def facts(template: str) -> set[str]:
    fields = (name for _, name, _, _ in string.Formatter().parse(template) if name is not None)
    return {re.split(r"[.\[]", name)[0] for name in fields}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_each_fact_of_a_rule_has_a_sample_and_no_other(rule: Any) -> None:
    assert set(rule.sample) == facts(rule.message) | facts(rule.hint)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_no_explanation_shows_a_placeholder(rule: Any) -> None:
    diagnostic = rule_text.sample(rule)
    names = facts(rule.message) | facts(rule.hint)
    for words in (diagnostic.message, diagnostic.hint or ""):
        assert not names & set(re.findall(r"\{(\w+)", words))
    assert diagnostic.message in rule_text.as_text(rule)
    assert (diagnostic.hint or "") in rule_text.as_text(rule)


@pytest.mark.parametrize("code", SHOWN.split())
def test_what_explain_shows_is_what_check_says(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    diagnostic = rule_text.sample(RULES[code])
    words = f"[{code}]: {diagnostic.message}\n"
    output = []
    for file in INPUTS.glob(f"{code}*.yaml"):
        name = FILES.get(code, "job.yaml")
        (tmp_path / name).write_text(file.read_text())
        output.append(CliRunner().invoke(command, [name]).output)
    [said] = [text for text in output if words in text]
    assert diagnostic.hint is None or f"= hint: {diagnostic.hint}\n" in said
