"""The catalogue is read whole, and the code calls each diagnostic by the name that people read."""

from pathlib import Path

import etcompile.diagnostics
from etcompile.diagnostics import RULES, codes

CATALOGUE = Path(etcompile.diagnostics.__file__).with_name("catalogue.yaml")


def test_each_code_has_the_name_of_its_rule() -> None:
    named = {name: code for name, code in vars(codes).items() if name.isupper()}
    assert named == {rule.name.upper().replace("-", "_"): code for code, rule in RULES.items()}


def test_each_entry_has_a_code_of_its_own() -> None:
    entries = CATALOGUE.read_text("utf-8").count("\n- ")
    assert len({rule.code for rule in RULES.values()}) == len(RULES) == entries
