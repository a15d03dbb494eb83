"""Run-policy fields that stand beside `runPolicy`, as older operators have them."""

from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import frontends
from etcompile.check.json_schemas import bundled_schema
from etcompile.integrations.migrate import migrated
from etcompile.load import from_values, parse
from specs import compiled, errors, kubeflow_job, patch

POLICY = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 60,
    "activeDeadlineSeconds": 3600,
    "backoffLimit": 3,
    "suspend": True,
    "schedulingPolicy": {"minAvailable": 2, "queue": "gold"},
}
TYPES = {
    "TFJob": "Worker",
    "PyTorchJob": "Worker",
    "XGBoostJob": "Master",
    "PaddleJob": "Worker",
    "JAXJob": "Worker",
    "MXJob": "Scheduler",
}
IMAGE = {"name": "mpi", "image": "example.com/mpi:1", "command": ["mpirun", "train"]}
ROLE = {"replicas": 1, "template": {"spec": {"containers": [IMAGE]}}}


def job(kind: str, **spec: Any) -> dict[str, Any]:
    if kind in TYPES:
        more = {"jobMode": "MXTrain"} if kind == "MXJob" else {}
        return kubeflow_job(kind, {TYPES[kind]: 1}, **more, **spec)
    version = "v1" if kind == "MPIJob" else "v2beta1"
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "mnist"},
        "spec": {"mpiReplicaSpecs": {"Launcher": ROLE, "Worker": ROLE}, **spec},
    }


KINDS = [*TYPES, "MPIJob", "MPIJob v2"]


def messages(*documents: dict[str, Any]) -> list[str]:
    return [one.message for one in compiled(*documents).diagnostics if one.code == "ET2110"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", POLICY)
def test_a_policy_field_under_spec_compiles_as_in_its_place(kind: str, field: str) -> None:
    misplaced = compiled(job(kind, **{field: POLICY[field]}))
    inside = compiled(job(kind, runPolicy={field: POLICY[field]}))
    assert misplaced.ok, [one.message for one in misplaced.diagnostics]
    if not (kind == "MPIJob" and field == "cleanPodPolicy"):  # which has the field in both places
        assert messages(job(kind, **{field: POLICY[field]})) != []
        assert [*misplaced.objects] == [*inside.objects]


@pytest.mark.parametrize("kind", KINDS)
def test_one_warning_names_all_of_a_jobs_fields(kind: str) -> None:
    (message,) = messages(job(kind, backoffLimit=3, activeDeadlineSeconds=60))
    assert "spec.backoffLimit and spec.activeDeadlineSeconds" in message
    assert "would drop them" in message


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_policy_counts(kind: str) -> None:
    document = job(kind, backoffLimit=3, runPolicy={"backoffLimit": 5})
    assert [*compiled(document).objects] == [
        *compiled(job(kind, runPolicy={"backoffLimit": 5})).objects
    ]
    assert len(messages(document)) == 1


def test_fields_that_a_kind_has_under_spec_are_left_there() -> None:
    assert messages(kubeflow_job("TFJob", {"Worker": 1}, successPolicy="AllWorkers")) == []
    assert messages(job("MPIJob", cleanPodPolicy="All", slotsPerWorker=2)) == []


def test_a_field_that_no_kind_knows_is_still_an_error() -> None:
    assert errors(job("PyTorchJob", cleanPodPolicies="All")) == ["ET2001"]


def test_a_wrong_value_is_shown_where_it_was_written() -> None:
    text = (
        "apiVersion: kubeflow.org/v1\n"
        "kind: PyTorchJob\n"
        "metadata: {name: a}\n"
        "spec:\n"
        "  backoffLimit: many\n"
        "  schedulingPolicy:\n"
        "    queue: 7\n"
        "  pytorchReplicaSpecs:\n"
        "    Master: {replicas: 1, template: {spec: {containers: [\n"
        "      {name: pytorch, image: 'a/b:1', command: [x]}]}}}\n"
    )
    result = etcompile.compile(parse(text, file="job.yaml").documents)
    wrong = [one for one in result.diagnostics if one.severity is etcompile.Severity.ERROR]
    places = [(one.location.line, one.location.column) for one in wrong if one.location]
    assert places == [(5, 17), (7, 12)]


def test_an_overlay_that_names_the_field_where_it_stands_still_applies() -> None:
    overlay = patch({"spec": {"backoffLimit": 9}}, kind="PyTorchJob")
    result = compiled(job("PyTorchJob", backoffLimit=3), overlays=(overlay,))
    assert result.ok
    assert [*result.objects] == [
        *compiled(job("PyTorchJob", runPolicy={"backoffLimit": 9})).objects
    ]


def test_a_hand_over_writes_the_policy_in_its_place(tmp_path: Path) -> None:
    document = job("PyTorchJob", backoffLimit=3)
    result = migrated(etcompile.load.from_values([document]).documents)
    (text,) = [text for name, text in result.files.items() if name == "mnist.yaml"]
    (tmp_path / "job.yaml").write_text(text)
    again = etcompile.compile([tmp_path / "job.yaml"])
    assert again.ok
    assert "ET2110" not in [one.code for one in again.diagnostics]
    assert "  runPolicy:\n    backoffLimit: 3\n" in text
    assert "spec.backoffLimit moves to spec.runPolicy.backoffLimit" in result.files["HANDOVER.md"]
    (diagnostic,) = [one for one in result.diagnostics if one.code == "ET2110"]
    assert "the Training Operator would drop it" in diagnostic.message


@pytest.mark.parametrize("field", POLICY)
def test_error_in_a_policy_field_under_spec_names_it_there(field: str) -> None:
    [problem] = [
        one
        for one in etcompile.compile([job("PyTorchJob", **{field: ["wrong"]})]).diagnostics
        if one.severity is etcompile.Severity.ERROR
    ]
    assert problem.message.startswith(f"spec.{field} must be")
    assert problem.where == f"spec.{field}"


def test_suspended_job_is_run_by_removing_the_field_that_was_written() -> None:
    diagnostics = etcompile.compile([job("PyTorchJob", suspend=True)]).diagnostics
    [hint] = [one.hint for one in diagnostics if one.code == "ET2046"]
    assert hint == "remove spec.suspend to run it"


@pytest.mark.parametrize(
    "kind",
    [kind for kind in frontends.kinds() if kind.api_version.startswith("kubeflow.org/")],
    ids=lambda kind: f"{kind.name}-{kind.api_version}",
)
def test_fields_that_only_the_run_policy_has_are_moved(kind: frontends.Kind) -> None:
    rules = bundled_schema(kind.schema)

    def fields(*path: str) -> set[str]:
        value: Any = rules
        for step in path:
            value = value["properties"][step]
            while reference := value.get("$ref"):
                value = rules["$defs"][reference.rpartition("/")[2]]
        return {*value["properties"]}

    spec = dict.fromkeys(fields("spec", "runPolicy"), 1)
    value = {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
    prepared = kind.prepare(from_values([value]).documents[0])
    assert prepared is not None
    moved = {*prepared.data["spec"]["runPolicy"]}
    assert moved == fields("spec", "runPolicy") - fields("spec")
