"""Commands that run again in their containers, in images and Pods that allow little.

ETCOMPILE_E2E_DISTROLESS_IMAGE names an image with python3 and without a shell, and
ETCOMPILE_E2E_NOPYTHON_IMAGE one with a shell and without Python.
"""

from collections.abc import Callable

import pytest

from node.real_cluster import Cluster
from node.real_gang import Gang, Watcher
from waiting import eventually

pytestmark = pytest.mark.node

# The gate that waits for the master is a shell script.
IN_PLACE = {"etcompile.dev/restart": "in-place", "etcompile.dev/wait-for-master": "false"}
RESTRICTED = {
    "runAsUser": 12345,
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
LONGEST = 120.0
KILL = """
import os, signal

for process in filter(str.isdecimal, os.listdir("/proc")):
    with open(f"/proc/{process}/cmdline") as file:
        if file.read().split("\\0")[:2] == ["python3", "/code/rank.py"]:
            os.kill(int(process), signal.SIGKILL)
"""


@pytest.mark.parametrize("what", ["TORCH", "DISTROLESS"], ids=["shell", "no-shell"])
def test_ranks_run_again_where_little_is_allowed(
    cluster: Cluster, image: Callable[[str], str], what: str
) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    gang = Gang(cluster, image(what), IN_PLACE, size=3, MEETS="sockets")
    cluster.kubectl("label", "namespace", cluster.namespace, level)
    for replicas in gang.document["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"]["spec"]["containers"][0]["securityContext"] = RESTRICTED
    gang.apply()
    began = gang.until_step_of(0.0, LONGEST).since
    uids = gang.uids()
    cluster.kubectl("exec", "gang-worker-0", "-c", "pytorch", "--", "python3", "-c", KILL)
    step = gang.until_step_of(began + 0.001, LONGEST)
    eventually(lambda: step_of_all(gang) == {1}, LONGEST, gang.diagnosis)
    assert step.since > began
    assert gang.uids() == uids
    restarts = cluster.get("pods")["items"]
    assert {pod["status"]["containerStatuses"][0]["restartCount"] for pod in restarts} == {0}


def step_of_all(gang: Gang) -> set[int]:
    steps = map(gang.last_step, gang.names)
    return {-1 if step is None else step.epoch for step in steps}


def test_command_without_python_runs_unsupervised_and_is_reported(
    cluster: Cluster, image: Callable[[str], str], watched: Watcher
) -> None:
    gang = Gang(cluster, image("NOPYTHON"), IN_PLACE, size=2)
    for replicas in gang.document["spec"]["pytorchReplicaSpecs"].values():
        [container] = replicas["template"]["spec"]["containers"]
        container |= {"command": ["sh", "-c", "echo trains; sleep 600"]}
    gang.apply()
    cluster.until(lambda phases: set(phases.values()) == {"Running"})
    eventually(lambda: len(gang.lines(gang.names[0])) == 2, LONGEST, gang.diagnosis)
    first, then = gang.lines(gang.names[0])
    assert first.startswith("etcompile: unsupervised: this image has no Python")
    assert then == "trains"
    said = "gang-master-0: Running, NotReady: unsupervised: this"
    eventually(lambda: said in cluster.etcompile("why", "gang"), LONGEST, watched.log.read_text)
