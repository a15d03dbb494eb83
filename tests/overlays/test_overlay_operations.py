"""JSON patches: the examples of RFC 6902 (appendix A) and RFC 6901, and what they leave open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etcompile.k8s.traced import PatchError, Traced
from etcompile.load import Document
from etcompile.overlays.jsonpatch import operated


def apply(base: Any, *operations: Any) -> Any:
    return patched(base, *operations).value


def patched(base: Any, *operations: Any) -> Traced:
    def traced(value: Any, file: str) -> Traced:
        return Traced(value, Document(file, file, 0, {"value": value}))

    return operated(traced(base, "base"), traced(list(operations), "patch"))


def op(name: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more, **({"value": value[0]} if value else {})}


@pytest.mark.parametrize(
    ("base", "operations", "result"),
    [
        pytest.param({"foo": 1}, [op("add", "/baz", 2)], {"foo": 1, "baz": 2}, id="A.1"),
        pytest.param({"a": [1, 3]}, [op("add", "/a/1", 2)], {"a": [1, 2, 3]}, id="A.2"),
        pytest.param({"a": 1, "b": 2}, [op("remove", "/a")], {"b": 2}, id="A.3"),
        pytest.param({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}, id="A.4"),
        pytest.param({"a": 1}, [op("replace", "/a", 2)], {"a": 2}, id="A.5"),
        pytest.param(
            {"foo": {"bar": 1, "waldo": 2}, "qux": {}},
            [op("move", "/qux/thud", **{"from": "/foo/waldo"})],
            {"foo": {"bar": 1}, "qux": {"thud": 2}},
            id="A.6",
        ),
        pytest.param(
            {"a": [1, 2, 3, 4]},
            [op("move", "/a/3", **{"from": "/a/1"})],
            {"a": [1, 3, 4, 2]},
            id="A.7",
        ),
        pytest.param(
            {"a": "q", "b": ["a", 2]},
            [op("test", "/a", "q"), op("test", "/b/1", 2)],
            {"a": "q", "b": ["a", 2]},
            id="A.8",
        ),
        pytest.param({"a": 1}, [op("add", "/b", {"c": {}})], {"a": 1, "b": {"c": {}}}, id="A.10"),
        pytest.param({"a": 1}, [op("add", "/b", 1)], {"a": 1, "b": 1}, id="A.11"),
        pytest.param({"/": 9, "~1": 10}, [op("test", "/~01", 10)], {"/": 9, "~1": 10}, id="A.14"),
        pytest.param({"a": ["b"]}, [op("add", "/a/-", ["c"])], {"a": ["b", ["c"]]}, id="A.16"),
        pytest.param({"a": [1]}, [op("add", "/a/1", 2)], {"a": [1, 2]}, id="index at the end"),
        pytest.param({"a": 1}, [op("add", "/a", 2)], {"a": 2}, id="add replaces"),
        pytest.param({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}, id="the whole"),
        pytest.param({"a": 1}, [op("add", "", {"b": 2})], {"b": 2}, id="add the whole"),
        pytest.param({"": 1}, [op("replace", "/", 2)], {"": 2}, id="the empty key"),
        pytest.param({"a/b": 1}, [op("remove", "/a~1b")], {}, id="a slash in a key"),
        pytest.param({"m~n": 1}, [op("remove", "/m~0n")], {}, id="a tilde in a key"),
        pytest.param({"0": 1}, [op("replace", "/0", 2)], {"0": 2}, id="a number as key"),
        pytest.param(
            {"a": {"b": 1}},
            [op("copy", "/c", **{"from": "/a"})],
            {"a": {"b": 1}, "c": {"b": 1}},
            id="copy",
        ),
        pytest.param(
            {"a": {"b": 1}},
            [op("copy", "/c", **{"from": "/a"}), op("replace", "/c/b", 2)],
            {"a": {"b": 1}, "c": {"b": 2}},
            id="a copy is a value of its own",
        ),
        pytest.param({"a": {"b": 1}}, [op("move", "/a", **{"from": "/a/b"})], {"a": 1}, id="up"),
        pytest.param({"a": 1}, [op("move", "/a", **{"from": "/a"})], {"a": 1}, id="in place"),
        pytest.param({"a": 1}, [op("test", "/a", 1.0)], {"a": 1}, id="numbers are equal"),
        pytest.param({"a": None}, [op("test", "/a", None)], {"a": None}, id="null is null"),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            [op("test", "/a", {"c": 2, "b": 1})],
            {"a": {"b": 1, "c": 2}},
            id="order",
        ),
    ],
)
def test_an_operation_does_what_the_rfc_says(base: Any, operations: Any, result: Any) -> None:
    assert apply(base, *operations) == result


@pytest.mark.parametrize(
    ("base", "operation", "problem"),
    [
        pytest.param({"a": "b"}, op("test", "/a", "c"), "the value there is 'b'", id="A.9"),
        pytest.param({"a": 1}, op("add", "/b/c", 1), "there is no 'b'", id="A.12"),
        pytest.param(
            {"/": 9, "~1": 10}, op("test", "/~01", "10"), "the value there is 10", id="A.15"
        ),
        pytest.param({}, op("remove", "/a"), "there is no 'a'", id="remove nothing"),
        pytest.param({}, op("replace", "/a", 1), "there is no 'a'", id="replace nothing"),
        pytest.param({}, op("test", "/a", None), "there is no 'a'", id="test nothing"),
        pytest.param({"a": [1]}, op("add", "/a/2", 1), "ends before index 2", id="beyond the end"),
        pytest.param({"a": [1]}, op("replace", "/a/1", 1), "ends before index 1", id="at the end"),
        pytest.param({"a": [1]}, op("remove", "/a/-"), "'-' is no index", id="remove the end"),
        pytest.param({"a": [1, 2]}, op("replace", "/a/01", 1), "'01' is no index", id="zeros"),
        pytest.param({"a": [1]}, op("remove", "/a/-1"), "'-1' is no index", id="negative"),
        pytest.param({"a": [1]}, op("remove", "/a/\u0660"), "is no index", id="other digits"),
        pytest.param({"a": [1]}, op("remove", "/a/" + "9" * 5000), "ends before", id="huge"),
        pytest.param({"a": "x"}, op("add", "/a/b", 1), "neither a mapping nor a list", id="scalar"),
        pytest.param({"a": "x"}, op("remove", "/a/0"), "there is no '0'", id="in text"),
        pytest.param({"a": 1}, op("test", "/a", True), "the value there is 1", id="true is not 1"),
        pytest.param(
            {"a": False}, op("test", "/a", 0), "the value there is false", id="0 is not false"
        ),
        pytest.param({"a": {}}, op("remove", ""), "the whole object", id="remove the whole"),
        pytest.param({"a": 1}, op("remove", "a"), "no JSON pointer", id="no slash"),
        pytest.param({"a": 1}, op("remove", "/~2"), "'~' escapes nothing", id="bad escape"),
        pytest.param({"a": 1}, op("remove", "/a~"), "'~' escapes nothing", id="open escape"),
        pytest.param(
            {"a": {"b": 1}}, op("move", "/a/b/c", **{"from": "/a"}), "into itself", id="into itself"
        ),
        pytest.param({}, op("copy", "/b", **{"from": "/a"}), "there is no 'a'", id="copy nothing"),
    ],
)
def test_an_operation_that_fails_says_why(base: Any, operation: Any, problem: str) -> None:
    with pytest.raises(PatchError) as raised:
        apply(base, operation)
    assert problem in raised.value.problem
    assert raised.value.place.path[0] == 0


def test_the_error_points_at_the_operation_that_failed() -> None:
    with pytest.raises(PatchError) as raised:
        apply({"a": 1}, op("test", "/a", 1), op("test", "/a", 2))
    assert raised.value.place.path == (1, "value")


def test_values_keep_the_place_they_were_written_at() -> None:
    value = patched(
        {"a": [{"b": 1}], "c": 1}, op("add", "/a/0", {"n": 2}), op("move", "/d", **{"from": "/c"})
    )
    places = {("a", 0, "n"): "patch", ("a", 1, "b"): "base", ("d",): "base"}
    assert {path: value.locate(path).file for path in places} == places


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, JSON, st.text(max_size=3))
def test_added_value_passes_a_test_operation_and_can_be_removed(
    base: Any, value: Any, key: str
) -> None:
    whole = {"x": base}
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    added = apply(whole, op("add", path, value), op("test", path, value))
    assert added == {**whole, key: value}
    left = apply(added, op("remove", path))
    assert left == {k: v for k, v in whole.items() if k != key}
