"""`etcompile why` names what a run died of, or what keeps it, as a real kubelet brings it about."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from node.real_cluster import Cluster
from node.real_gang import Gang, Watcher
from specs import kubeflow_job
from waiting import eventually

pytestmark = pytest.mark.node

PYTHON = ["python3", "-u", "-c"]
STRANGE = "import os; open('/x','w').write('x'); os.chmod('/x',493); os.execv('/x',['x'])"
DIES: dict[str, tuple[list[str], str]] = {
    "exec format": ([*PYTHON, STRANGE], "ExecFormat"),
    "no module": ([*PYTHON, "import apex"], "Import"),
    "no file": ([*PYTHON, "open('/data/train.bin')"], "NoSuchFile"),
}
"""What no case of tests/failures has a node do."""


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
        pod = {"containers": [container], "terminationGracePeriodSeconds": 1}
        spec["template"] = {"spec": pod}
    return document


def why(cluster: Cluster, name: str = "train") -> dict[str, Any]:
    report: dict[str, Any] = json.loads(cluster.etcompile("why", name, "--output", "json"))
    return report


@pytest.mark.parametrize("scenario", DIES)
def test_what_a_run_died_of_is_named_when_its_pods_are_gone(
    cluster: Cluster, torch: str, watched: Watcher, scenario: str
) -> None:
    command, expected = DIES[scenario]
    cluster.apply(job(torch, command, {}))
    eventually(lambda: why(cluster)["phase"] == "Failed", 90, lambda: str(why(cluster)))
    eventually(lambda: not cluster.phases(), 60, lambda: str(cluster.phases()))
    first = why(cluster)["first"]
    assert (first["pod"], first["cause"]) == ("train-worker-1", expected)
    assert first["node"]


def test_an_eviction_is_named(cluster: Cluster, torch: str, watched: Watcher) -> None:
    cluster.apply(job(torch, ["sleep", "600"], {}))
    cluster.until(lambda phases: set(phases.values()) == {"Running"} and len(phases) == 3)
    Gang(cluster, torch, {}).evict("train-worker-1")
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
    cluster: Cluster, torch: str, watched: Watcher, priority: str
) -> None:
    """Needs a cluster with nothing else on its nodes."""
    nodes = cluster.get("nodes")["items"]
    [cpus] = {node["status"]["allocatable"]["cpu"] for node in nodes[:1]}
    half = {"resources": {"requests": {"cpu": f"{int(cpus) * 400}m"}}}
    cluster.apply(job(torch, ["sleep", "600"], half))
    cluster.until(lambda phases: set(phases.values()) == {"Running"} and len(phases) == 3)
    urgent = {"name": "urgent", "image": torch, "command": ["sleep", "60"], **half}
    spec = {"priorityClassName": priority, "containers": [urgent]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: why(cluster)["first"], 60, lambda: str(why(cluster)))
    assert why(cluster)["first"]["cause"] == "Preempted"
