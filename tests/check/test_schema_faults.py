"""What a user reads when a TrainingJob, ScaleOut or ScaleIn is not valid, and where."""

import json
import subprocess
import sys

import pytest

from etcompile.check.document_rules import check_schema
from etcompile.load import from_values, parse

GROUP = "kai.alibabacloud.com/v1alpha1"

JOB = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata:
  name: mnist
spec:
  slotsPerWorker: 1
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers: [{name: main, image: trainer:1}]
    worker:
      replicas: 2
      template:
        spec:
          containers: [{name: main, image: trainer:1}]
"""
SCALE = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: KIND
metadata: {name: more}
spec:
  selector: {name: mnist}
  CHANGE
"""


def check(text):
    loaded = parse(text)
    assert loaded.diagnostics == ()
    (document,) = loaded.documents
    return check_schema(document, f"{document.kind}.json")


def job(old, new):
    assert old in JOB
    return check(JOB.replace(old, new))


def intent(kind, change):
    return check(SCALE.replace("KIND", kind).replace("CHANGE", change))


def only(diagnostics):
    (diagnostic,) = diagnostics
    return diagnostic


def facts(diagnostic):
    place = diagnostic.location
    return diagnostic.code, diagnostic.message, (place.line, place.column), diagnostic.hint


def test_an_unknown_field_is_shown_at_its_key_with_the_field_that_was_meant():
    assert facts(only(job("slotsPerWorker", "slotPerWorker"))) == (
        "ET2001",
        "spec has no field 'slotPerWorker'",
        (6, 3),
        "did you mean 'slotsPerWorker'?",
    )
    assert only(job("slotsPerWorker", "SlotsPerWorker")).hint == "did you mean 'slotsPerWorker'?"


def test_each_unknown_field_is_a_separate_error():
    diagnostics = job("  slotsPerWorker: 1\n", "  alpha: 1\n  beta: 2\n")
    assert [(one.code, one.location.line) for one in diagnostics] == [("ET2001", 6), ("ET2001", 7)]


def test_an_unknown_field_like_no_other_lists_the_fields_there_are():
    diagnostic = only(intent("ScaleOut", "toAdd: {count: 1, zzz: 1}"))
    assert diagnostic.hint == "its fields are: count"


def test_a_misspelt_field_that_is_required_is_one_mistake():
    assert facts(only(job("replicas: 2", "replica: 2"))) == (
        "ET2001",
        "spec.etReplicaSpecs.worker has no field 'replica'",
        (13, 7),
        "did you mean 'replicas'?",
    )
    assert only(intent("ScaleIn", "toDelete: {coun: 1}")).hint == "did you mean 'count'?"


def test_an_unknown_field_does_not_hide_that_another_one_is_missing():
    diagnostics = job("replicas: 2", "alpha: 2")
    assert sorted(one.code for one in diagnostics) == ["ET2001", "ET2002"]
    diagnostics = job("replicas: 2", "maxReplica: 2")
    assert sorted(one.message for one in diagnostics) == [
        "spec.etReplicaSpecs.worker has no field 'maxReplica'",
        "spec.etReplicaSpecs.worker needs 'replicas'",
    ]


def test_a_missing_field_is_shown_at_the_key_of_what_lacks_it():
    assert facts(only(job("      replicas: 2\n", ""))) == (
        "ET2002",
        "spec.etReplicaSpecs.worker needs 'replicas'",
        (12, 5),
        None,
    )


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("replicas: 2", 'replicas: "2"', "remove the quotes: 2"),
        ("name: mnist", "name: 7", "put it in quotes"),
        ("slotsPerWorker: 1", "cleanPodPolicy: running", "did you mean 'Running'?"),
        ("slotsPerWorker: 1", "cleanPodPolicy: 5", None),  # in quotes it would be none either
    ],
)
def test_wrong_value_comes_with_its_correction(old, new, hint):
    assert only(job(old, new)).hint == hint


def test_a_value_is_shown_where_it_stands():
    diagnostic = only(job("replicas: 2", "replicas: many"))
    place = diagnostic.location
    assert (place.line, place.column, place.width) == (13, 17, 4)


@pytest.mark.parametrize(
    "change",
    [
        "toDelete: {count: 1}",
        "toDelete: {podNames: [mnist-worker-1]}",
        "toDelete: {count: 1, podNames: []}",
        "toDelete: {count: 1, podNames: null}",
        "toDelete: {count: 2, podNames: [mnist-worker-1]}",
    ],
)
def test_a_scale_in_names_a_number_or_pods(change):
    assert intent("ScaleIn", change) == []


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("toDelete: {}", "ET2002", "spec.toDelete needs 'count' or 'podNames'"),
        ("timeout: 5", "ET2002", "spec needs 'toDelete'"),
        ("toDelete: {podNames: []}", "ET2010", "spec.toDelete.podNames must not be empty"),
        ("toDelete: {count: 0}", "ET2008", "spec.toDelete.count must be at least 1, not 0"),
        ("toDelete: {count: -1}", "ET2008", "spec.toDelete.count must be at least 1, not -1"),
        ("toDelete: {podNames: [a, b, a]}", "ET2012", "spec.toDelete.podNames: lists 'a' twice"),
        ("toDelete: {podNames: [1]}", "ET2006", "spec.toDelete.podNames[0] must be text, not 1"),
    ],
)
def test_a_scale_in_that_would_delete_something_else_is_refused(change, code, message):
    diagnostic = only(intent("ScaleIn", change))
    assert (diagnostic.code, diagnostic.message) == (code, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("toAdd: {}", "spec.toAdd needs 'count'"),
        ("toAdd: {count: 0}", "spec.toAdd.count must be at least 1, not 0"),
        ("toAdd: {count: 1}\n  timeout: 0", "spec.timeout must be at least 1, not 0"),
        ("toAdd: {count: 1}\n  env: [{value: x}]", "spec.env[0] needs 'name'"),
    ],
)
def test_a_scale_out_that_would_fail_is_refused(change, message):
    assert only(intent("ScaleOut", change)).message == message


def test_an_intent_needs_a_name_or_a_prefix_of_one():
    text = SCALE.replace("KIND", "ScaleOut").replace("CHANGE", "toAdd: {count: 1}")
    assert check(text.replace("{name: more}", "{generateName: more-}")) == []
    diagnostic = only(check(text.replace("{name: more}", "{}")))
    assert diagnostic.message == "metadata needs 'name' or 'generateName'"


def test_a_document_from_python_is_checked_without_a_position():
    (document,) = from_values([{"apiVersion": GROUP, "kind": "ScaleIn"}]).documents
    diagnostics = check_schema(document, "ScaleIn.json")
    messages = [one.message for one in diagnostics]
    assert messages == ["ScaleIn needs 'metadata'", "ScaleIn needs 'spec'"]
    assert {one.location.line for one in diagnostics} == {None}


def test_a_schema_may_stand_outside_of_the_package(tmp_path):
    path = tmp_path / "Widget.json"
    path.write_text(json.dumps({"oneOf": [{"type": "string"}, {"required": ["size"]}]}))
    (document,) = parse("apiVersion: example.com/v1\nkind: Widget\n").documents
    assert len(check_schema(document, path)) == 1
    (document,) = parse("apiVersion: example.com/v1\nkind: Widget\nsize: 1\n").documents
    assert check_schema(document, path) == []


@pytest.mark.parametrize(
    ("rules", "value", "message"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "[]", "text or a whole number"),
        ({"not": {"type": "integer"}}, "5", "v:"),
        ({"exclusiveMinimum": 5}, "5", "must be above 5, not 5"),
        ({"maxItems": 1}, "[1, 2]", "must have at most 1 items, not 2"),
        ({"minLength": 3}, "ab", "must have at least 3 characters, not 2"),
        ({"pattern": "^a+$"}, "b", "v 'b' is not of the form ^a+$"),
        (False, "1", "v:"),
        (
            {"oneOf": [{"required": ["a"]}, {"properties": {"b": {"type": "null"}}}]},
            "{b: 1}",
            "v.b must be null, not 1",
        ),
    ],
)
def test_any_keyword_of_a_schema_gives_one_error_at_its_field(rules, value, message, tmp_path):
    path = tmp_path / "Widget.json"
    path.write_text(json.dumps({"properties": {"v": rules}}))
    (document,) = parse(f"apiVersion: example.com/v1\nkind: Widget\nv: {value}\n").documents
    diagnostic = only(check_schema(document, path))
    assert message in diagnostic.message
    assert diagnostic.location.line == 3


def test_a_long_value_is_cut_in_the_message():
    diagnostic = only(job("slotsPerWorker: 1", f"cleanPodPolicy: {'x' * 5000}"))
    assert len(diagnostic.message) < 200


def test_thousands_of_bad_label_keys_need_no_memory_by_the_square_of_their_number():
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "import etcompile\n"
        "labels = {f'a b{n}': 'x' for n in range(4000)}\n"
        "worker = {'template': {'spec': {'containers': [{'name': 'main', 'image': 'x:1'}]}}}\n"
        f"job = {{'apiVersion': {GROUP!r}, 'kind': 'TrainingJob',\n"
        "       'metadata': {'name': 'mnist', 'labels': labels},\n"
        "       'spec': {'etReplicaSpecs': {'launcher': worker, 'worker': worker}}}\n"
        "codes = [found.code for found in etcompile.compile([job]).diagnostics]\n"
        "print(codes.count('ET2009'), codes[-1])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["200", "ET1024"], done.stderr[-500:]
