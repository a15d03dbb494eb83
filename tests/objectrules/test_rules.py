"""Each row of the rules finds its example, and no row its correction."""

import pytest

from etcompile.check import kubernetes
from etcompile.k8s.validation.engine import FORMS
from etcompile.load import from_values
from objectrules.rows import problems, rows, rules

SERVED = 34
"""The minor version of the API server that the tests run."""

ROWS = [pytest.param(row, id=f"{index}-{row.name}") for index, row in enumerate(rows())]


def test_compiled_rules_match_the_rules_file():
    assert rules.main(["--check"]) == 0, "run python schemas/kubernetes/rules.py"


def test_each_form_is_the_form_of_some_rule():
    used = {param.values[0].row.get("form", "") for param in ROWS} - {""}
    names = {name.removesuffix(" or empty").removeprefix("prefix of ") for name in used}
    forms = rules.document()["forms"]
    assert names == forms.keys()
    assert {name for name, form in forms.items() if "pattern" not in form} == FORMS.keys()


@pytest.mark.parametrize("row", ROWS)
def test_a_rule_finds_what_breaks_it_and_nothing_in_its_correction(row):
    minor = row.version(SERVED)
    assert row.is_broken_in(row.broken, minor)
    assert [problem.message for problem in problems(row.corrected, minor)] == []


@pytest.mark.parametrize("row", ROWS)
def test_the_schema_cannot_say_what_a_rule_says(row):
    (document,) = from_values([row.broken]).documents
    diagnostics = kubernetes.check_object(document, f"1.{row.version(SERVED)}")
    assert [problem for problem in diagnostics if problem.code == "ET4002"] == []
