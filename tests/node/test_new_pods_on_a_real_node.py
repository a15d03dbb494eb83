"""A gang whose Pods are all recreated, while one rank after the other is killed or deleted.

    ETCOMPILE_KILLS=60 ETCOMPILE_KILLS_SEED=$RANDOM pytest -m node -s \\
        tests/node/test_new_pods_on_a_real_node.py
"""

import json
import os
import random
import time
from pathlib import Path

import pytest

from node.real_cluster import Cluster
from node.real_gang import Gang, Watcher, forgetful
from waiting import eventually

pytestmark = pytest.mark.node

KILLS = int(os.environ.get("ETCOMPILE_KILLS", "12"))
SEED = int(os.environ.get("ETCOMPILE_KILLS_SEED", "17"))
DELETIONS = 0.25
"""Of all kills, so many delete a Pod, which is no failure."""
LONGEST = 300.0


def restarts(cluster: Cluster) -> int:
    data = cluster.get("configmap", "gang-etcompile-status")["data"]
    return int(json.loads(data["record"]).get("restarts", 0))


def test_gang_of_new_pods_restarts_once_for_each_kill(
    cluster: Cluster, torch: str, tmp_path: Path
) -> None:
    together = {"etcompile.dev/restart-together": "true"}
    gang = Gang(cluster, torch, together, MEETS="sockets")
    spec = gang.document["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]  # of all
    [container] = spec["containers"]
    pod = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container["env"].append({"name": "POD", **pod})
    container["volumeMounts"][1]["subPathExpr"] = "$(POD)"
    folder = {"path": f"/var/tmp/{cluster.namespace}", "type": "DirectoryOrCreate"}
    spec["volumes"][1] = {"name": "state", "hostPath": folder}
    with forgetful(2.0):
        gang.apply()
    watcher = Watcher(cluster.namespace, tmp_path / "watcher.log", 2.0)
    gang.until_step_of(0.0, LONGEST)
    gang.prepare()
    draws, took = random.Random(SEED), []
    for number in range(KILLS):
        before, name = set(gang.uids().values()), draws.choice(gang.names)
        if draws.random() < DELETIONS:
            gang.delete(name)
            began = time.time()
        else:
            at = gang.kill(name, "process")
            assert at is not None
            began = at

        def are_new(before: set[str] = before) -> bool:
            now = gang.uids()
            return len(now) == len(gang.names) and not before & set(now.values())

        eventually(are_new, LONGEST, lambda: gang.diagnosis() + watcher.log.read_text())
        step = gang.until_step_of(began, LONGEST)
        took.append(step.at - began)
        print(f"\n{number}: {name}: step {step.number} after {took[-1]:.1f} s", end="", flush=True)
        time.sleep(2.5 + draws.uniform(0, 2))
        for each in gang.names:
            assert not [line for line in gang.lines(each) if "VIOLATION" in line]
        assert {pod["status"]["phase"] for pod in gang.pods().values()} == {"Running"}
        assert restarts(cluster) == number + 1, watcher.log.read_text()
    last = gang.finish(after=40)
    cluster.until(lambda phases: all(phases[n] in ("Succeeded", "Failed") for n in gang.names), 180)
    expected = f"sum {36 * last * (last + 1) // 2} faults 0"
    assert all(gang.lines(name)[-1].endswith(expected) for name in gang.names)
    watcher.stop()
    print(f"\n{KILLS} kills; from kill to step {sorted(round(t, 1) for t in took)} s")
