"""Defects of the Training Operator that can be decided without a cluster.

The numbers are those of reference/training-operator.md 7; 39 to 43 are MPIJob's and are tested
with the MPI Operator's. test_every_defect.py says where the others are.
"""

import copy
import importlib
import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from etcompile import Settings
from etcompile.compiler.stored import read_stored
from etcompile.model import Job, Success
from specs import by_name, compiled, errors, kubeflow_job, manifest, replicas, scale_in, warnings

KINDS = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")


def job(kind: str, types: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A job that its operator would take: its kind's usual types unless others are given."""
    usual: dict[str, dict[str, Any]] = {"XGBoostJob": {"Master": 1, "Worker": 2}}
    return kubeflow_job(kind, types or usual.get(kind, {"Worker": 2}), **spec)


def with_worker(kind: str, **main: Any) -> dict[str, Any]:
    """The same with two workers whose container has these fields."""
    worker = {"Worker": replicas(kind, 2, **main)}
    return job(kind, {"Master": 1, **worker} if kind == "XGBoostJob" else worker)


def annotated(value: dict[str, Any], **annotations: str) -> dict[str, Any]:
    names = {f"etcompile.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return {**value, "metadata": {**value["metadata"], "annotations": names}}


def named(*values: dict[str, Any], **options: Any) -> dict[tuple[str, str], Any]:
    return by_name(compiled(*values, namespace="ml", **options))


def pod(value: dict[str, Any], name: str, **options: Any) -> Any:
    return named(value, **options)["Pod", f"mnist-{name}"]


def pods(*values: dict[str, Any], **options: Any) -> list[str]:
    return [name for kind, name in named(*values, **options) if kind == "Pod"]


def main(pod: Any) -> Any:
    return pod["spec"]["containers"][0]


def env(pod: Any) -> dict[str, Any]:
    entries = main(pod).get("env", [])
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def stored(value: dict[str, Any]) -> Job:
    text = named(value)["ConfigMap", "mnist-etcompile"]["data"]["job.yaml"]
    return read_stored(yaml.safe_load(text))[0]


def ports(value: dict[str, Any]) -> Any:
    return named(value)["Service", "mnist-worker-0"]["spec"]["ports"]


@pytest.mark.parametrize(("seconds", "limit"), [(6, 6), (0, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_training_operator_01_the_deadline_holds_without_an_event(
    kind: str, seconds: int, limit: int
) -> None:
    value = job(kind, runPolicy={"activeDeadlineSeconds": seconds})
    assert pod(value, "worker-1")["spec"]["activeDeadlineSeconds"] == limit
    assert stored(value).run.deadline == seconds


@pytest.mark.parametrize("kind", ["TFJob", "JAXJob", "PaddleJob", "MXJob"])
def test_training_operator_04_zero_replicas_and_no_deciding_role_are_refused(
    kind: str,
) -> None:
    assert errors(job(kind, {"Worker": 0})) == ["ET2068"]
    value = job("XGBoostJob", {"Master": 1, "Worker": 0})
    assert pods(value) == ["mnist-master-0"]


def test_training_operator_04_negative_replicas_are_refused() -> None:
    assert errors(job("TFJob", {"Worker": -1})) == ["ET2008"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_operator_06_every_port_has_a_name_its_protocol_and_its_order(kind: str) -> None:
    declared = [
        {"containerPort": 8080},
        {"containerPort": 4791, "protocol": "UDP"},
        {"name": "metrics", "containerPort": 9100},
    ]
    rendered = ports(with_worker(kind, ports=declared))
    assert rendered[:3] == [
        {"name": "port-8080", "port": 8080},
        {"name": "port-4791-udp", "port": 4791, "protocol": "UDP"},
        {"name": "metrics", "port": 9100},
    ]
    assert len(rendered) == 4


def test_training_operator_06_a_name_that_two_ports_have_is_refused() -> None:
    twice = [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]
    assert errors(job("JAXJob", {"Worker": replicas("JAXJob", 1, ports=twice)})) == ["ET4002"]


def test_training_operator_06_generated_port_name_differs_from_declared_names() -> None:
    declared = [{"name": "port-80", "containerPort": 81}, {"containerPort": 80}]
    rendered = ports(job("JAXJob", {"Worker": replicas("JAXJob", 1, ports=declared)}))
    assert [port["name"] for port in rendered] == ["port-80", "port-80-0", "jaxjob-port"]


def test_training_operator_06_default_port_is_not_added_if_its_number_is_declared() -> None:
    declared = [{"name": "http", "containerPort": 6666}]
    value = job("JAXJob", {"Worker": replicas("JAXJob", 1, ports=declared)})
    assert main(pod(value, "worker-0"))["ports"] == declared
    assert ports(value) == [{"name": "http", "port": 6666}]


def test_training_operator_08_a_name_too_long_for_its_services_is_refused() -> None:
    value = job("TFJob", {"Worker": 11})
    value["metadata"]["name"] = "a" * 54
    assert errors(value, namespace="ml") == ["ET2021"]
    value["metadata"]["name"] = "a" * 53
    assert not errors(value, namespace="ml")


@pytest.mark.parametrize("policy", ["none", "", "Never"])
def test_training_operator_10_an_unknown_clean_pod_policy_does_not_mean_all(policy: str) -> None:
    assert errors(job("TFJob", runPolicy={"cleanPodPolicy": policy})) == ["ET2007"]


def test_training_operator_11_service_of_the_user_is_not_overwritten() -> None:
    service = manifest("Service", "mnist-worker-0", spec={"ports": [{"port": 80}]})
    assert errors(job("JAXJob"), service) == ["ET4005"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_operator_12_one_failure_may_restart_the_whole_gang(kind: str) -> None:
    assert not stored(job(kind)).run.together
    assert stored(annotated(job(kind), restart_together="true")).run.together


def gang_of(value: dict[str, Any]) -> Any:
    return named(value, settings=Settings(gang="volcano"))["PodGroup", "mnist"]["spec"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "JAXJob"])
def test_training_operator_16_gang_resources_are_summed_in_role_order(kind: str) -> None:
    # Whatever the order of the mapping: who leads is filled up first, workers get the rest.
    first = {"TFJob": "Chief", "MXJob": "Scheduler"}.get(kind, "Master")
    ask = {
        name: replicas(kind, count, resources={"requests": {"cpu": cpu}})
        for name, count, cpu in ((first, 1, 2), ("Worker", 3, 1))
    }
    policy = {"schedulingPolicy": {"minAvailable": 2}}
    for names in (first, "Worker"), ("Worker", first):
        value = job(kind, {name: ask[name] for name in names}, runPolicy=policy)
        assert gang_of(value)["minResources"]["cpu"] == "3"


def test_training_operator_22_a_type_twice_in_different_case_is_refused() -> None:
    assert errors(job("TFJob", {"Worker": 1, "worker": 2})) == ["ET2061"]
    assert errors(job("MXJob", {"Worker": 1, "WORKER": 2})) == ["ET2061"]


@pytest.mark.parametrize(
    "spec",
    [
        {"runPolicy": {"cleanPodPolicy": "running"}},
        {"successPolicy": "allWorkers"},
        {"tfReplicaSpecs": {"Worker": {**replicas("TFJob", 1), "restartPolicy": "never"}}},
    ],
    ids=str,
)
def test_training_operator_23_a_misspelt_policy_is_refused(spec: dict[str, Any]) -> None:
    value = job("TFJob")
    value["spec"] |= spec
    assert errors(value) == ["ET2007"]


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"MXJob"}))
def test_training_operator_24_a_job_of_another_manager_is_left_to_it(kind: str) -> None:
    assert errors(job(kind, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})) == ["ET2060"]
    assert errors(job(kind, runPolicy={"managedBy": "somebody"})) == ["ET2007"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TFJob", "TF_CONFIG"),
        ("PyTorchJob", "PET_NNODES"),
        ("XGBoostJob", "RANK"),
        ("PaddleJob", "PADDLE_NNODES"),
        ("JAXJob", "PROCESS_ID"),
        ("MXJob", "DMLC_ROLE"),
    ],
)
def test_training_operator_26_a_variable_of_the_jobs_is_there_once(kind: str, name: str) -> None:
    value = with_worker(kind, env=[{"name": name, "value": "mine"}, {"name": "A", "value": "1"}])
    variables = env(pod(value, "worker-1"))  # asserts that each name is there once
    assert variables[name] != "mine"
    assert variables["A"] == "1"
    assert "ET2042" in warnings(value, namespace="ml")


def test_training_operator_28_changed_template_starts_a_new_run() -> None:
    before, after = job("JAXJob"), job("JAXJob")
    after["spec"]["jaxReplicaSpecs"]["Worker"] = replicas("JAXJob", 2, args=["--fast"])
    auto = Settings(run="auto")
    assert not {*pods(before, settings=auto)} & {*pods(after, settings=auto)}
    after = job("JAXJob", runPolicy={"backoffLimit": 3})
    assert pods(before, settings=auto) == pods(after, settings=auto)


def tf_config(value: dict[str, Any], name: str) -> Any:
    return json.loads(env(pod(value, name))["TF_CONFIG"])


def test_training_operator_30_each_index_of_a_sparse_cluster_is_in_it() -> None:
    types = {"Chief": 1, "Evaluator": 1, "PS": 2, "Worker": 2}
    value = job("TFJob", types, enableDynamicWorker=True)
    servers = [f"mnist-ps-{index}.ml.svc:2222" for index in range(2)]
    for name in ("chief-0", "evaluator-0", "ps-0", "ps-1", "worker-0", "worker-1"):
        config = tf_config(value, name)
        role, index = config["task"]["type"], config["task"]["index"]
        members = config["cluster"][role]
        here = members[str(index)] if isinstance(members, dict) else members[index]
        assert here == f"mnist-{name}.ml.svc:2222"
        assert config["cluster"]["ps"] == servers
    alone = tf_config(job("TFJob", enableDynamicWorker=True), "worker-1")
    assert alone["cluster"] == {"worker": {"1": "mnist-worker-1.ml.svc:2222"}}


def test_training_operator_31_an_unknown_type_is_refused() -> None:
    assert errors(job("TFJob", {"Worker": 1, "Trainer": 1})) == ["ET2001"]


def test_training_operator_32_job_with_only_servers_is_a_warning() -> None:
    assert warnings(job("TFJob", {"PS": 2}), namespace="ml") == ["ET2064"]


def test_training_operator_34_an_empty_rendezvous_configuration_is_refused() -> None:
    assert errors(job("PyTorchJob", elasticPolicy={"rdzvConf": []})) == ["ET2010"]


def test_training_operator_35_workers_without_a_master_meet_at_the_first() -> None:
    value = job("PyTorchJob", {"Worker": 3}, nprocPerNode="2")
    for index in range(3):
        variables = env(pod(value, f"worker-{index}"))
        assert variables["MASTER_ADDR"] == variables["PET_MASTER_ADDR"] == "mnist-worker-0"
        assert variables["MASTER_PORT"] == variables["PET_MASTER_PORT"] == "23456"
        assert variables["RANK"] == variables["PET_NODE_RANK"] == str(index)
        assert variables["WORLD_SIZE"] == "6"


@pytest.mark.parametrize("name", ["MASTER_ADDR", "RANK"])
def test_training_operator_35_workers_that_say_who_they_are_keep_it(name: str) -> None:
    worker = replicas("PyTorchJob", 2, env=[{"name": name, "value": "mine"}])
    variables = env(pod(job("PyTorchJob", {"Worker": worker}), "worker-1"))
    assert variables[name] == "mine"
    assert not {"MASTER_PORT", "PET_MASTER_ADDR", "PET_NODE_RANK"} & set(variables)


def test_training_operator_36_one_process_per_cpu_is_a_warning() -> None:
    worker = replicas("PyTorchJob", 2, command=["torchrun", "train.py"])
    types = {"Worker": worker}
    assert "ET2067" in warnings(job("PyTorchJob", types), namespace="ml")
    assert "ET2067" not in warnings(job("PyTorchJob", types, nprocPerNode="1"), namespace="ml")


def test_training_operator_37_gate_uses_the_job_image_and_can_be_disabled() -> None:
    value = job("PyTorchJob", {"Master": 1, "Worker": 1})
    spec = pod(value, "worker-0")["spec"]
    scripts = "/etc/etcompile/scripts"
    wrapped = ["sh", f"{scripts}/wait-for-workers.sh", "sh", f"{scripts}/run-once.sh"]
    assert spec["containers"][0]["command"][:4] == wrapped
    assert "initContainers" not in spec
    main = value["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    for field in ({"livenessProbe": {"exec": {"command": ["true"]}}}, {"command": None}):
        changed_container = {
            key: text for key, text in {**main, **field}.items() if text is not None
        }
        other = copy.deepcopy(value)
        worker = other["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
        worker["containers"][0] = changed_container
        [gate] = pod(other, "worker-0")["spec"]["initContainers"]
        assert gate["name"] == "init-pytorch"
        assert gate["image"] == "example.com/trainer:1"
    script = named(annotated(value, gate_timeout="5"))["ConfigMap", "mnist-etcompile"]["data"]
    assert "5" in script["wait-for-workers.sh"]
    assert script["peers"] == "mnist-master-0\n"
    value = annotated(value, wait_for_master="false")
    spec = pod(value, "worker-0")["spec"]
    assert "initContainers" not in spec
    assert spec["containers"][0]["command"][:2] == wrapped[2:]


def test_training_operator_38_what_others_meet_at_is_not_scaled_in() -> None:
    value = job("PyTorchJob", elasticPolicy={"minReplicas": 1, "maxReplicas": 3})
    assert errors(value, scale_in("less", ["mnist-worker-0"], of="PyTorchJob")) == ["ET3012"]


def test_training_operator_38_no_autoscaler_outlives_the_job() -> None:
    metrics = [{"type": "Resource"}]
    value = job(
        "PyTorchJob", elasticPolicy={"maxReplicas": 3, "minReplicas": 1, "metrics": metrics}
    )
    assert "ET2066" in warnings(value, namespace="ml")
    assert {kind for kind, _ in named(value)} == {"ConfigMap", "Service", "Pod"}


def test_training_operator_45_elastic_policy_of_a_paddlejob_is_a_warning() -> None:
    value = job("PaddleJob", elasticPolicy={"minReplicas": 1})
    assert warnings(value, namespace="ml") == ["ET2041"]


def test_training_operator_46_a_tuning_job_ends_with_its_tuner() -> None:
    value = job("MXJob", {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}, jobMode="MXTune")
    assert stored(value).run.success == Success(("tuner",))


def test_training_operator_46_the_label_of_the_tune_example_is_refused() -> None:
    server = {**replicas("MXJob", 1), "label": "2080ti"}
    assert errors(job("MXJob", {"TunerServer": server, "Tuner": 1})) == ["ET2001"]


def test_training_operator_47_scaling_in_leaves_no_gap_and_makes_nothing() -> None:
    value = job("PyTorchJob", {"Worker": 4}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})
    assert pods(value, scale_in("less", 3, of="PyTorchJob")) == ["mnist-worker-0"]


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({"ports": [{"containerPort": 70000}]}, ["ET4002"]),
        ({"image": None}, ["ET4002"]),
    ],
    ids=str,
)
def test_training_operator_49_a_child_that_the_api_would_refuse_is_refused(
    fields: dict[str, Any], codes: list[str]
) -> None:
    assert errors(job("JAXJob", {"Worker": replicas("JAXJob", 1, **fields)})) == codes


def test_training_operator_49_a_second_container_of_the_gates_name_is_refused() -> None:
    value = job("PyTorchJob", {"Master": 1, "Worker": 1})
    spec = value["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["initContainers"] = [{"name": "init-pytorch", "image": "busybox:1"}]
    assert errors(value) == ["ET2047"]


# What the texts are for ---------------------------------------------------------------------------


@pytest.mark.parametrize("types", [{"Worker": 2}, {"Chief": 1, "PS": 2, "Worker": 3}], ids=str)
def test_everybody_finds_himself_in_tf_config(types: dict[str, int]) -> None:
    value = job("TFJob", types)
    seen = []
    for name in pods(value):
        config = tf_config(value, name.removeprefix("mnist-"))
        task = config["task"]
        assert config["cluster"][task["type"]][task["index"]] == f"{name}.ml.svc:2222"
        seen.append(config["cluster"])
    assert all(cluster == seen[0] for cluster in seen)


STATIC = {"min_nodes": 3, "max_nodes": 3, "rdzv_backend": "static", "run_id": "none"}
ELASTIC = {**STATIC, "rdzv_backend": "c10d", "rdzv_endpoint": "mnist-worker-0:23456"}


@pytest.mark.parametrize(
    ("spec", "understood"),
    [
        ({}, {**STATIC, "rdzv_endpoint": "mnist-worker-0:23456"}),
        ({"nprocPerNode": "2"}, {**STATIC, "nproc_per_node": 2}),
        ({"elasticPolicy": {}}, ELASTIC),
        (
            {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 7}},
            {**ELASTIC, "min_nodes": 1, "max_nodes": 4, "max_restarts": 7},
        ),
        (
            {"elasticPolicy": {"rdzvHost": "etcd", "rdzvPort": 2379, "rdzvBackend": "etcd-v2"}},
            {**ELASTIC, "rdzv_backend": "etcd-v2", "rdzv_endpoint": "etcd:2379"},
        ),
        ({"elasticPolicy": {"rdzvId": "x"}}, {**ELASTIC, "run_id": "x"}),
        (
            {"elasticPolicy": {"rdzvConf": [{"key": "a", "value": "9"}]}},
            {**ELASTIC, "rdzv_configs": {"a": "9", "timeout": 900}},
        ),
        ({"elasticPolicy": {"nProcPerNode": 4}}, {**ELASTIC, "nproc_per_node": 4}),
    ],
    ids=str,
)
def test_torchrun_reads_what_the_pods_say(
    torchrun: Any,
    monkeypatch: pytest.MonkeyPatch,
    spec: dict[str, Any],
    understood: dict[str, Any],
) -> None:
    value = job("PyTorchJob", {"Worker": 3}, **spec)
    for name, text in env(pod(value, "worker-1")).items():
        monkeypatch.setenv(name, text)
    config, _, _ = torchrun.config_from_args(torchrun.parse_args(["train.py"]))
    read = {name: getattr(config, name) for name in understood}
    read["rdzv_configs"] = dict(config.rdzv_configs)
    if understood["rdzv_backend"] == "static":
        assert read["rdzv_configs"]["rank"] == 1
    assert {name: read[name] for name in understood} == understood


def test_training_operator_33_torchrun_reads_standalone(
    torchrun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = job("PyTorchJob", {"Worker": 1}, elasticPolicy={"standalone": True})
    for name, text in env(pod(value, "worker-0")).items():
        monkeypatch.setenv(name, text)
    assert torchrun.parse_args(["train.py"]).standalone


@pytest.fixture
def torchrun(require: Callable[..., str]) -> Any:
    """PyTorch's own launcher, which takes `PET_` variables for its flags' defaults."""
    present = importlib.util.find_spec("torch") is not None
    require("torch", present=present, why="torch is not installed; it is 200 MB and more")
    return importlib.import_module("torch.distributed.run")
