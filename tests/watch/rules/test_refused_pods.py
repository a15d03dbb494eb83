"""A Pod that its kubelet does not admit never ran: it comes back and counts towards no limit."""

from typing import Any

import pytest

from specs import dlrover_type, elastic_job, kubeflow_job, training_job
from watcher_rules import observed
from world import World

REASONS = ("OutOfcpu", "OutOfpods", "OutOfnvidia.com/gpu", "NodeAffinity", "TaintToleration")


def torch(policy: str) -> dict[str, Any]:
    return kubeflow_job("PyTorchJob", {"Worker": 2}, policy, runPolicy={"backoffLimit": 1})


def restarting() -> dict[str, Any]:
    job = training_job(backoffLimit=1)
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "OnFailure"
    return job


def elastic() -> dict[str, Any]:
    command = ["dlrover-run", "--nnodes=2:3", "train.py"]
    return elastic_job({"worker": {**dlrover_type(3, command=command), "restartCount": 1}})


CASES = {
    "PyTorchJob, Never": (torch("Never"), "mnist-worker-1"),
    "PyTorchJob, OnFailure": (torch("OnFailure"), "mnist-worker-1"),
    "PyTorchJob, ExitCode": (torch("ExitCode"), "mnist-worker-1"),
    "launcher of a TrainingJob": (restarting(), "mnist-launcher"),
    "ElasticJob": (elastic(), "mnist-edljob-worker-1"),
}


@pytest.mark.parametrize("case", CASES)
def test_pod_that_is_not_admitted_comes_back_and_spends_nothing(case: str) -> None:
    job, name = CASES[case]
    world = World(job)
    for number, reason in enumerate(REASONS):
        pod = world.pods[name]
        labels = {"etcompile.dev/role": pod.role, "etcompile.dev/index": str(pod.index)}
        metadata = {"name": name, "uid": pod.uid, "labels": labels}
        state = observed({"metadata": metadata, "status": {"phase": "Failed", "reason": reason}})
        facts = {key: getattr(state, key) for key in ("refused", "disrupted", "failures")}
        world.fail(name, None, reason=reason, **facts)
        world.wait(1000)
        if case == "ElasticJob":
            name = f"mnist-edljob-worker-{number + 3}"
        assert world.pods[name].ready
    record = world.record
    assert (record.phase, record.restarts) == ("Running", 0)
    assert not any(record.replaced.values())
    assert not any(record.failures.values())
    messages = [one.message for one in world.emitted("PodReplaced")]
    for reason in REASONS:
        [message] = [one for one in messages if f"({reason})" in one]
        assert message.startswith("was not admitted by its node")
        assert ("less room" in message) == reason.startswith("OutOf")
