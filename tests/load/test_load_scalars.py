"""Scalars are read as kubectl reads them: the table was measured with sigs.k8s.io/yaml 1.6."""

import pytest

from etcompile.load import parse

HEAD = "apiVersion: v1\nkind: Probe\n"

_TRUE = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]
_FALSE = ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]
VALUES = [
    # null
    ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"),
    ("~x", "~x"),
    # booleans
    *((word, True) for word in _TRUE),
    *((word, False) for word in _FALSE),
    ("yEs", "yEs"), ("oN", "oN"), ("T", "T"),
    # integers
    ("0", 0), ("12", 12), ("+12", 12), ("-12", -12), ("-0", 0), ("1_000", 1000), ("1__0", 10),
    ("1_", 1), ("_1", "_1"), ("0644", 420), ("010", 8), ("-010", -8), ("0o17", 15), ("0O17", 15),
    ("0_7", 7), ("0x1F", 31), ("0X1f", 31), ("-0x10", -16), ("0b101", 5), ("-0b1", -1),
    ("0b+1", 1), ("0b12", "0b12"), ("0b", "0b"), ("0x", "0x"), ("++1", "++1"), ("1 000", "1 000"),
    ("08", 8), ("09.5", 9.5), ("0_8", 8),
    ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", 1.8446744073709552e19),
    ("-9223372036854775808", -(2**63)), ("-9223372036854775809", -9.223372036854775808e18),
    ("+9223372036854775808", 9.223372036854775808e18),
    ("0x1ffffffffffffffff", "0x1ffffffffffffffff"), ("9" * 400, "9" * 400),
    # floats; a whole one is an integer once it has been JSON
    ("1.5", 1.5), (".5", 0.5), ("+.5", 0.5), ("-.5", -0.5), ("5.", 5), ("1.0", 1), ("1e3", 1000),
    ("1.e5", 100000), ("1E+5", 100000), ("1e21", 1e21), ("1.5e", "1.5e"), (".5_0", 0.5),
    (".5_", ".5_"), ("1_0.5", 10.5), ("1e400", "1e400"), (".", "."),
    # text that other readers take for something else
    ("2001-01-01", "2001-01-01"), ("2001-12-14t21:59:43Z", "2001-12-14t21:59:43Z"),
    ("1:30", "1:30"), ("190:20:30", "190:20:30"), ("=", "="), ("<<", "<<"), ("1.2.3", "1.2.3"),
    ("\N{ARABIC-INDIC DIGIT ONE}", "\N{ARABIC-INDIC DIGIT ONE}"), ("0.20.4-tf", "0.20.4-tf"),
    # quoted
    ("'yes'", "yes"), ('"010"', "010"), ("''", ""), ("'null'", "null"), ('"1.5"', "1.5"),
    # explicit tags
    ("!!str 12", "12"), ("!!str", ""), ("!!str ~", "~"), ("!!int '12'", 12), ("!!float 3", 3),
    ("!!float 0x10", 16), ("!!bool yes", True), ("!!null ''", None), ("! 12", "12"),
    ("!!timestamp 2001-01-01", "2001-01-01"), ("!<tag:yaml.org,2002:int> 3", 3),
    ("!!map {a: 1}", {"a": 1}), ("!!seq [1]", [1]),
]  # fmt: skip

KEYS = [
    ("8080", "8080"), ("0644", "420"), ("yes", "true"), ("off", "false"), ("1.5", "1.5"),
    ("1.0", "1"), ("08", "8"), ("100000.0", "100000"), ("1e7", "1e+07"), ("0.1", "0.1"),
    ("0.00001", "1e-05"), ("'8080'", "8080"),
    ("2001-01-01", "2001-01-01"), ("!!str 1", "1"), ("'<<'", "<<"), ("''", ""),
]  # fmt: skip


@pytest.mark.parametrize(("written", "value"), VALUES)
def test_a_scalar_has_the_value_that_kubectl_gives_it(written, value):
    (document,) = parse(f"{HEAD}v: {written}\n").documents
    assert document.data["v"] == value
    assert type(document.data["v"]) is type(value)


@pytest.mark.parametrize(("written", "key"), KEYS)
def test_a_mapping_key_becomes_the_text_that_kubectl_makes_of_it(written, key):
    (document,) = parse(f"{HEAD}v: {{{written}: here}}\n").documents
    assert document.data["v"] == {key: "here"}


@pytest.mark.parametrize(
    ("written", "what"),
    [
        (".inf", "the number .inf"),
        ("-.INF", "the number -.INF"),
        (".NaN", "the number .NaN"),
        ("!!binary aGk=", "the tag !!binary"),
        ("!mine 1", "the tag !mine"),
        ("!mine {a: 1}", "the tag !mine"),
        ("!!set {a}", "the tag !!set"),
        ("!!int abc", "'abc' with the tag !!int"),
        ("!!int 1.5", "'1.5' with the tag !!int"),
        ("!!bool 1", "'1' with the tag !!bool"),
        ("!!null x", "'x' with the tag !!null"),
    ],
)
def test_a_value_without_a_json_form_is_refused_at_its_place(written, what):
    loaded = parse(f"{HEAD}v: {written}\n")
    (problem,) = loaded.diagnostics
    assert problem.code == "ET1015"
    assert problem.message == f"{what} cannot be turned into JSON"
    assert (problem.location.line, problem.location.column) == (3, 4)
    assert loaded.documents == ()


@pytest.mark.parametrize(
    "key", ["null", "~", "?\n", "? [a]\n", "? {a: b}\n", "!mine k", ".inf", "16777217.5"]
)
def test_a_key_that_is_neither_text_nor_a_short_number_is_refused(key):
    (problem,) = parse(f"{HEAD}{key}: v\n").diagnostics
    assert (problem.code, problem.location.line) == ("ET1015", 3)
