"""`etcompile why` names what a run died of, or what keeps it, as a real kubelet brings it about."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.real_cluster import Cluster
from node.real_gang import Gang, Watcher
from specs import kubeflow_job
from waiting import eventually

pytestmark = pytest.mark.node

PYTHON = ["python3", "-u", "-c"]
STRANGE = "import os; open('/x','w').write('x'); os.chmod('/x',493); os.execv('/x',['x'])"
FULL = "open('/cache/x','wb').write(bytes(9<<20))"
DIES: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "out of memory": (
        [*PYTHON, "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096])"],
        {"resources": {"limits": {"memory": "100Mi"}}},
        "OOMKilled",
    ),
    "exception": ([*PYTHON, "print('step 7'); raise ValueError('bad shape')"], {}, "Exception"),
    "exit code": (["sh", "-c", "exit 3"], {}, "ExitCode"),
    "exec format": (
        [*PYTHON, STRANGE],
        {},
        "ExecFormat",
    ),
    "no such command": (["sh", "-c", "trian --fast"], {}, "CommandNotFound"),
    "not executable": (["sh", "-c", "exec /etc/passwd"], {}, "NotExecutable"),
    "segmentation fault": ([*PYTHON, "import ctypes; ctypes.string_at(0)"], {}, "Segfault"),
    # As process 1 it would end by another signal: nobody aborts that one.
    "abort": (["sh", "-c", "python3 -c 'import os; os.abort()'; exit $?"], {}, "Aborted"),
    "disk full": (
        [*PYTHON, FULL],
        {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
        "DiskFull",
    ),
    "no module": ([*PYTHON, "import apex"], {}, "Import"),
    "no file": ([*PYTHON, "open('/data/train.bin')"], {}, "NoSuchFile"),
}  # fmt: skip
NEVER_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "missing image": ({"image": "lab/none:1"}, "lab/none:1"),
    "missing Secret": (
        {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "k"}}}]},
        'secret "wandb" not found',
    ),
    "bad mount": (
        {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        'configmap "nowhere" not found',
    ),
    "too large": ({"resources": {"requests": {"cpu": "100"}}}, "Insufficient cpu"),
}


def job(image: str, command: list[str], more: dict[str, Any], **policy: Any) -> dict[str, Any]:
    """A PyTorchJob of which the second worker runs something, and all others sleep."""
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    document["metadata"] = {"name": "train"}
    document["spec"]["runPolicy"] = {"cleanPodPolicy": "All", **policy}
    choice = 'if [ "$RANK" = 2 ]; then exec "$@"; else exec sleep 600; fi'
    for kind, spec in document["spec"]["pytorchReplicaSpecs"].items():
        spec["restartPolicy"] = "Never"
        container = {"name": "pytorch", "image": image, "command": ["sleep", "600"]}
        if kind == "Worker":
            container |= {"command": ["sh", "-c", choice, "x", *command], **more}
        volumes: list[dict[str, Any]] = [
            {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
        ]
        if "data" in json.dumps(more.get("volumeMounts", [])):
            volumes.append({"name": "data", "configMap": {"name": "nowhere"}})
        pod = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
        spec["template"] = {"spec": pod}
    return document


@pytest.fixture
def watched(cluster: Cluster, tmp_path: Path) -> Iterator[Watcher]:
    watcher = Watcher(cluster.namespace, tmp_path / "watcher.log")
    yield watcher
    watcher.stop()


def why(cluster: Cluster, name: str = "train") -> dict[str, Any]:
    """What the command says."""
    words = [sys.executable, "-m", "etcompile", "why", name, "-n", cluster.namespace]
    environment = {**os.environ, "KUBECONFIG": os.environ["ETCOMPILE_E2E_KUBECONFIG"]}
    done = subprocess.run(
        [*words, "--output", "json"], env=environment, capture_output=True, text=True, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("scenario", DIES)
def test_what_a_run_died_of_is_named_when_its_pods_are_gone(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher, scenario: str
) -> None:
    command, more, expected = DIES[scenario]
    cluster.apply(job(image("TORCH"), command, more))
    eventually(lambda: why(cluster)["phase"] == "Failed", 90, lambda: str(why(cluster)))
    eventually(lambda: not cluster.phases(), 60, lambda: str(cluster.phases()))
    first = why(cluster)["first"]
    assert (first["pod"], first["cause"]) == ("train-worker-1", expected)
    assert first["node"]
    if scenario == "exception":
        assert first["tail"].startswith("step 7\nTraceback")


@pytest.mark.parametrize("scenario", NEVER_RUNS)
def test_what_keeps_a_pod_from_starting_is_named(
    cluster: Cluster, image: Callable[[str], str], scenario: str
) -> None:
    more, words = NEVER_RUNS[scenario]
    cluster.apply(job(image("TORCH"), ["sleep", "600"], more))

    def is_reported() -> bool:
        held = [one for one in why(cluster)["waiting"] if "train-worker-1" in one["pods"]]
        return any(words in one["message"] for one in held)

    eventually(is_reported, 90, lambda: json.dumps(why(cluster), indent=1))


def test_a_container_that_is_ended_for_its_probe_is_named_with_what_the_probe_said(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher
) -> None:
    probe = {"exec": {"command": ["sh", "-c", "echo too busy; exit 1"]}, "periodSeconds": 1}
    probe |= {"failureThreshold": 2, "initialDelaySeconds": 3}
    cluster.apply(job(image("TORCH"), ["sleep", "600"], {"livenessProbe": probe}))
    eventually(lambda: why(cluster)["first"], 90, lambda: str(why(cluster)))
    first = why(cluster)["first"]
    assert first["cause"] == "ProbeFailed"
    assert "too busy" in first["message"]


def test_an_eviction_is_named(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher
) -> None:
    cluster.apply(job(image("TORCH"), ["sleep", "600"], {}))
    cluster.until(lambda phases: set(phases.values()) == {"Running"} and len(phases) == 3)
    Gang(cluster, image("TORCH"), {}).evict("train-worker-1")
    eventually(lambda: why(cluster)["first"], 60, lambda: str(why(cluster)))
    first = why(cluster)["first"]
    assert (first["pod"], first["cause"]) == ("train-worker-1", "Evicted")


@pytest.fixture
def priority(cluster: Cluster) -> Iterator[str]:
    """The name of a priority above that of all others."""
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "value": 1000000,
    }
    priority_class["metadata"] = {"name": cluster.namespace}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(priority_class))
    yield cluster.namespace
    cluster.kubectl("delete", "priorityclass", cluster.namespace)


def test_pod_preempted_for_another_is_named(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher, priority: str
) -> None:
    """Needs a cluster with nothing else on its nodes."""
    nodes = cluster.get("nodes")["items"]
    [cpus] = {node["status"]["allocatable"]["cpu"] for node in nodes[:1]}
    half = {"resources": {"requests": {"cpu": f"{int(cpus) * 400}m"}}}
    cluster.apply(job(image("TORCH"), ["sleep", "600"], half))
    cluster.until(lambda phases: set(phases.values()) == {"Running"} and len(phases) == 3)
    urgent = {"name": "urgent", "image": image("TORCH"), "command": ["sleep", "60"], **half}
    spec = {"priorityClassName": priority, "containers": [urgent]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: why(cluster)["first"], 60, lambda: str(why(cluster)))
    assert why(cluster)["first"]["cause"] == "Preempted"


@pytest.mark.parametrize("rank", ["gang-master-0", "gang-worker-3"])
def test_of_eight_ranks_the_one_that_was_killed_is_named(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher, rank: str
) -> None:
    """The other seven lose their connections, and end by that."""
    gang = Gang(cluster, image("TORCH"), {}, MEETS="sockets")
    for replicas in gang.document["spec"]["pytorchReplicaSpecs"].values():
        replicas["restartPolicy"] = "Never"
    gang.document["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    gang.apply()
    gang.until_step_of(0.0, 120)
    gang.prepare()
    time.sleep(2)
    assert gang.kill(rank, "process") is not None
    eventually(lambda: why(cluster, "gang")["phase"] == "Failed", 60, gang.diagnosis)
    eventually(lambda: not gang.pods(), 60, gang.diagnosis)
    report = why(cluster, "gang")
    assert (report["first"]["pod"], report["first"]["cause"]) == (rank, "Killed")
