"""JSON files: everything JSON allows, and the places in it."""

import json

import pytest

from etcompile.load import parse

OBJECT = {"apiVersion": "v1", "kind": "Probe"}


def data(text):
    loaded = parse(text)
    assert loaded.diagnostics == ()
    return [document.data for document in loaded.documents]


@pytest.mark.parametrize("separator", ["", "\n", " \t\r\n", "\n---\n"])
def test_several_objects_may_follow_one_another(separator):
    text = separator.join(json.dumps({**OBJECT, "n": n}) for n in range(3))
    assert [one["n"] for one in data(text)] == [0, 1, 2]


def test_text_that_is_not_escaped_is_read():
    value = {**OBJECT, "text": ["\U0001f600", "é", "\u2028", "\\ud83d"]}
    assert data(json.dumps(value, ensure_ascii=False)) == [value]


def test_an_escaped_solidus_and_half_a_surrogate_pair_are_read_as_go_reads_them():
    text = '{"apiVersion":"v1","kind":"A","a":"\\/","b":"\\ud83d!"}'
    (value,) = data(text)
    assert (value["a"], value["b"]) == ("/", "\ufffd!")


def test_a_flow_style_yaml_file_is_no_json_and_is_read():
    assert data("{apiVersion: v1, kind: 'A', # why\n  a: [yes, 010,],}") == [
        {"apiVersion": "v1", "kind": "A", "a": [True, 8]}
    ]


def test_locations_after_json_escapes_match_the_text():
    text = """
{"apiVersion":"v1","kind":"A","a":"\\ud83d\\ude00","b":[1,2]}
{"apiVersion":"v1",
\t"kind":"B","c":{"d":null}}"""
    first, second = parse(text).documents
    assert str(first.locate(("b", 1))) == "-:2:57"
    assert str(second.locate(("kind",))) == "-:4:9"
    assert str(second.locate(("c", "d"))) == "-:4:22"
    assert second.locate(("c", "d")).width == 4
    assert str(second.locate(("c", "x"))) == "-:4:13"


def test_duplicate_keys_are_refused():
    (problem,) = parse('{"apiVersion":"v1",\n"kind":"A",\n"kind":"B"}').diagnostics
    assert problem.message == "key 'kind' appears twice in this mapping; first on line 2"
    assert problem.location.line == 3


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ('{"a": 1,\n', "-:2:1", "expecting property name enclosed in double quotes"),
        ('{"a": [1,\n 2\n', "-:3:1", "expecting ',' delimiter"),
        ('{"a": 1 "b": 2}', "-:1:12", "expected ',' or '}' here"),
        ('{"a" 1}', "-:1:6", "expecting ':' delimiter"),
        ('{"a": 1}\n{"b": 1]', "-:2:8", "expecting ',' delimiter"),
        ('{"a": 1\n "b": 2}', "-:2:2", "expecting ',' delimiter"),
        ('{"a": "x\n', "-:1:9", "invalid control character"),
        ('{"a": "x', "-:1:7", "unterminated string starting"),
        ("{a: [1", "-:1:5", "this '[' is never closed"),
        ("{a: 1,\n b: [1 2], c}}", "-:2:14", "text after the end of the document"),
    ],
)
def test_broken_json_is_reported_at_the_position_of_the_error(text, place, problem):
    diagnostics = [one for one in parse(text).diagnostics if one.code == "ET1005"]
    assert [(str(one.location), one.message) for one in diagnostics] == [
        (place, f"not valid YAML: {problem}")
    ]
