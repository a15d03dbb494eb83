"""Any bytes give documents or diagnostics, never an exception, and every value has a place."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from etcompile.diagnostics import has_errors
from etcompile.load import parse

HEAD = {"apiVersion": "v1", "kind": "Probe"}
PIECES = st.sampled_from(
    ["a", "b: ", "- ", "\n", "\n  ", "  ", "\t", ": ", "{", "}", "[", "]", ", ", "'", '"', "|", ">",
     "&x ", "*x", "!!int ", "!", "<<: ", "? ", "---\n", "...\n", "%TAG ! x\n", "#", "0x1", "1.5",
     "yes", "~", "\\u", "\\ud83d", "\r\n", "\u2028", "é", "\x00", "apiVersion: v1\n",
     "kind: List\n", "items:\n", '"kind": "A"', '"apiVersion": "v1",', ".inf", "1e400"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
# In JSON other keys are written as two halves, and are not looked for.
KEYS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20
)


def paths(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for step, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(one, (*path, step))


def assert_sound(loaded):
    """There is something to compile or to correct, and all of it has a place in the text."""
    assert loaded.documents or has_errors(loaded.diagnostics)
    for document in loaded.documents:
        json.dumps(document.data, allow_nan=False).encode()
        for path in paths(document.data):
            for key in (False, True):
                place = document.locate(path, key=key)
                assert place.line >= 1
                assert place.column >= 1
                assert place.width >= 1


@given(st.binary(max_size=200))
@example(b"a: !%ED%A0%80 x")
@example(b"\xff\xfe\x00a")
@example(b"? ? ? [")
def test_any_bytes_give_documents_or_diagnostics(content):
    assert_sound(parse(content))


@given(st.lists(PIECES, max_size=30).map("".join))
@example("\n  ...\n")
@example("{apiVersion: v1, kind: A, &a b: *a, *a : c}")
@example("apiVersion: v1\nkind: A\n<<: {<<: [{a: }]}\n")
def test_anything_that_resembles_yaml_gives_documents_or_diagnostics(text):
    assert_sound(parse(text))
    assert_sound(parse("apiVersion: v1\nkind: A\n" + text))


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.sampled_from([None, 2, "\t"]))
@example({"<<": {"~": 1, "x" * 2000: ["\\ud83d", "/", 1e-7, -0.0]}}, None)
def test_what_json_writes_is_read_back_equal(value, indent):
    value = {**value, **HEAD}
    text = json.dumps(value, indent=indent)
    loaded = parse(text)
    assert loaded.diagnostics == ()
    (document,) = loaded.documents
    assert document.data == value
    assert_sound(loaded)
    for path in paths(value):
        current = value
        for step in path:
            current = current[step]
        place = document.locate(path)
        if not isinstance(current, dict | list) and place.text is not None:
            written = place.text[place.column - 1 :][: place.width]
            assert json.loads(written) == current
