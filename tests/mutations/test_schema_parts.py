"""A value held against the rules of its own fields, and against the whole schema."""

from typing import Any

import jsonschema_rs
import pytest

from etcompile import frontends
from etcompile.check import kubernetes, validator
from etcompile.check.bundled import bundled_schema
from etcompile.k8s.objects import without_nulls
from mutations.generator import Generator

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["kind"],
    "properties": {
        "kind": {"const": "Job"},
        "spec": {"$ref": "#/$defs/Spec", "minProperties": 1},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Amount"}},
        "labels": {
            "propertyNames": {"$ref": "#/$defs/Key"},
            "patternProperties": {"^n-": {"$ref": "#/$defs/Amount"}},
            "additionalProperties": {"type": "string"},
        },
    },
    "additionalProperties": False,
    "$defs": {
        "Spec": {
            "properties": {"size": {"$ref": "#/$defs/Amount"}, "inner": {"$ref": "#/$defs/Spec"}},
            "allOf": [{"$ref": "#/$defs/Small"}],
            "if": {"required": ["inner"]},
            "then": {"required": ["size"]},
            "additionalProperties": False,
        },
        "Small": {"maxProperties": 2},
        "Amount": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Text"}]},
        "Text": {"type": "string", "pattern": "^[0-9]+$"},
        "Key": {"maxLength": 5},
    },
}


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ({"kind": "Job"}, True),
        ({}, False),
        ([], False),
        ({"kind": "Jobs"}, False),
        ({"kind": "Job", "more": 1}, False),
        ({"kind": "Job", "spec": {}}, False),
        ({"kind": "Job", "spec": {"size": "1", "inner": {"size": 2}}}, True),
        ({"kind": "Job", "spec": {"size": "1", "inner": {"size": "x"}}}, False),
        ({"kind": "Job", "spec": {"inner": {"size": 1}}}, False),
        ({"kind": "Job", "spec": {"size": 1, "inner": {"other": 1}}}, False),
        ({"kind": "Job", "list": [1, "2"]}, True),
        ({"kind": "Job", "list": []}, True),
        ({"kind": "Job", "list": [1, "x"]}, False),
        ({"kind": "Job", "list": {"x": 1}}, False),
        ({"kind": "Job", "labels": {"a": "b", "n-1": 1}}, True),
        ({"kind": "Job", "labels": {"a": 1}}, False),
        ({"kind": "Job", "labels": {"n-1": "b"}}, False),
        ({"kind": "Job", "labels": {"too-long": "b"}}, False),
    ],
)
def test_a_part_decides_as_the_whole_does(value: Any, is_valid: bool) -> None:
    part = validator.part_for(value, SCHEMA)
    assert part is not None
    assert jsonschema_rs.Draft202012Validator(part).is_valid(value) == is_valid
    assert jsonschema_rs.Draft202012Validator(SCHEMA).is_valid(value) == is_valid


def test_a_large_value_needs_the_whole() -> None:
    assert validator.part_for({"kind": "Job", "list": [1] * 100_000}, SCHEMA) is None


def test_mutated_jobs_are_valid_by_the_part_when_they_are_by_the_whole() -> None:
    wholes: dict[Any, tuple[dict[str, Any], jsonschema_rs.Validator]] = {}
    verdicts = {True: 0, False: 0}
    generator = Generator(31)
    for number in range(600):
        for document in generator.input(number):
            named = document.get("apiVersion"), document.get("kind")
            kind = frontends.find(*named) if all(isinstance(one, str) for one in named) else None
            if kind is None:
                continue
            if kind.schema not in wholes:
                rules = bundled_schema(kind.schema)
                wholes[kind.schema] = rules, jsonschema_rs.Draft202012Validator(rules)
            rules, whole = wholes[kind.schema]
            value = without_nulls(document)
            part = validator.part_for(value, rules)
            assert part is not None
            is_valid = whole.is_valid(value)
            assert jsonschema_rs.Draft202012Validator(part).is_valid(value) == is_valid, document
            verdicts[is_valid] += 1
    assert min(verdicts.values()) > 50


def test_a_fault_is_told_however_many_values_were_before_it() -> None:
    version = kubernetes.versions()[-1]
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    bad = {**good, "data": {"a": 1}}
    told = [bool(kubernetes.check_value(value, version)) for value in [good, bad] * 10]
    assert told == [False, True] * 10
