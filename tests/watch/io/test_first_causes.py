"""What a gang died of first is told when all its Pods are gone, on a real API server.

The statuses are those that kubelets, schedulers and controllers write (their texts are Kubernetes
1.34's). The rank that fails first is always told of last, when the others have lost it already.
"""

import time
from typing import Any

import pytest
from watched import Place, eventually

from etcompile.status import seen
from etcompile.status.explanation_text import explanation_text
from etcompile.status.explanations import Explanation, explanations
from etcompile.status.text import clock
from specs import kubeflow_job

FIRST = "mnist-worker-2"
NAMES = ["mnist-master-0", *(f"mnist-worker-{index}" for index in range(4))]
TRACE = 'Traceback (most recent call last):\n  File "/train.py", line 8, in <module>\n'
LOST = (
    f"{TRACE}torch.distributed.DistBackendError: NCCL error\nncclRemoteError: A call failed",
    f"{TRACE}RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer",
    f"{TRACE}ConnectionResetError: [Errno 104] Connection reset by peer",
    "[E1123 ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout",
)


def stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def ended(code: int, reason: str = "Error", message: str = "", signal: int = 0) -> dict[str, Any]:
    """How a container ends."""
    how = {"exitCode": code, "reason": reason, "message": message}
    return {**how, "signal": signal} if signal else how


def pod_status(how: dict[str, Any], at: float) -> dict[str, Any]:
    """The status of a Pod whose main container ended so."""
    status = {"name": "pytorch", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    how = {**how, "startedAt": stamp(at - 60), "finishedAt": stamp(at), "containerID": "c://1"}
    return {"phase": "Failed", "containerStatuses": [{**status, "state": {"terminated": how}}]}


def disrupted(reason: str, message: str, at: float) -> dict[str, Any]:
    """The status of a Pod that is ended by somebody, and of what its container makes of that."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    found = pod_status(ended(143), at + 1)
    return {**found, "conditions": [{**told, "lastTransitionTime": stamp(at)}]}


PROGRAMS = {
    "out of memory": (ended(137, "OOMKilled", "step 8\nallocating 3 GiB"), "OOMKilled"),
    "exit 1 with an exception": (ended(1, message=f"{TRACE}ValueError: bad shape"), "Exception"),
    "exit 3, silent": (ended(3), "ExitCode"),
    "segmentation fault": (ended(139, message="step 8"), "Segfault"),
    "segmentation fault by signal": (ended(1, signal=11), "Segfault"),
    "abort": (ended(134, message="terminate called after throwing 'std::bad_alloc'"), "HostMemory"),
    "killed by somebody": (ended(137), "Killed"),
    "bus error": (ended(135), "BusError"),
    "shared memory": (
        ended(1, message=f"{TRACE}RuntimeError: unable to open shared memory object </torch_1>"),
        "SharedMemory",
    ),
    "illegal instruction": (ended(132), "IllegalInstruction"),
    "exec format": (ended(1, message="exec /usr/bin/python3: exec format error"), "ExecFormat"),
    "no such command": (ended(127, message="sh: 1: trian: not found"), "CommandNotFound"),
    "not executable": (ended(126, message="sh: 1: ./train: cannot execute"), "NotExecutable"),
    "cannot be started": (
        ended(128, "StartError", 'exec: "trian": executable file not found in $PATH'),
        "CommandNotFound",
    ),
    "module": (ended(1, message=f"{TRACE}ModuleNotFoundError: No module named 'apex'"), "Import"),
    "disk full": (
        ended(1, message=f"{TRACE}OSError: [Errno 28] No space left on device: '/ckpt/8'"),
        "DiskFull",
    ),
    "read-only": (
        ended(1, message=f"{TRACE}OSError: [Errno 30] Read-only file system: '/ckpt'"),
        "Permission",
    ),
    "permission": (
        ended(1, message=f"{TRACE}PermissionError: [Errno 13] Permission denied: '/ckpt'"),
        "Permission",
    ),
    "missing file": (
        ended(1, message=f"{TRACE}FileNotFoundError: [Errno 2] No such file or directory: '/d'"),
        "NoSuchFile",
    ),
    "device memory": (
        ended(1, message=f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"),
        "DeviceMemory",
    ),
    "broken device": (
        ended(1, message=f"{TRACE}RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        "Hardware",
    ),
    "no device": (
        ended(1, message=f"{TRACE}RuntimeError: No CUDA-capable device is detected"),
        "NoDevice",
    ),
}
POD_STATUSES = {
    "eviction": ("EvictionByEvictionAPI", "Eviction API: evicting", "Evicted"),
    "preemption": ("PreemptionByScheduler", "default-scheduler: preempting", "Preempted"),
    "taint": ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute", "Evicted"),
    "kubelet": ("TerminationByKubelet", "The node was low on resource: memory.", "NodePressure"),
    "lost node": ("DeletionByPodGC", "PodGC: node no longer exists", "NodeLost"),
}


@pytest.fixture
def gang(place: Place, watching: Any) -> Any:
    """`gang(status)`: the explanation of a gang of which a rank ends so, when all Pods are gone."""

    def explained(status: Any) -> Explanation:
        document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 4})
        document["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
        for spec in document["spec"]["pytorchReplicaSpecs"].values():
            spec["restartPolicy"] = "Never"
        for value in place.compiled(document):
            if value["kind"] == "Pod":
                value["spec"]["nodeName"] = f"gpu-{value['metadata']['name']}"
            place.cluster.create(value)
        for name in NAMES:
            place.becomes(name, "Running")
        watching()
        pods = place.cluster.resource("v1", "Pod")
        at = time.time() - 3

        def tell(name: str, value: dict[str, Any]) -> None:
            place.cluster.patch(pods, name, {"status": value}, subresource="status")

        for number, name in enumerate(name for name in NAMES if name != FIRST):
            tell(name, pod_status(ended(1, message=LOST[number]), at + 1))
        tell(FIRST, status(at))
        eventually(lambda: place.data("mnist-etcompile-status").get("done"))
        for name in place.pods():
            place.cluster.delete(pods, name, grace=0)
        eventually(lambda: FIRST in place.data("mnist-etcompile-status").get("failures", ""))
        eventually(lambda: not place.pods())
        found = seen(place.cluster, "mnist", place.namespace)
        [why] = explanations(found.objects.values())
        return why

    return explained


@pytest.mark.parametrize("scenario", PROGRAMS)
def test_the_container_that_failed_first_is_named(gang: Any, scenario: str) -> None:
    how, expected = PROGRAMS[scenario]
    why = gang(lambda at: pod_status(how, at))
    first = why.last.first
    assert (first.pod, first.node, first.cause.name) == (FIRST, f"gpu-{FIRST}", expected)
    waited = "waited too long for another rank in a collective operation"
    assert dict(why.last.followed) == {"lost the connection to another rank": 3, waited: 1}
    told = explanation_text(why, clock())
    assert f"First to fail: {FIRST} on node gpu-{FIRST}" in told
    if how["message"]:
        assert how["message"].splitlines()[-1] in told


@pytest.mark.parametrize("scenario", POD_STATUSES)
def test_the_pod_that_was_ended_first_is_named(gang: Any, scenario: str) -> None:
    reason, message, expected = POD_STATUSES[scenario]
    why = gang(lambda at: disrupted(reason, message, at))
    first = why.last.first
    assert (first.pod, first.cause.name) == (FIRST, expected)
    assert message in explanation_text(why, clock())


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "UnexpectedAdmissionError", "TopologyAffinityError"]
)
def test_a_kubelet_that_refuses_a_pod_is_no_fault_of_the_program(gang: Any, reason: str) -> None:
    refused = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
    first = gang(lambda _: refused).last.first
    assert (first.pod, first.cause.name, first.cause.blame) == (FIRST, "Refused", "node")


# What never ran ---------------------------------------------------------------------------------


def waiting(reason: str, message: str) -> dict[str, Any]:
    status = {"name": "pytorch", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    state = {"waiting": {"reason": reason, "message": message}}
    scheduled = [{"type": "PodScheduled", "status": "True"}]
    containers = [{**status, "state": state}]
    return {"phase": "Pending", "conditions": scheduled, "containerStatuses": containers}


def unscheduled(reason: str, message: str) -> dict[str, Any]:
    told = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [told]}


NEVER_RAN = {
    "image": waiting("ImagePullBackOff", 'Back-off pulling image "team/train:8": not found'),
    "image name": waiting("InvalidImageName", "couldn't parse image name"),
    "secret": waiting("CreateContainerConfigError", 'secret "wandb" not found'),
    "container": waiting("RunContainerError", "nvidia-container-cli: initialization error"),
    "crash loop": waiting("CrashLoopBackOff", "back-off 40s restarting failed container"),
    "no room": unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient gpu."),
    "affinity": unscheduled("Unschedulable", "0/3 nodes match Pod's node affinity/selector."),
    "queue": unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty gates"),
}


@pytest.mark.parametrize("scenario", NEVER_RAN)
def test_what_keeps_a_pod_from_starting_is_told_in_its_own_words(
    place: Place, watching: Any, scenario: str
) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1})
    place.submit(document)
    watching()
    place.becomes("mnist-master-0", "Running")
    pods, status = place.cluster.resource("v1", "Pod"), NEVER_RAN[scenario]
    place.cluster.patch(pods, "mnist-worker-0", {"status": status}, subresource="status")
    found = seen(place.cluster, "mnist", place.namespace)
    [why] = explanations(found.objects.values())
    [held] = [held for held in why.held if held.name == "mnist-worker-0"]
    words = [*status["conditions"], *status.get("containerStatuses", [])][-1]
    told = words.get("state", {}).get("waiting", words)
    assert held.reason == told["reason"]
    key = told["message"].split(":")[0] if scenario != "crash loop" else "keeps crashing"
    assert key in held.message or scenario == "queue"


def test_a_quota_is_told_in_the_words_of_the_server(place: Place, watching: Any) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    document["metadata"]["annotations"] = {"etcompile.dev/restart-together": "true"}
    place.submit(document)
    for name in ("mnist-master-0", "mnist-worker-0", "mnist-worker-1"):
        place.becomes(name, "Running")
    watching()
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Running")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    full = {"hard": {"pods": "2"}, "used": {"pods": "2"}}
    place.cluster.create({**quota, "spec": {"hard": full["hard"]}})
    # There is no controller that counts.
    quotas = place.cluster.resource("v1", "ResourceQuota")
    place.cluster.patch(quotas, "few", {"status": full}, subresource="status")
    time.sleep(1)
    place.fails("mnist-worker-1", 137)
    eventually(lambda: any("exceeded quota" in (e.get("message") or "") for e in place.events()))
    found = seen(place.cluster, "mnist", place.namespace)
    [why] = explanations(found.objects.values())
    assert "exceeded quota: few" in explanation_text(why, clock())
