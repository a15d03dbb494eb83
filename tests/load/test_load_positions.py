"""Every value can tell its file, line and column."""

import pytest
from msgspec import structs

from etcompile.diagnostics import Location
from etcompile.k8s.objects import without_nulls
from etcompile.load import from_values, parse

TEXT = """\
# a comment
apiVersion: v1
kind: Probe
metadata: {name: a, labels: {x: y}}
spec:
  replicas: 12
  empty:
  worker:
    template:
      - name: "quoted"
        image: plain text
      - - deep
  script: |
    one
    two
base: &base
  image: b
  8080: port
merged:
  <<: *base
  own: 1
alias: *base
"""


@pytest.fixture(scope="module")
def document():
    (document,) = parse(f"apiVersion: v1\nkind: First\n---\n{TEXT}", file="a.yaml").documents[1:]
    return document


def pointed(location):
    """The line in TEXT, and what the caret underlines."""
    return location.line - 3, location.text[location.column - 1 :][: location.width]


@pytest.mark.parametrize(
    ("path", "line", "underlined"),
    [
        (("kind",), 3, "Probe"),
        (("metadata", "name"), 4, "a"),
        (("metadata", "labels", "x"), 4, "y"),
        (("metadata",), 4, "{"),
        (("spec", "replicas"), 6, "12"),
        (("spec", "worker", "template", 0, "name"), 10, '"quoted"'),
        (("spec", "worker", "template", 0, "image"), 11, "plain text"),
        (("spec", "worker", "template", 1, 0), 12, "deep"),
        (("spec", "script"), 13, "|"),
        # A mapping or list in block style is where its key is.
        (("spec",), 5, "spec"),
        (("spec", "worker", "template"), 9, "template"),
        (("spec", "worker", "template", 0), 10, "name"),
        # An empty value is where its key is.
        (("spec", "empty"), 7, "empty"),
        # What is absent is where its nearest parent is.
        (("spec", "worker", "replicas"), 8, "worker"),
        (("spec", "worker", "template", 5, "name"), 9, "template"),
        (("spec", "replicas", "deeper"), 6, "replicas"),
        (("metadata", "namespace"), 4, "metadata"),
        (("status", "phase"), 2, "apiVersion"),
        ((), 2, "apiVersion"),
        # Merged and aliased values are where they are written.
        (("merged", "image"), 17, "b"),
        (("merged", "8080"), 18, "port"),
        (("merged", "own"), 21, "1"),
        (("merged", "absent"), 19, "merged"),
        (("alias", "image"), 17, "b"),
        (("base", "8080"), 18, "port"),
    ],
)
def test_a_path_leads_to_the_value(document, path, line, underlined):
    assert pointed(document.locate(path)) == (line, underlined)


@pytest.mark.parametrize(
    ("path", "line", "underlined"),
    [
        (("spec", "replicas"), 6, "replicas"),
        (("metadata", "labels", "x"), 4, "x"),
        (("merged", "8080"), 18, "8080"),
        (("alias",), 22, "alias"),
        (("spec", "worker", "template", 0, "name"), 10, "name"),
        (("spec", "absent"), 5, "spec"),
    ],
)
def test_path_is_located_at_its_key_when_the_key_is_requested(document, path, line, underlined):
    assert pointed(document.locate(path, key=True)) == (line, underlined)


def test_columns_count_characters_and_lines_as_editors_do():
    head = "apiVersion: v1\r\nkind: Probe\r\n"
    (document,) = parse(f"{head}a: 'x\u2028y\u0085z'\r\n'\U0001f600é': [one, two]\r\n").documents
    place = document.locate(("\U0001f600é", 1))
    assert (place.line, place.column, place.width) == (4, 13, 3)
    assert place.text == "'\U0001f600é': [one, two]"


def test_tag_directives_and_document_ends_do_not_shift_places():
    head = "apiVersion: v1\nkind: Probe\n"
    text = (
        f"{head}...\n%TAG !e! tag:yaml.org,2002:\n---\n{head}v: !e!int '3'\n...\n---\n{head}w: 1\n"
    )
    _, second, third = parse(text).documents
    assert str(second.locate(("v",))) == "-:8:4"
    assert str(third.locate(("w",))) == "-:13:4"


@pytest.mark.parametrize("before", ["", "# a comment\n", "---\n", "\n\n"])
def test_an_indented_document_has_its_places(before):
    text = f"{before}   apiVersion: v1\n   kind: Probe\n   a: {{b: c}}\n"
    place = parse(text).documents[0].locate(("a", "b"))
    assert (place.line, place.column) == (3 + before.count("\n"), 11)


def test_a_line_too_long_to_print_is_not_shown():
    text = f"apiVersion: v1\nkind: Probe\nv: [{'1, ' * 5000} here]\n"
    place = parse(text).documents[0].locate(("v", 5000))
    assert (place.line, place.column, place.text) == (3, 15006, None)


def test_a_document_keeps_its_places_when_its_data_is_replaced(document):
    changed = structs.replace(document, data=without_nulls(document.data))
    assert "empty" not in changed.data["spec"]
    assert changed.locate(("spec", "replicas")) == document.locate(("spec", "replicas"))


def test_nulls_are_left_out_of_mappings_only_and_nothing_is_changed():
    value = {"a": None, "b": [None, {"c": None}], "d": {"e": 1}}
    assert without_nulls(value) == {"b": [None, {}], "d": {"e": 1}}
    assert value == {"a": None, "b": [None, {"c": None}], "d": {"e": 1}}
    assert without_nulls(value["d"]) is value["d"]


def test_python_values_are_documents_without_lines():
    value = {"apiVersion": "v1", "kind": "Probe", "list": (1, 2.5, None, "x")}
    (document,) = from_values([value]).documents
    assert document.data == {**value, "list": [1, 2.5, None, "x"]}
    assert document.locate(("list", 0)) == Location("<python>")
    value["kind"] = "Other"
    assert document.kind == "Probe"


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        ({"a": {"b": [object()]}}, "ET1015", "a.b[0] (object) cannot"),
        ({"a": float("nan")}, "ET1015", "a (the number nan) cannot"),
        ({"a": {1: 2}}, "ET1015", "a (its key 1) cannot"),
        ({"a": "\ud83d"}, "ET1015", "a (text with half"),
        ({"kind": "A"}, "ET1014", "no apiVersion"),
        (["a"], "ET1013", "a list"),
    ],
)
def test_a_python_value_that_is_no_object_is_refused(value, code, said):
    loaded = from_values([value, {"apiVersion": "v1", "kind": "Good"}])
    (problem,) = [one for one in loaded.diagnostics if one.code == code]
    assert said in problem.message
    assert [one.kind for one in loaded.documents] == ["Good"]


def test_a_python_value_that_holds_itself_is_refused():
    value = {"apiVersion": "v1", "kind": "Loop"}
    value["self"] = [value]
    assert [one.code for one in from_values([value]).diagnostics] == ["ET1008"]
