"""What is written must be read back, by every reader a manifest meets."""

import json
import shutil
import subprocess
from typing import Any

import pytest
import ruamel.yaml
import yaml
from hypothesis import given
from hypothesis import strategies as st

from etcompile.emit import to_yaml
from etcompile.load import parse

# Fragments that YAML could take for something else, so that random texts are mean ones.
_FRAGMENTS = [
    *" \t\n:-#?,[]{}&*!|>'\"%@`=~<.+_0123456789eExXobynaTZ/\\$",
    *("\n\n", "  \n", "\n ", " #", ": ", "- ", "---", "...", "<<", "null", "true", "yes", "0x1"),
    *("0o7", "1e3", "1:30", "2024-01-02", ".inf", "\r", "\r\n", "\x00", "\x7f", "\x85", "\xa0"),
    *("\u2028", "\u2029", "\ufeff", "\uffff", "\u200d", "é", "漢", "😀"),
]
_TEXTS = st.lists(st.sampled_from(_FRAGMENTS), max_size=8).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)
_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)

_AMBIGUOUS = r"""
y n Y N yes No ON off true False null Null NULL ~ = <<
0 -1 +1 0644 010 08 0x1F 0b11 0o17 1_000 1. .5 -.5 1e3 1E+3 1.5e-3 12e4567 .inf -.Inf .NaN
1:30 190:20:30 1:30.5 2024-01-02 2024-1-2 2024-01-02T03:04:05Z
- -- --- ... ? : , [ ] { } # & * ! | > ' " % @ `
"""
_AMBIGUOUS_TEXTS = _AMBIGUOUS.split()


def _as_pyyaml(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def _as_yaml_1_2(text: str) -> Any:
    reader = ruamel.yaml.YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader.load(text)


def _exactly(value: Any) -> str:
    """A text that tells 1 from 1.0 and from True."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("read", [_as_pyyaml, _as_yaml_1_2])
@given(value=_VALUES)
def test_any_value_is_read_back_by_yaml_1_1_and_1_2(read: Any, value: Any) -> None:
    assert _exactly(read(to_yaml(value))) == _exactly(value)


@given(_VALUES)
def test_any_value_is_read_back_by_etcompile(value: Any) -> None:
    loaded = parse(to_yaml({"apiVersion": "v1", "kind": "Any", "value": value}))
    assert loaded.diagnostics == ()
    assert [document.data["value"] for document in loaded.documents] == [value]


@given(_VALUES)
def test_the_text_is_canonical(value: Any) -> None:
    text = to_yaml(value)
    assert text.endswith("\n")
    assert "\r" not in text
    assert to_yaml(_as_pyyaml(text)) == text


@pytest.mark.parametrize("text", _AMBIGUOUS_TEXTS)
@pytest.mark.parametrize("read", [_as_pyyaml, _as_yaml_1_2])
def test_a_text_that_looks_like_something_else_stays_a_text(read: Any, text: str) -> None:
    assert read(to_yaml([text, {text: text}])) == [text, {text: text}]


@pytest.mark.parametrize("text", ["---", "--- a", "...", "... a", "%YAML 1.1", "# a", "- a"])
@pytest.mark.parametrize("read", [_as_pyyaml, _as_yaml_1_2])
def test_a_text_at_the_very_start_is_no_marker_of_a_document(read: Any, text: str) -> None:
    for value in (text, f"{text}\n{text}\n", {text: 1}, {"a": 1, text: text}, [text]):
        assert read(to_yaml(value)) == value


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
def test_kubectl_reads_what_was_meant() -> None:
    texts = [
        *_AMBIGUOUS_TEXTS,
        *(f"{one} {other}" for one in ":#-a" for other in ":#-a"),
        *_FRAGMENTS,
    ]
    scripts = [" \n a\n", "\ta\n", "\n\n  a\n b", "a \n\n \t\nb\n\n\n", "a\n  ", "#\n---\n"]
    numbers = [1e20, 1e-7, -1.5, 2**63 - 1]
    manifest = {
        "apiVersion": "example.com/v1",
        "kind": "Example",
        "metadata": {"name": "example"},
        "texts": texts,
        "keys": [{text: text} for text in texts],
        "scripts": [*scripts, {"deep": [[script] for script in scripts]}],
        "numbers": numbers,
    }
    run = subprocess.run(
        ["kubectl", "label", "--local", "-f", "-", "-o", "json", "read=back"],
        input=to_yaml(manifest).encode(),
        capture_output=True,
        check=True,
    )
    seen = json.loads(run.stdout)
    for field in ("texts", "keys", "scripts", "numbers"):
        assert seen[field] == manifest[field]


def test_the_style_is_that_of_kubectl() -> None:
    value = {
        "spec": {"containers": [{"name": "main", "args": ["-np", "2"], "env": []}], "a": {}},
        "metadata": {"name": "job", "annotations": None},
        "kind": "Pod",
        "apiVersion": "v1",
        "data": [["a", ["b"]], [{"k": [1.5, True, ""]}]],
    }
    assert to_yaml(value) == (
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata:\n"
        "  annotations: null\n"
        "  name: job\n"
        "data:\n"
        "- - a\n"
        "  - - b\n"
        "- - k:\n"
        "    - 1.5\n"
        "    - true\n"
        "    - ''\n"
        "spec:\n"
        "  a: {}\n"
        "  containers:\n"
        "  - args:\n"
        "    - -np\n"
        "    - '2'\n"
        "    env: []\n"
        "    name: main\n"
    )


def test_only_the_top_level_puts_metadata_before_the_alphabet() -> None:
    nested = {"template": {"metadata": {}, "data": {}, "kind": "x", "apiVersion": "v1"}}
    assert list(_as_pyyaml(to_yaml(nested))["template"]) == [
        "apiVersion",
        "data",
        "kind",
        "metadata",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mkdir -p /root/.ssh && cp a b",
        "registry.example.com/team/horovod:0.28@sha256:0f3a",
        "$(POD_NAME).job",
        "--host-discovery-script=/etc/discover.sh",
        "10Gi",
        "a 'quoted' word, and [more]",
        "naïve 漢字 😀",
        "1.2.3.4.5",
        "2024-01-02-snapshot",
    ],
)
def test_a_harmless_text_is_not_quoted(text: str) -> None:
    assert to_yaml(text) == f"{text}\n"


def test_quotes_are_single_unless_something_must_be_escaped() -> None:
    assert to_yaml("it's: so") == "'it''s: so'\n"
    assert to_yaml('a\tb"\\') == '"a\\tb\\"\\\\"\n'
    assert to_yaml("\x00\x85\u2028") == '"\\x00\\x85\\u2028"\n'


_SCRIPT = '#!/bin/sh\nset -e\n\nfor i in 1 2; do\n\techo "$i: # not a comment"  \ndone'


@pytest.mark.parametrize(
    ("script", "opening", "closing"),
    [
        (_SCRIPT, "|-\n", "done\n"),
        (_SCRIPT + "\n", "|\n", "done\n"),
        (_SCRIPT + "\n\n\n", "|+\n", "done\n\n\n"),
        ("  indented first\nthen not\n", "|2\n", "then not\n"),
        ("\tindented by a tab\n", "|2\n", "tab\n"),
        ("\n\nlate start\n", "|\n", "start\n"),
        ("trailing blanks  \n  \nend\n  ", "|-\n", "    \n"),
    ],
)
@pytest.mark.parametrize(
    "place", [lambda text: {"run": text}, lambda text: [{"a": 1, "run": text}]]
)
def test_a_script_is_a_readable_block(place: Any, script: str, opening: str, closing: str) -> None:
    value = place(script)
    text = to_yaml(value)
    assert text.partition("run: ")[2].startswith(opening)
    assert text.endswith(closing)
    for line in script.splitlines():
        assert f"  {line}\n" in text or not line
    assert _as_pyyaml(text) == value
    assert _as_yaml_1_2(text) == value


def test_lines_are_never_folded() -> None:
    line = "word " * 2000 + "end"
    assert to_yaml({"a": line}) == f"a: {line}\n"


@pytest.mark.parametrize("read", [_as_pyyaml, _as_yaml_1_2])
@pytest.mark.parametrize("value", ["text", {"a": {"b": 1}}, ["x"], [{"a": "b\nc"}], "two\nlines\n"])
def test_key_longer_than_the_yaml_lookahead_limit_is_still_a_key(read: Any, value: Any) -> None:
    nested = {"k" * 1100: value, "é\n" * 600: [{"l" * 2000: value}], "short": 1}
    assert read(to_yaml(nested)) == nested


@pytest.mark.parametrize("number", [1e20, 1e-7, 1.5e300, 5e-324, -0.0, 1.0, 0.1])
@pytest.mark.parametrize("read", [_as_pyyaml, _as_yaml_1_2])
def test_every_number_is_a_number_to_both_versions_of_yaml(read: Any, number: float) -> None:
    assert _exactly(read(to_yaml(number))) == _exactly(number)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", ["a\n\udfff"]])
def test_what_no_yaml_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON number|surrogate"):
        to_yaml(value)


@pytest.mark.parametrize("value", [b"bytes", {1: "a"}, {"a": {None: 1}}, {"a": {"b"}}, object()])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="JSON"):
        to_yaml(value)


def test_shared_values_are_written_out_and_not_aliased() -> None:
    shared = {"a": ["b"]}
    assert to_yaml([shared, shared]) == "- a:\n  - b\n- a:\n  - b\n"
