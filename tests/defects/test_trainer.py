"""The numbered defects of Kubeflow Trainer v2 (reference/trainer-v2.md 11), as far as they are met.

Those of fields that are refused by name have one test, which names them.
"""

import copy
from typing import Any

import pytest

import etcompile

RUNTIME: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "own", "namespace": "ml"},
    "spec": {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {
                                        "containers": [
                                            {
                                                "name": "node",
                                                "image": "example.com/torch:1.0",
                                                "command": ["torchrun", "t.py"],
                                            }
                                        ]
                                    }
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}


def job(**spec: Any) -> dict[str, Any]:
    reference = {"kind": "TrainingRuntime", "name": "own"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t", "namespace": "ml"},
        "spec": {"runtimeRef": reference, **spec},
    }


def runtime() -> dict[str, Any]:
    return copy.deepcopy(RUNTIME)


def replicated(value: dict[str, Any]) -> dict[str, Any]:
    [found] = value["spec"]["template"]["spec"]["replicatedJobs"]
    return dict(found)


def main(value: dict[str, Any]) -> dict[str, Any]:
    [found] = replicated(value)["template"]["spec"]["template"]["spec"]["containers"]
    return found


def pods(*inputs: dict[str, Any]) -> list[Any]:
    compilation = etcompile.compile(inputs)
    assert compilation.ok, compilation.diagnostics
    return [value for value in compilation.objects if value["kind"] == "Pod"]


def variables(pod: Any) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


def errors(*inputs: dict[str, Any]) -> set[tuple[str, str]]:
    compilation = etcompile.compile(inputs)
    assert not compilation.ok
    return {(found.code, found.where or found.message) for found in compilation.diagnostics}


def test_trainer_01_a_job_without_a_trainer_block_meets_its_peers() -> None:
    first, second = pods(runtime(), job())
    for pod in (first, second):
        assert variables(pod)["PET_NNODES"] == "2"
        assert variables(pod)["PET_MASTER_ADDR"] == "t-node-0-0.t"
        assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 29500}]


def test_trainer_05_processes_are_counted_by_all_resources_of_the_node() -> None:
    given = runtime()
    main(given)["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    pod, _ = pods(given, job(trainer={"resourcesPerNode": {"requests": {"memory": "1Gi"}}}))
    assert variables(pod)["PET_NPROC_PER_NODE"] == "auto"


def test_trainer_06_ports_without_a_name_stay() -> None:
    given = runtime()
    main(given)["ports"] = [{"containerPort": 8080}, {"containerPort": 6006}]
    pod, _ = pods(given, job())
    numbers = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]]
    assert numbers == [8080, 6006, 29500]


def test_trainer_11_the_address_is_of_the_job_and_service_that_there_are() -> None:
    given = runtime()
    given["spec"]["template"]["spec"]["network"] = {"subdomain": "ring"}
    given["spec"]["template"]["spec"]["replicatedJobs"][0]["name"] = "worker"
    pod, _ = pods(given, job())
    assert variables(pod)["PET_MASTER_ADDR"] == "t-worker-0-0.ring"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("t-worker-0-0", "ring")


def test_trainer_13_a_name_is_refused_when_it_is_compiled_or_fits() -> None:
    # JobSet leaves room for a random suffix, which our Pods do not have.
    long = job()
    long["metadata"]["name"] = "a" * 54
    assert pods(runtime(), long)[0]["metadata"]["name"] == f"{'a' * 54}-node-0-0"
    long["metadata"]["name"] = "a" * 55
    assert [code for code, _ in errors(runtime(), long)] == ["ET2021"]


@pytest.mark.parametrize(("nodes", "defect"), [(0, "T16"), (-1, "T30")])
def test_trainer_16_30_a_job_has_a_node_at_least(nodes: int, defect: str) -> None:
    found = errors(runtime(), job(trainer={"numNodes": nodes}))
    assert [code for code, _ in found] == ["ET2008"], defect


def test_trainer_20_a_replicated_job_has_one_replica() -> None:
    given = runtime()
    given["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
    assert [code for code, _ in errors(given, job())] == ["ET2007"]


def test_trainer_23_a_field_of_an_older_version_is_refused() -> None:
    given = runtime()
    given["spec"]["mlPolicy"]["torch"] = {"numProcPerNode": "auto"}
    assert [code for code, _ in errors(given, job())] == ["ET2001"]


def test_trainer_28_a_boolean_is_no_value_of_a_variable() -> None:
    found = errors(runtime(), job(trainer={"env": [{"name": "A", "value": True}]}))
    assert [code for code, _ in found] == ["ET2006"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("initializer", {"dataset": {"storageUri": "hf://a/b"}}),  # T8, T9, T10
        ("runtimePatches", [{"manager": "example.com/a"}]),  # T14, T21, T22, T31
        ("podTemplateOverrides", []),
    ],
)
def test_trainer_08_14_21_22_31_what_is_not_compiled_is_refused(field: str, value: Any) -> None:
    assert errors(runtime(), job(**{field: value})) == {("ET2139", f"spec.{field}")}


@pytest.mark.parametrize("policy", ["mpi", "flux"])
def test_trainer_02_03_04_18_other_policies_are_refused(policy: str) -> None:
    given = runtime()
    given["spec"]["mlPolicy"] = {policy: {}}
    assert errors(given, job()) == {("ET2139", f"spec.mlPolicy.{policy}")}


@pytest.mark.parametrize("field", ["failurePolicy", "volumeClaimPolicies", "coordinator"])
def test_trainer_27_32_other_parts_of_a_job_set_are_refused(field: str) -> None:
    given = runtime()
    given["spec"]["template"]["spec"][field] = [] if field == "volumeClaimPolicies" else {}
    assert errors(given, job()) == {("ET2139", f"spec.template.spec.{field}")}


def test_a_job_cannot_bring_its_merged_runtime_along() -> None:
    given = {**job(), "runtime": {"spec": {}}}
    assert {code for code, _ in errors(runtime(), given)} == {"ET2139"}


def test_what_is_wrong_with_a_merged_value_is_told_where_it_was_written(tmp_path: Any) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata: {name: t, namespace: ml}\n"
        "spec:\n"
        "  runtimeRef: {name: torch-distributed}\n"
        "  trainer:\n"
        "    env:\n"
        "    - {name: A, valueFrom: {fieldRef: {fieldPath: spec.nonsense}}}\n",
    )
    compilation = etcompile.compile(str(file))
    [found] = [told for told in compilation.diagnostics if told.code == "ET4002"]
    assert found.location is not None
    assert (found.location.file, found.location.line) == (str(file), 8)


def test_a_runtime_that_no_job_names_is_told_of() -> None:
    other = runtime()
    other["metadata"]["name"] = "misnamed"
    made = etcompile.compile([job(), runtime(), other])
    [told] = [found for found in made.diagnostics if found.code == "ET2041"]
    assert "TrainingRuntime misnamed" in told.message
    assert "no TrainJob of the input names it" in told.message
    assert made.ok
