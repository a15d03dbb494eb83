"""TrainJobs of each policy that really compute, to the end, under the watcher."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from failures.cases import ROOT
from node.real_cluster import Cluster
from node.real_gang import Watcher
from node.test_kubeflow_on_a_real_node import ALL_REDUCE, logs
from waiting import eventually

pytestmark = pytest.mark.node

API_VERSION = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
TRUST = "printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' >> /etc/ssh/ssh_config"
SSHD = "mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -De -o StrictModes=no"


def trainjob(runtime: str, kind: str = "TrainingRuntime", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": "train"},
        "spec": {"runtimeRef": {"name": runtime, "kind": kind}, **spec},
    }


def runtime(policy: dict[str, Any], *jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": "own"},
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [*jobs], **spec}}},
    }


def job(name: str, step: str, image: str, script: str, **more: Any) -> dict[str, Any]:
    """A replicatedJob; what is not its own is its container's."""
    dependencies = {field: more.pop(field) for field in ("dependsOn",) if field in more}
    container = {"name": step or "node", "image": image, "command": ["sh", "-c", script], **more}
    if step == "trainer":
        container["name"] = "node"
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    metadata = {"labels": {STEP: step}} if step else {}
    return {
        "name": name,
        **dependencies,
        "template": {"metadata": metadata, "spec": {"template": {"spec": spec}}},
    }


def until_over(cluster: Cluster, watcher: Watcher, seconds: float = 240) -> None:
    def record() -> dict[str, Any]:
        maps = {one["metadata"]["name"]: one for one in cluster.get("configmaps")["items"]}
        data = maps.get("train-etcompile-status", {}).get("data") or {}
        record_value: dict[str, Any] = json.loads(data.get("record", "{}"))
        return record_value

    def description() -> str:
        return f"{record()}\n{cluster.kubectl('describe', 'pods')}\n{watcher.log.read_text()}"

    eventually(lambda: record().get("phase") in ("Succeeded", "Failed"), seconds, description)
    assert record()["phase"] == "Succeeded", description()


def test_torchrun_on_two_nodes_of_the_runtime_that_trainer_ships(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    train = f"cat > /tmp/t.py <<'E'\n{ALL_REDUCE}\nE\nexec torchrun /tmp/t.py"
    trainer = {"image": torch, "numNodes": 2, "numProcPerNode": 2}
    trainer["command"] = ["sh", "-c", train]
    cluster.apply(trainjob("torch-distributed", "ClusterTrainingRuntime", trainer=trainer))
    until_over(cluster, watched)
    lines = logs(cluster, "train-node-0-0", "train-node-0-1")
    wanted = {f"rank {rank} of 4: sum 6" for rank in range(4)}
    assert {line for line in lines if line.startswith("rank")} == wanted


def test_plain_nodes_know_their_index_and_find_each_other(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    meets = "until getent hosts train-node-0-$((1 - JOB_COMPLETION_INDEX)).train; do sleep 1; done"
    script = f"echo index $JOB_COMPLETION_INDEX host $(hostname); {meets}"
    cluster.apply(runtime({"numNodes": 2}, job("node", "trainer", torch, script)), trainjob("own"))
    until_over(cluster, watched)
    for index in range(2):
        line, peer = logs(cluster, f"train-node-0-{index}")[:2]
        assert line == f"index {index} host train-node-0-{index}"
        assert f"train-node-0-{1 - index}.train" in peer


def test_mpirun_starts_ranks_on_the_nodes_and_on_the_launcher(
    cluster: Cluster, mpi: str, watched: Watcher
) -> None:
    probe = {"tcpSocket": {"port": 22}, "periodSeconds": 1}
    policy = {"runLauncherAsNode": True, "sshAuthMountPath": "/root/.ssh", "numProcPerNode": 2}
    launcher = job(
        "launcher",
        "trainer",
        mpi,
        f"{TRUST} && {SSHD.replace('exec ', '').replace('-De', '-e')} && mpirun hostname",
        env=ROOT,
        dependsOn=[{"name": "node", "status": "Ready"}],
    )
    custom_runtime = runtime(
        {"mpi": policy},
        job("node", "", mpi, SSHD, readinessProbe=probe),
        launcher,
        successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
    )
    cluster.apply(custom_runtime, trainjob("own", trainer={"numNodes": 3}))
    until_over(cluster, watched)
    hosts = ["train-launcher-0-0", "train-node-0-0", "train-node-0-1"]
    lines = [line for line in logs(cluster, "train-launcher-0-0") if line in hosts]
    assert sorted(lines) == sorted([*hosts, *hosts])
    # Who only serves ends with the run.
    cluster.until(lambda phases: "Running" not in phases.values())


@pytest.fixture
def volume(cluster: Cluster) -> Iterator[None]:
    objects = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": cluster.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/tmp/{cluster.namespace}", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": cluster.namespace, "name": "initializer-train"},
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
    yield
    cluster.kubectl("delete", "persistentvolume", cluster.namespace, "--wait=false")


def test_nodes_read_what_the_initializer_has_written(
    cluster: Cluster, torch: str, watched: Watcher, volume: None
) -> None:
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    claim = {
        "metadata": {"name": "initializer"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    write = "sleep 5; echo rows of $STORAGE_URI > /workspace/data.new"
    write += " && mv /workspace/data.new /workspace/data"
    name = "dataset-initializer"
    custom_runtime = runtime(
        {"numNodes": 2},
        job(name, name, torch, write, volumeMounts=mounts),
        job(
            "node",
            "trainer",
            torch,
            "cat /workspace/data",
            volumeMounts=mounts,
            dependsOn=[{"name": name, "status": "Complete"}],
        ),
        volumeClaimPolicies=[{"templates": [claim]}],
    )
    data = {"storageUri": "hf://tatsu-lab/alpaca"}
    cluster.apply(custom_runtime, trainjob("own", initializer={"dataset": data}))
    until_over(cluster, watched)
    for index in range(2):
        assert logs(cluster, f"train-node-0-{index}") == ["rows of hf://tatsu-lab/alpaca"]


# Its ranks go on until there are three of them.
ELASTIC = """
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
size = dist.get_world_size()
for _ in range(3 if size == 3 else 600):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.2)
print(f"rank {dist.get_rank()} of {size} is done\\n", end="")
dist.destroy_process_group()
"""


def test_a_node_joins_an_elastic_run_and_the_others_stay(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    train = f"cat > /tmp/t.py <<'E'\n{ELASTIC}\nE\nexec torchrun /tmp/t.py"
    trainer = {"image": torch, "numNodes": 2, "numProcPerNode": 1}
    trainer["command"] = ["sh", "-c", train]
    two = trainjob("torch-distributed", "ClusterTrainingRuntime", trainer=trainer)
    two["metadata"]["annotations"] = {"etcompile.dev/nnodes": "2:3"}
    cluster.apply(two)
    pods = ["train-node-0-0", "train-node-0-1"]
    cluster.until(lambda phases: all(phases.get(pod) == "Running" for pod in pods))
    before = cluster.uids()
    three = json.loads(json.dumps(two))
    three["spec"]["trainer"]["numNodes"] = 3
    cluster.apply(three)
    until_over(cluster, watched)
    after = cluster.uids()
    assert {pod: after[pod] for pod in pods} == before
    lines = logs(cluster, *pods, "train-node-0-2")
    done = {line for line in lines if line.endswith("is done")}
    assert done == {f"rank {rank} of 3 is done" for rank in range(3)}
