"""The names by which the code speaks of diagnostics are those that people read."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.catalogue import RULES


def test_each_code_has_the_name_of_its_rule() -> None:
    named = {name: code for name, code in vars(codes).items() if name.isupper()}
    assert named == {rule.name.upper().replace("-", "_"): code for code, rule in RULES.items()}
