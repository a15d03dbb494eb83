"""A preflight as a real kubelet runs it, and a kubelet that does not answer.

There is one node, so a Pod that avoids it stays Pending, and the scheduler says why. To stop its
kubelet the tests must be told its process: `ETCOMPILE_E2E_KUBELET_PID`.
"""

import os
import signal
from typing import Any

import pytest

from node.real_cluster import Cluster
from node.real_gang import Watcher
from node.test_first_causes_on_a_real_node import why
from specs import kubeflow_job
from waiting import eventually

pytestmark = pytest.mark.node

CHECKS = "check gpus && check shm 64Mi && check volume /cache && check names"


def job(image: str, restart: str = "OnFailure", **annotations: str) -> dict[str, Any]:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1})
    fields = {f"etcompile.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    document["metadata"] = {"name": "train", "annotations": fields}
    container = {"name": "pytorch", "image": image, "command": ["sleep", "600"]}
    container |= {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}  # type: ignore[dict-item]
    pod = {
        "containers": [container],
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 1,
    }
    for spec in document["spec"]["pytorchReplicaSpecs"].values():
        spec["restartPolicy"] = restart
        spec["template"] = {"spec": pod}
    return document


def running(cluster: Cluster) -> bool:
    phases = cluster.phases()
    return len(phases) == 2 and set(phases.values()) == {"Running"}


def test_the_shipped_checks_pass_where_all_is_well(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    cluster.apply(job(torch, preflight=CHECKS))
    eventually(lambda: running(cluster), 90, lambda: str(why(cluster)))
    assert why(cluster)["preflightWarnings"] == []


def test_check_that_warns_lets_the_pod_run_and_is_reported(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    cluster.apply(job(torch, preflight='[ "$RANK" = 0 ] || exit 10'))
    eventually(lambda: running(cluster), 90, lambda: str(why(cluster)))
    assert why(cluster)["preflightWarnings"] == ["train-worker-0"]


@pytest.mark.parametrize("restart", ["OnFailure", "Never"])
def test_a_check_that_sends_a_pod_away_has_it_avoid_the_node(
    cluster: Cluster, torch: str, watched: Watcher, restart: str
) -> None:
    check = 'echo "two of eight links are down"; [ "$RANK" = 0 ] || exit 20'
    cluster.apply(job(torch, restart, preflight=check))

    def is_reported() -> bool:
        held = [one for one in why(cluster)["waiting"] if one["reason"] == "Unschedulable"]
        return any("train-worker-0" in one["pods"] for one in held)

    eventually(is_reported, 90, lambda: str(why(cluster)))
    report = why(cluster)
    assert report["avoidedNodes"] == ["lab-node"] == [*report["nodes"]]
    assert (report["first"]["pod"], report["first"]["cause"]) == ("train-worker-0", "PreflightNode")
    assert "two of eight links are down" in report["first"]["tail"]
    assert report["phase"] in ("Pending", "Running")


def test_a_check_that_fails_fails_the_pod(cluster: Cluster, torch: str, watched: Watcher) -> None:
    cluster.apply(job(torch, "Never", preflight="check shm 1024Gi"))
    eventually(lambda: why(cluster)["phase"] == "Failed", 90, lambda: str(why(cluster)))
    first = why(cluster)["first"]
    assert first["cause"] == "Preflight"
    assert "MiB, not 1024Gi" in first["tail"]


def test_the_pods_of_a_kubelet_that_does_not_answer_are_released(
    cluster: Cluster, torch: str, watched: Watcher
) -> None:
    kubelet = int(os.environ.get("ETCOMPILE_E2E_KUBELET_PID") or 0)
    if not kubelet:
        pytest.skip("ETCOMPILE_E2E_KUBELET_PID names no process")
    cluster.apply(job(torch, lost_node_after="30"))
    eventually(lambda: running(cluster), 90, lambda: str(why(cluster)))
    before = cluster.uids()
    os.kill(kubelet, signal.SIGSTOP)
    try:
        # The node controller waits for 50 s before it says so.
        eventually(
            lambda: any(one["reason"] == "NodeLost" for one in why(cluster)["waiting"]),
            90,
            lambda: str(why(cluster)),
        )
        eventually(
            lambda: (
                set(cluster.uids()) == set(before)
                and not set(cluster.uids().values()) & set(before.values())
            ),
            60,
            lambda: str(cluster.uids()),
        )
    finally:
        os.kill(kubelet, signal.SIGCONT)
    eventually(lambda: running(cluster), 120, lambda: str(why(cluster)))
    assert why(cluster)["first"]["cause"] == "NodeLost"
