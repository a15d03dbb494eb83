"""Advice is asked about any job that is accepted, also one with fields that have no value."""

import copy

import pytest

import etcompile
from etcompile import Options
from lint.advice_cases import CASES
from mutations.odd import paths, put


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_field_without_a_value_ends_in_no_traceback(code: str) -> None:
    case = CASES[code][0]
    accepted = 0
    for path in list(paths(case.shown)):
        changed = copy.deepcopy(case.shown)
        put(changed, path, None)
        options = Options(lint=True, settings=case.settings)
        documents = [document for document in changed if document]
        accepted += etcompile.compile(documents, options).ok
    assert accepted


@pytest.mark.parametrize("odd", [1, "text", [{"a": 1}], {"a": [1]}], ids=str)
def test_a_claim_of_wrong_types_ends_in_no_traceback(odd: object) -> None:
    *job, claim = CASES["ET9006"][0].shown
    for path in paths(claim):
        changed = copy.deepcopy([claim])
        put(changed, [0, *path], odd)
        etcompile.compile([*job, *changed], Options(lint=True))
    claim = {**claim, "spec": {**claim["spec"], "accessModes": odd}}
    assert not etcompile.compile([*job, claim], Options(lint=True)).ok
