"""Pods that a kubelet does not admit: they never ran, so they spend nothing."""

import pytest
from watched import eventually, training_job

from specs import dlrover_type, elastic_job, kubeflow_job, replicas

REASONS = ("OutOfcpu", "OutOfpods", "OutOfnvidia.com/gpu", "NodeAffinity", "TaintToleration")


def refuse(place, name: str, reason: str) -> str:
    """A kubelet refuses a Pod; its UID."""
    uid = place.uid(name)
    assert place.becomes(name, "Failed", reason=reason)
    eventually(lambda: place.uid(name) not in ("", uid), 30)
    eventually(lambda: place.pod(name)["status"]["phase"] == "Running")
    return uid


def recreations(place, reason: str) -> list[str]:
    """What is told of the Pods that were recreated for a reason."""
    messages = [event["message"] for event in place.told("PodReplaced")]
    return [message for message in messages if f"({reason}): recreating it" in message]


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_a_pod_that_its_kubelet_refuses_is_made_again_and_counts_for_nothing(
    place, watching, policy
):
    watching()
    place.kubelets()
    types = {"Worker": {**replicas("PyTorchJob", 2), "restartPolicy": policy}}
    place.submit(kubeflow_job("PyTorchJob", types, runPolicy={"backoffLimit": 1}))
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Running")
    for reason in REASONS:
        refuse(place, "mnist-worker-1", reason)
    record = place.record("mnist")
    assert (record["phase"], record.get("replaced", {})) == ("Running", {})
    for reason in REASONS:
        [own] = eventually(lambda reason=reason: recreations(place, reason))
        assert own.startswith("was not admitted by its node")
        assert ("less room" in own) == reason.startswith("OutOf")


def test_a_launcher_that_its_kubelet_refuses_spends_no_restart_of_the_job(place, watching):
    watching()
    place.kubelets()
    job = training_job(workers=2, backoffLimit=1)
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "OnFailure"
    place.submit(job)
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Running")
    for reason in REASONS[:3]:
        refuse(place, "bert-launcher", reason)
    assert place.record()["phase"] == "Running"
    assert place.record().get("restarts", 0) == 0


def test_a_worker_of_dlrovers_that_its_kubelet_refuses_is_followed_and_not_counted(place, watching):
    watching()
    place.kubelets()
    command = ["dlrover-run", "--nnodes=2:3", "train.py"]
    job = elastic_job({"worker": {**dlrover_type(3, command=command), "restartCount": 1}})
    job["metadata"]["namespace"] = place.namespace
    place.submit(job)
    eventually(lambda: len(place.ready()) == 3)
    name = "mnist-edljob-worker-1"
    for number in range(3, 7):
        place.becomes(name, "Failed", reason="OutOfmemory")
        name = f"mnist-edljob-worker-{number}"
        eventually(lambda name=name: name in place.ready(), 30)
    record = place.record("mnist")
    assert (record["phase"], record.get("failures", {})) == ("Running", {})
    assert place.replica("worker", 1, "mnist").history.counted == 0
