"""What somebody who brings job files of the Training Operator is told, mistake by mistake."""

from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import Compilation, Options
from specs import errors, kubeflow_job, mpi_job, replicas, scale_out, warnings

GPU_SLICE = {"limits": {"nvidia.com/mig-1g.5gb": 1}}


def compilation_of(*documents: dict[str, Any], **options: Any) -> Compilation:
    return etcompile.compile(list(documents), Options(namespace="ml", **options))


def hints(*documents: dict[str, Any]) -> dict[str, str | None]:
    return {one.code: one.hint for one in compilation_of(*documents).diagnostics}


def elastic(**policy: Any) -> dict[str, Any]:
    worker = {"Worker": policy.pop("workers", 2)}
    return kubeflow_job("PyTorchJob", worker, elasticPolicy=policy)


def annotated(value: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    notes = {f"etcompile.dev/{name}": text}
    return {**value, "metadata": {**value["metadata"], "annotations": notes}}


# Names ------------------------------------------------------------------------------------------


def test_jobs_of_two_kinds_that_make_the_same_objects_are_refused():
    jobs = kubeflow_job("PyTorchJob", {"Worker": 1}), kubeflow_job("JAXJob", {"Worker": 1})
    diagnostics = compilation_of(*jobs).diagnostics
    assert [one.code for one in diagnostics] == ["ET4013"]
    assert diagnostics[0].message == (
        "JAXJob 'mnist' would create ConfigMap 'mnist-etcompile',"
        " which PyTorchJob 'mnist' of kubeflow.org/v1 creates already"
    )


def test_service_named_like_a_worker_of_another_job_is_refused():
    first = kubeflow_job("JAXJob", {"Worker": 1})
    second = {**mpi_job("v2beta1"), "metadata": {"name": "mnist-worker-0"}}
    assert errors(first, second, namespace="ml") == ["ET4013"]
    longer = {**first, "metadata": {"name": "mnist-worker"}}
    assert errors(first, longer, namespace="ml") == []


def test_who_shortens_a_name_does_it_once():
    value = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 12})
    value["metadata"] = {"name": "a" * 55}
    assert hints(value) == {"ET2021": "shorten the job's name by 2"}
    value["metadata"] = {"name": "a" * 53}
    assert errors(value, namespace="ml") == []


def test_hint_for_a_long_name_suggests_lowering_max_replicas():
    value = elastic(minReplicas=1, maxReplicas=12)
    value["metadata"] = {"name": "a" * 55}
    advice = "shorten the job's name by 2 or lower elasticPolicy.maxReplicas"
    assert hints(value) == {"ET2021": advice}


# Policies ---------------------------------------------------------------------------------------


def test_hint_for_a_suspended_job_names_the_field_to_remove():
    value = kubeflow_job("JAXJob", {"Worker": 1}, runPolicy={"suspend": True})
    assert hints(value) == {"ET2046": "remove spec.runPolicy.suspend to run it"}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("PyTorchJob", "which is not elastic: spec.elasticPolicy is not set"),
        ("TFJob", "which is not elastic: spec.enableDynamicWorker is not set"),
        ("JAXJob", "which is not elastic"),
    ],
)
def test_scaling_a_job_that_is_not_elastic_says_what_would_make_it_so(kind, problem):
    more = scale_out("more", 1, of=kind)
    diagnostics = compilation_of(kubeflow_job(kind, {"Worker": 2}), more).diagnostics
    assert [(one.code, one.message) for one in diagnostics] == [
        ("ET3006", f"ScaleOut more selects job 'mnist', {problem}")
    ]


@pytest.mark.parametrize("name", ["sidecar-env", "restart-together", "wait-for-master"])
def test_a_switch_is_on_or_off_and_nothing_else(name):
    value = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}, nprocPerNode="1")
    assert errors(annotated(value, name, "yes"), namespace="ml") == ["ET2050"]
    assert errors(annotated(value, name, "True"), namespace="ml") == ["ET2050"]
    assert warnings(annotated(value, name, "false"), namespace="ml") == []


def test_et_operators_scale_out_cannot_select_another_kind_and_says_what_can():
    hint = hints(kubeflow_job("JAXJob", {"Worker": 2}), scale_out("more", 1))["ET3001"]
    assert hint == (
        "that is a JAXJob of kubeflow.org/v1: select it as one,"
        " with a ScaleOut of etcompile.dev/v1alpha1"
    )


def test_hint_for_a_missing_field_shows_its_only_possible_value():
    assert hints(kubeflow_job("PyTorchJob", {"Master": replicas("PyTorchJob")})) == {
        "ET2002": "write replicas: 1"
    }


def test_a_generated_name_is_no_name():
    value = kubeflow_job("JAXJob", {"Worker": 1})
    value["metadata"] = {"generateName": "mnist-"}
    assert hints(value) == {
        "ET2002": "write a name: generateName makes another one whenever it is applied"
    }


# Rendezvous -------------------------------------------------------------------------------------


def test_standalone_rendezvous_with_several_workers_is_a_warning():
    value = elastic(minReplicas=1, maxReplicas=4, standalone=True)
    assert warnings(value, namespace="ml") == ["ET2069"]
    alone = elastic(minReplicas=1, maxReplicas=1, standalone=True, workers=1)
    assert warnings(alone, namespace="ml") == []


@pytest.mark.parametrize(
    ("policy", "expected"), [({}, ["ET2069"]), ({"minReplicas": 1, "maxReplicas": 3}, [])]
)
def test_a_master_is_one_of_the_nodes_that_torchrun_counts(policy, expected):
    value = kubeflow_job(
        "PyTorchJob", {"Master": 1, "Worker": 2}, elasticPolicy={"rdzvBackend": "c10d", **policy}
    )
    assert [code for code in warnings(value, namespace="ml") if code == "ET2069"] == expected


def test_an_etcd_rendezvous_needs_an_etcd():
    value = elastic(minReplicas=1, maxReplicas=4, rdzvBackend="etcd-v2")
    assert warnings(value, namespace="ml") == ["ET2069"]
    served = elastic(minReplicas=1, maxReplicas=4, rdzvBackend="etcd-v2", rdzvHost="etcd-client")
    assert warnings(served, namespace="ml") == []


def test_a_slice_of_a_gpu_is_a_gpu_for_torchrun():
    worker = replicas("PyTorchJob", 2, command=["torchrun", "train.py"], resources=GPU_SLICE)
    assert warnings(kubeflow_job("PyTorchJob", {"Worker": worker}), namespace="ml") == []


def test_an_amount_of_no_gpus_is_a_process_per_processor_for_torchrun():
    none = {"limits": {"nvidia.com/gpu": "0"}}
    worker = replicas("PyTorchJob", 2, command=["torchrun", "train.py"], resources=none)
    codes = warnings(kubeflow_job("PyTorchJob", {"Worker": worker}), namespace="ml")
    bare = replicas("PyTorchJob", 2, command=["torchrun", "train.py"])
    assert codes == warnings(kubeflow_job("PyTorchJob", {"Worker": bare}), namespace="ml") != []


# Modes and commands -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["MXTrain", "MXTune"])
@pytest.mark.parametrize(("types", "fitting"), [("Scheduler", "MXTrain"), ("Tuner", "MXTune")])
def test_job_mode_that_contradicts_the_replica_types_is_a_warning(mode, types, fitting):
    value = kubeflow_job("MXJob", {types: 1}, jobMode=mode)
    assert warnings(value, namespace="ml") == ([] if mode == fitting else ["ET2041"])


def test_containers_without_a_command_are_each_called_by_their_name():
    value = mpi_job("v2beta1")
    for role, replica in value["spec"]["mpiReplicaSpecs"].items():
        container = {"name": f"mpi-{role.lower()}", "image": "example.com/mpi:1", "args": ["sshd"]}
        replica["template"]["spec"]["containers"] = [container]
    (diagnostic,) = compilation_of(value).diagnostics
    assert "'mpi-launcher' of launcher" in diagnostic.message
    assert "'mpi-worker' of worker" in diagnostic.message


# Files ------------------------------------------------------------------------------------------


def test_a_kustomization_need_not_say_that_it_is_one(tmp_path: Path):
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\n")
    (tmp_path / "job.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    )
    compilation = etcompile.compile([tmp_path])
    assert [one.code for one in compilation.diagnostics] == ["ET1020"]
    assert [one["kind"] for one in compilation.objects] == ["ConfigMap"]


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "XGBoostJob"])
def test_exit_code_in_a_template_is_overwritten_like_any_other_policy(kind: str) -> None:
    types = {"Worker": {**replicas(kind, 1), "restartPolicy": "OnFailure"}}
    types |= {"Master": {**replicas(kind, 1)}} if kind in ("PyTorchJob", "XGBoostJob") else {}
    types["Worker"]["template"]["spec"]["restartPolicy"] = "ExitCode"
    result = etcompile.compile([kubeflow_job(kind, types)])
    assert result.ok, result.diagnostics
    assert "ET2042" in {one.code for one in result.diagnostics}


def test_variable_that_the_job_sets_to_the_same_value_is_not_reported() -> None:
    types = {"Master": replicas("PyTorchJob", 1), "Worker": replicas("PyTorchJob", 2)}
    [container] = types["Worker"]["template"]["spec"]["containers"]
    container["env"] = [
        {"name": "MASTER_PORT", "value": "23456"},
        {"name": "WORLD_SIZE", "value": "9"},
        {"name": "RANK", "value": "1"},
    ]
    messages = " ".join(
        one.message for one in etcompile.compile([kubeflow_job("PyTorchJob", types)]).diagnostics
    )
    assert "'WORLD_SIZE' is overwritten" in messages
    assert "'RANK' is overwritten" in messages
    assert "MASTER_PORT" not in messages
