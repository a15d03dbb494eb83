"""The catalogue is read whole, and the code calls each diagnostic by the name that people read."""

import re
from pathlib import Path

import msgspec
import pytest

import etcompile
from etcompile.diagnostics import RULES, Rule, codes
from etcompile.diagnostics.catalogue import codes_by_name

PACKAGE = Path(etcompile.__file__).parent
CATALOGUE = PACKAGE / "diagnostics" / "catalogue.yaml"


def test_each_entry_has_a_unique_code_and_name() -> None:
    entries = CATALOGUE.read_text("utf-8").count("\n- ")
    assert codes_by_name() == {rule.name: code for code, rule in RULES.items()}
    assert {rule.code for rule in RULES.values()} == set(RULES)
    assert len(codes_by_name()) == len(RULES) == entries


def test_each_field_of_an_entry_has_its_type() -> None:
    for rule in RULES.values():
        assert msgspec.convert(msgspec.to_builtins(rule), Rule) == rule


def test_the_code_uses_all_names_of_the_catalogue_and_no_other() -> None:
    used = {
        name
        for path in PACKAGE.rglob("*.py")
        if path.name != "codes.py"
        for name in re.findall(r"\bcodes\.([A-Z][A-Z0-9_]+)\b", path.read_text("utf-8"))
    }
    assert used == {name.upper().replace("-", "_") for name in codes_by_name()}


def test_a_name_that_is_not_in_the_catalogue_is_an_error() -> None:
    assert codes.MUTABLE_IMAGE == "ET2040"
    with pytest.raises(AttributeError, match="no MUTABLE_IMAGES"):
        _ = codes.MUTABLE_IMAGES
