"""What a YAML text holds: documents, Lists, merges, aliases, duplicates, limits."""

import pytest

from etcompile.load import Limits, parse, yaml_events

HEAD = "apiVersion: v1\nkind: Probe\n"


def data(text, **options):
    loaded = parse(text, **options)
    assert loaded.diagnostics == ()
    return [document.data for document in loaded.documents]


def problems(text, **options):
    return [
        (one.code, one.location.line, one.location.column)
        for one in parse(text, **options).diagnostics
    ]


def test_documents_are_numbered_and_empty_ones_skipped():
    text = f"# nothing\n---\n---\n{HEAD}v: 1\n---\nnull\n--- # empty\n...\n---\n{HEAD}v: 2\n"
    loaded = parse(text, file="jobs/a.yaml")
    assert [(one.index, one.data["v"]) for one in loaded.documents] == [(0, 1), (1, 2)]
    assert {(one.file, one.relative) for one in loaded.documents} == {("jobs/a.yaml",) * 2}
    assert loaded.diagnostics == ()


def test_a_byte_order_mark_and_windows_line_breaks_are_fine():
    text = b"\xef\xbb\xbf" + f"{HEAD}a: |\n  x\n  y\nb: .nan\n".replace("\n", "\r\n").encode()
    (problem,) = parse(text).diagnostics
    assert (problem.location.line, problem.location.column) == (6, 4)
    assert problem.location.text == "b: .nan"


def test_a_merge_gives_the_keys_that_are_not_written_out():
    text = f"""{HEAD}
base: &base {{image: a, pull: Always}}
other: &other {{image: b, tty: 1}}
before: {{<<: *base, image: own}}
after: {{image: own, <<: *base}}
several: {{<<: [*other, *base]}}
inline: {{<<: {{image: c}}}}
twice: {{<<: *base, <<: *other}}
"""
    (value,) = data(text)
    assert value["before"] == {"image": "own", "pull": "Always"}
    assert value["after"] == {"image": "a", "pull": "Always"}  # as kubectl reads it
    assert value["several"] == {"image": "b", "tty": 1, "pull": "Always"}
    assert value["inline"] == {"image": "c"}
    assert value["twice"] == {"image": "b", "tty": 1, "pull": "Always"}


def test_a_quoted_merge_key_is_an_ordinary_key():
    assert data(f'{HEAD}v: {{"<<": {{a: 1}}}}\n')[0]["v"] == {"<<": {"a": 1}}


@pytest.mark.parametrize("value", ["1", "null", "[1, 2]", "[[{a: 1}]]", "*list"])
def test_a_merge_of_anything_but_mappings_is_refused(value):
    assert problems(f"{HEAD}l: &list [{{a: 1}}]\nv: {{<<: {value}}}\n") == [("ET1017", 4, 9)]


def test_a_merged_mapping_is_not_changed_by_its_users():
    (value,) = data(f"{HEAD}a: &a {{x: 1}}\nb: {{<<: *a, y: 2}}\nc: *a\n")
    assert value["c"] == {"x": 1}
    assert value["c"] is value["a"]


def test_an_anchor_may_be_set_again():
    (value,) = data(f"{HEAD}a: &x 1\nb: *x\nc: &x [&x 2, *x]\nd: *x\n")
    assert (value["b"], value["c"], value["d"]) == (1, [2, 2], 2)


def test_an_alias_can_be_a_key():
    assert data(f"{HEAD}a: &x name\nb: {{*x : 1}}\n")[0]["b"] == {"name": 1}


@pytest.mark.parametrize("value", ["*none", "&x [*x]", "&x {a: [1, *x]}", "&x {<<: *x}"])
def test_an_alias_of_nothing_or_of_itself_is_refused(value):
    loaded = parse(f"{HEAD}v: {value}\n")
    (problem,) = loaded.diagnostics
    assert (problem.code, problem.location.line) == ("ET1005", 3)
    assert "*" in problem.location.text[problem.location.column - 1 :][: problem.location.width]
    assert loaded.documents == ()


def test_every_duplicate_key_names_both_lines():
    text = f"{HEAD}a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\nyes: 1\na: 2\ntrue: 2\na: 3\n"
    loaded = parse(text)
    assert [(one.code, one.location.line, one.message) for one in loaded.diagnostics] == [
        ("ET1006", 7, "key 'c' appears twice in this mapping; first on line 5"),
        ("ET1006", 9, "key 'a' appears twice in this mapping; first on line 3"),
        ("ET1006", 10, "key 'true' appears twice in this mapping; first on line 8"),
        ("ET1006", 11, "key 'a' appears twice in this mapping; first on line 3"),
    ]
    # The document stays, so that the rest of it is checked in the same run.
    assert len(loaded.documents) == 1


def test_a_merged_key_is_not_a_duplicate():
    assert problems(f"{HEAD}a: &a {{x: 1}}\nb: {{<<: *a, x: 2}}\nc: {{x: 3, <<: *a}}\n") == []


def test_problems_of_all_documents_are_reported_in_the_order_of_the_text():
    text = f"- a list\n---\nkind: [x]\n---\n{HEAD}a: .inf\n---\n{HEAD}b: 1\nb: 2\n---\njust text\n"
    assert problems(text) == [
        ("ET1013", 1, 1),
        ("ET1014", 3, 1),
        ("ET1015", 7, 4),
        ("ET1006", 12, 1),
        ("ET1013", 14, 1),
    ]


def test_a_document_that_is_no_mapping_is_named_for_what_it_is():
    messages = [one.message for one in parse("- 1\n---\ntext\n---\n5\n---\nyes\n").diagnostics]
    assert [message.rsplit("not ")[-1] for message in messages] == [
        "a list", "text", "a number", "a boolean",
    ]  # fmt: skip


def test_a_broken_file_yields_no_document_but_all_its_other_problems():
    loaded = parse(f"{HEAD}a: 1\na: 2\n---\nkind: A\n---\n{HEAD}x: [1\n")
    assert [one.code for one in loaded.diagnostics] == ["ET1006", "ET1014", "ET1005"]
    assert loaded.documents == ()


def test_of_several_documents_that_are_not_yaml_the_first_is_reported():
    loaded = parse(f"{HEAD}a: 1\n---\nx: [1\n---\n{HEAD}b: 2\n---\ny: 'a\n")
    assert [(one.code, one.location.line) for one in loaded.diagnostics] == [("ET1005", 5)]
    assert loaded.documents == ()


def test_a_list_is_flattened_and_its_items_know_their_lines():
    text = """apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: A
  metadata: {name: one}
- apiVersion: v1
  kind: List
  items:
  - apiVersion: v1
    kind: B
    spec:
      replicas: 3
---
apiVersion: v1
kind: C
"""
    loaded = parse(text)
    assert loaded.diagnostics == ()
    assert [(one.index, one.kind) for one in loaded.documents] == [(0, "A"), (1, "B"), (2, "C")]
    assert str(loaded.documents[0].locate(("metadata", "name"))) == "-:6:20"
    assert str(loaded.documents[1].locate(("spec", "replicas"))) == "-:13:17"
    assert str(loaded.documents[1].locate(("metadata",))) == "-:10:5"


def test_the_items_of_a_typed_list_take_their_type_from_it():
    text = (
        "apiVersion: v1\nkind: PodList\nitems:\n"
        "- metadata: {name: a}\n- {kind: Pod, apiVersion: v2}\n"
    )
    first, second = data(text)
    assert (first["apiVersion"], first["kind"], second["apiVersion"]) == ("v1", "Pod", "v2")


def test_a_kind_that_ends_in_list_without_items_is_an_object():
    assert data("apiVersion: x/v1\nkind: AllowList\nspec: {}\n")[0]["kind"] == "AllowList"


@pytest.mark.parametrize(
    ("items", "place"),
    [("", (2, 7)), ("items: {}\n", (3, 8)), ("items:\n", (3, 1)), ("items: [1]\n", (3, 9))],
)
def test_a_list_without_objects_is_refused(items, place):
    (problem,) = parse(f"apiVersion: v1\nkind: List\n{items}").diagnostics
    assert problem.code == "ET1019"
    assert (problem.location.line, problem.location.column) in (place, (1, 1))


def test_a_kustomization_is_left_out_with_a_warning():
    kustomization = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    loaded = parse(f"{kustomization}---\n{HEAD}")
    assert [one.code for one in loaded.diagnostics] == ["ET1020"]
    assert [one.kind for one in loaded.documents] == ["Probe"]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n---\n", "null\n"])
def test_a_text_without_documents_is_refused(text):
    assert [one.code for one in parse(text).diagnostics] == ["ET1011"]


def test_nesting_is_accepted_up_to_the_limit_and_refused_beyond():
    def nested(levels):
        return HEAD + "v: " + "[" * levels + "]" * levels

    limits = Limits(depth=10)
    assert problems(nested(9), limits=limits) == []
    assert problems(nested(10), limits=limits) == [("ET1008", 3, 13)]


def test_aliases_do_not_get_around_the_depth_limit():
    chain = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 12))
    assert problems(f"{HEAD}a0: &a0 []\n{chain}", limits=Limits(depth=10)) == [("ET1008", 12, 10)]


def test_aliases_expand_up_to_the_limit_and_not_beyond():
    text = f"{HEAD}a: &a [1, 2, 3, 4]\nb: [*a, *a]\n"
    assert problems(text, limits=Limits(alias_values=10)) == []
    assert problems(text, limits=Limits(alias_values=9)) == [("ET1009", 4, 9)]


def test_more_documents_than_the_limit_are_refused():
    limits = Limits(documents=3)
    document = f"---\n{HEAD}"
    assert problems(document * 3, limits=limits) == []
    loaded = parse(document * 4, limits=limits)
    assert [(one.code, one.location.line) for one in loaded.diagnostics] == [("ET1010", 10)]
    assert loaded.documents == ()
    items = "apiVersion: v1\nkind: List\nitems:\n" + "- {apiVersion: v1, kind: A}\n" * 4
    assert problems(items, limits=limits) == [("ET1010", 7, 3)]


def test_names_are_none_when_absent_and_the_label_says_what_there_is():
    texts = ["", "metadata: {name: a}\n", "metadata: {name: a, namespace: b}\n",
             "metadata: {generateName: a-}\n", "metadata: []\n"]  # fmt: skip
    documents = [parse(HEAD + text).documents[0] for text in texts]
    assert [(one.name, one.namespace) for one in documents] == [
        (None, None), ("a", None), ("a", "b"), (None, None), (None, None),
    ]  # fmt: skip
    assert [one.label for one in documents] == [
        "Probe (no name)", "Probe a", "Probe b/a", "Probe a-", "Probe (no name)",
    ]  # fmt: skip
    assert (documents[0].api_version, documents[0].kind) == ("v1", "Probe")


def test_without_libyaml_the_same_values_and_places_are_read(monkeypatch):
    import yaml

    text = f"{HEAD}a: &a {{x: 0644, y: 'é'}}\nb: [*a, {{<<: *a, z: |\n  t\n}}]\n".replace(
        "|\n  t\n", "t"
    )
    fast = parse(text)
    monkeypatch.setattr(yaml_events, "_Parser", yaml.BaseLoader)
    slow = parse(text)
    assert fast.documents[0].data == slow.documents[0].data
    for path in [("a", "y"), ("b",), ("b", 1, "x"), ("b", 1, "z")]:
        assert fast.documents[0].locate(path) == slow.documents[0].locate(path)
    assert [one.code for one in parse("a:\n\tb: 1").diagnostics] == ["ET1005"]
