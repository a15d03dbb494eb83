"""The init container that asks whether a Pod may train on its node."""

from typing import Any

import pytest

from specs import compiled, elastic_job, errors, kubeflow_job, patch, training_job, warnings
from world import mpi_job

PREFLIGHT = "etcompile.dev/preflight"
CHECK = "check gpus && check shm 8Gi && 'quoted' \"twice\" $HOME\nlast line"


def job(check: str | None = CHECK, **main: Any) -> dict[str, Any]:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    if check is not None:
        document["metadata"]["annotations"] = {PREFLIGHT: check}
    for replica in document["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0].update(main)
        replica["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    return document


def pods(*documents: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return [one for one in compiled(*documents, **options).objects if one["kind"] == "Pod"]


def preflight(pod: dict[str, Any]) -> dict[str, Any]:
    [container] = [one for one in pod["spec"]["initContainers"] if one["name"] == "preflight"]
    return container


def test_it_has_what_the_main_container_has() -> None:
    same: dict[str, Any] = {
        "image": "train:1",
        "imagePullPolicy": "Always",
        "workingDir": "/work",
        "env": [{"name": "A", "value": "b"}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "4"}},
        "securityContext": {"runAsUser": 1000},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    ports = {"ports": [{"containerPort": 9}], "command": ["python", "train.py"]}
    for pod in pods(job(**same, **ports)):
        container, main = preflight(pod), pod["spec"]["containers"][0]
        for field in same.keys() - {"volumeMounts"}:
            assert container[field] == main[field], field
        assert container["command"] == ["sh", "/etc/etcompile/scripts/preflight.sh", "8"]
        assert "ports" not in container
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        ours = {name for name in mounts if name.startswith("etcompile-")}
        assert ours == {"etcompile-scripts"}
        for mount in main.get("volumeMounts", ()):
            assert mount["name"].startswith("etcompile-") or mounts[mount["name"]] == mount
        assert mounts["etcompile-scripts"]["mountPath"] == "/etc/etcompile/scripts"


def test_the_check_arrives_letter_by_letter() -> None:
    [config] = [
        one for one in compiled(job()).objects if one["metadata"]["name"] == "mnist-etcompile"
    ]
    assert config["data"]["preflight-check"] == CHECK + "\n"
    assert "preflight.sh" in config["data"]
    [volume] = [v for v in pods(job())[0]["spec"]["volumes"] if v["name"] == "etcompile-scripts"]
    keys = {item["key"] for item in volume["projected"]["sources"][0]["configMap"]["items"]}
    assert {"preflight.sh", "preflight-check"} <= keys


def test_preflight_runs_after_sidecars_and_before_gates_and_setup() -> None:
    document = job()
    proxy = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    fetch = {"name": "fetch", "image": "fetch:1"}
    spec = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["initContainers"] = [proxy, fetch]
    names = [one["name"] for one in pods(document)[1]["spec"]["initContainers"]]
    assert names[:3] == ["proxy", "preflight", "fetch"]


def test_what_overlays_change_of_the_main_container_counts_for_it() -> None:
    container = {"name": "pytorch", "image": "other:2"}
    container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    change = {"spec": {"containers": [container], "volumes": volumes}}
    for pod in pods(job(), overlays=(patch(change, kind="Pod"),)):
        assert preflight(pod)["image"] == "other:2"
        assert {"name": "shm", "mountPath": "/dev/shm"} in preflight(pod)["volumeMounts"]


@pytest.mark.parametrize(
    "document",
    [training_job(), kubeflow_job("TFJob", {"Worker": 2}), mpi_job()],
    ids=["TrainingJob", "TFJob", "MPIJob"],
)
def test_all_roles_ask(document: dict[str, Any]) -> None:
    document["metadata"]["annotations"] = {PREFLIGHT: "true"}
    for pod in pods(document):
        assert preflight(pod)["name"] == "preflight"


def test_the_launcher_of_an_mpi_job_asks_in_its_job() -> None:
    document = mpi_job(version="v2beta1")
    document["metadata"]["annotations"] = {PREFLIGHT: "true"}
    [launcher] = [one for one in compiled(document).objects if one["kind"] == "Job"]
    assert preflight(launcher["spec"]["template"])


def test_that_they_ask_is_another_run_and_what_they_ask_is_not() -> None:
    def run(command: str | None) -> str:
        text: str = pods(job(command))[0]["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        return text

    assert run(None) != run("check gpus") == run("check names")
    one, other = pods(job("check gpus")), pods(job("check names"))
    assert one == other


@pytest.mark.parametrize("command", ["", "  \n", "x" * 4097])
def test_what_is_no_command_is_an_error(command: str) -> None:
    assert errors(job(command)) == ["ET2050"]


def test_dlrovers_master_does_not_ask() -> None:
    rendered = pods(elastic_job(annotations={PREFLIGHT: "true"}))
    asking = {pod["metadata"]["name"] for pod in rendered if "initContainers" in pod["spec"]}
    assert (
        asking
        == {"mnist-edljob-worker-0", "mnist-edljob-worker-1"}
        < {pod["metadata"]["name"] for pod in rendered}
    )


def test_where_dlrovers_master_makes_the_pods_it_has_no_effect() -> None:
    annotations = {"etcompile.dev/parameter-servers": "master", PREFLIGHT: "true"}
    document = elastic_job(
        {"ps": 1, "worker": 1},
        annotations=annotations,
        distributionStrategy="ParameterServerStrategy",
    )
    assert "ET2041" in warnings(document)
    assert not any("initContainers" in pod["spec"] for pod in pods(document))
