"""Upstream's own examples, unchanged: they render, and two of them as the worked examples say.

What follows a lost Pod is reference/dlrover.md 8.1 and 8.2, where both were run.
"""

import copy
import json
from typing import Any

import pytest

import etcompile
from etcompile.watch.core.run import CreatePod
from operator_recordings import recordings
from specs import by_name
from world import World

INPUTS = {recording.name: recording.documents for recording in recordings("dlrover")}
"""What was recorded is upstream's examples."""
PLANS = ("criteo-manual-scaleplan-master051", "tests-sample")
JOBS = (
    *("chaos-test", "criteo-autoscale", "criteo-manual-as-is", "iris-autoscale", "llama2"),
    *("nanogpt", "operator-sample", "tests-sample", "torch-mnist"),
)


def document(name: str) -> Any:
    return copy.deepcopy(INPUTS[name][0])


def main(pod: Any) -> Any:
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main")


def env(pod: Any) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in main(pod)["env"]}


def labels(pod: Any) -> dict[str, str]:
    prefixes = ("etcompile.dev/", "app.kubernetes.io/")
    return {k: v for k, v in pod["metadata"]["labels"].items() if not k.startswith(prefixes)}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("version", ["0.3.7", "0.5.1", "0.6.1", "0.7.0"])
def test_every_example_renders(name: str, version: str) -> None:
    options = etcompile.Options(namespace="dlrover", dlrover_version=version)
    result = etcompile.compile(document(name), options)
    assert result.ok, result.diagnostics
    assert [one for one in result.objects if one["kind"] == "Pod"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("version", "accepted"), [("0.5.1", True), ("0.6.1", False)])
def test_plans_are_for_masters_that_read_them(plan: str, version: str, accepted: bool) -> None:
    options = etcompile.Options(namespace="dlrover", dlrover_version=version)
    result = etcompile.compile(copy.deepcopy(INPUTS[plan]), options)
    assert result.ok == accepted
    kinds = [one["kind"] for one in result.objects]
    assert ("ScalePlan" in kinds) == accepted


# 8.1 --------------------------------------------------------------------------------------------

MASTER = "elasticjob-torch-mnist-dlrover-master"


def torch(mode: str = "") -> Any:
    value = document("torch-mnist")
    if mode:
        value["metadata"]["annotations"] = {"training_elastic_mode": mode}
    return value


def named(index: int) -> str:
    return f"torch-mnist-edljob-worker-{index}"


def test_torch_mnist_is_rendered_as_upstream_makes_it() -> None:
    options = etcompile.Options(dlrover_version="0.7.0")
    objects = by_name(etcompile.compile([torch("ucp")], options))
    assert {name for kind, name in objects if kind == "Pod"} == {
        f"{MASTER}-0",
        *map(named, range(4)),
    }
    pod = objects["Pod", named(1)]
    key = "elasticjob.dlrover/"
    assert labels(pod) == {
        "app": "dlrover",
        f"{key}name": "torch-mnist",
        f"{key}replica-type": "worker",
        f"{key}replica-index": "1",
        f"{key}rank-index": "1",
        f"{key}relaunch-count": "0",
    }
    assert pod["spec"]["restartPolicy"] == "Never"
    wanted = {
        "ELASTIC_JOB_NAME": "torch-mnist",
        "NODE_TYPE": "worker",
        "NODE_ID": "1",
        "NODE_NUM": "4",
        "NODE_RANK": "1",
        "WORLD_SIZE": "4",
        "RANK": "1",
        "DLROVER_MASTER_ADDR": f"{MASTER}:50001",
        "DLROVER_MASTER_SERVICE_TYPE": "grpc",
        "DLROVER_TRAINING_ELASTIC_MODE": "ucp",
        "WORKER_TYPE": "worker",
        "WORKER_ID": "1",
        "WORKER_NUM": "4",
        "WORKER_RANK": "1",
        "MONITOR_ENABLED": "true",
    }
    assert wanted.items() <= env(pod).items()
    assert "JOB_UID" not in env(pod)
    [port] = objects["Service", named(1)]["spec"]["ports"]
    assert port["port"] == 3333
    [port] = objects["Service", MASTER]["spec"]["ports"]
    assert port["port"] == 50001
    command = " ".join(main(objects["Pod", f"{MASTER}-0"])["command"])
    assert "--platform local --job_name torch-mnist --node_num 4 --port 50001" in command
    data = objects["ConfigMap", "torch-mnist-etcompile"]["data"]
    assert "RENDEZVOUS = (3, 4, 60, 1, 600)" in data["prime-rendezvous.py"]


def test_who_follows_workers_of_torch_mnist_is_who_followed_them_upstream() -> None:
    world = World(torch(), namespace="dlrover", dlrover_version="0.6.1")
    world.vanish(named(1))
    world.wait(10)
    world.fail(named(2), 1)
    world.wait(10)
    world.fail(named(3), 137, reasons=("OOMKilled",))
    world.wait(100)
    followers = [one.undeclared for one in world.of(CreatePod)]
    assert [(one.index, one.rank, one.relaunches) for one in followers if one] == [
        (4, 1, 1),
        (5, 2, 1),
    ]
    assert {named(2), named(3)} <= set(world.pods)


# 8.2 --------------------------------------------------------------------------------------------


def criteo() -> Any:
    """The example with parameter servers, without a master and what only that can do."""
    value = document("criteo-manual-as-is")
    text = json.dumps(value).replace(" --enable_auto_scaling=True", "")
    value = copy.deepcopy(json.loads(text))
    value["metadata"]["annotations"] = {"etcompile.dev/parameter-servers": "static"}
    value["spec"]["replicaSpecs"].pop("dlrover-master")
    return value


def test_static_parameter_servers_know_each_other_as_upstreams_do() -> None:
    options = etcompile.Options(namespace="dlrover", dlrover_version="0.6.1")
    objects = by_name(etcompile.compile([criteo()], options))
    stem = "deepctr-manual-scale-edljob"
    types = {"ps-0": ("3Gi", 2222), "chief-0": ("4Gi", 3333), "worker-0": ("4Gi", 3333)}
    assert {name for kind, name in objects if kind == "Pod"} == {f"{stem}-{one}" for one in types}
    for one, (memory, number) in types.items():
        pod = objects["Pod", f"{stem}-{one}"]
        size = {"cpu": "2", "memory": memory}
        assert main(pod)["resources"] == {"requests": size, "limits": size}
        [port] = objects["Service", f"{stem}-{one}"]["spec"]["ports"]
        assert port["port"] == number
    variables = env(objects["Pod", f"{stem}-worker-0"])
    assert variables["NODE_NUM"] == "2"
    assert not {"RANK", "WORLD_SIZE"} & set(variables)
    assert json.loads(variables["TF_CONFIG"]) == {
        "cluster": {
            "ps": [f"{stem}-ps-0.dlrover.svc:2222"],
            "worker": [f"{stem}-worker-0.dlrover.svc:3333"],
            "chief": [f"{stem}-chief-0.dlrover.svc:3333"],
        },
        "task": {"type": "worker", "index": 0},
    }


def test_who_follows_static_parameter_servers_is_who_followed_them_upstream() -> None:
    world = World(criteo(), namespace="dlrover", dlrover_version="0.6.1")
    stem = "deepctr-manual-scale-edljob"
    world.vanish(f"{stem}-ps-0")
    world.wait(10)
    world.fail(f"{stem}-worker-0", 137, reasons=("OOMKilled",))
    world.wait(10)
    followers = [(one.name, one.undeclared) for one in world.of(CreatePod)]
    assert [name for name, _ in followers] == [f"{stem}-ps-1", f"{stem}-worker-1"]
    assert [one.rank for _, one in followers if one] == [0, 0]
    assert followers[1][1] is not None
    assert followers[1][1].resources == {"memory": "8192Mi"}
    assert world.record.phase == "Running"
    world.fail(f"{stem}-worker-1", 1)
    world.settle()
    assert world.record.phase == "Failed", "its template does not say Always"


def test_a_master_keeps_what_the_example_asks_for() -> None:
    options = etcompile.Options(dlrover_version="0.5.1")
    value = document("criteo-manual-as-is")
    objects = by_name(etcompile.compile([value], options))
    name = "deepctr-manual-scale"
    spec = objects["ElasticJob", name]["spec"]
    assert {one: role["replicas"] for one, role in spec["replicaSpecs"].items()} == {
        "ps": 1,
        "worker": 2,
    }
    assert "dlrover-master" not in spec["replicaSpecs"]
    assert ("Service", f"elasticjob-{name}-dlrover-master") in objects
