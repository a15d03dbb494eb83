"""What `status` derives from Pods and what the watcher writes down of them agree."""

import itertools
from typing import Any

import pytest
from test_status_of_objects import objects, status

from specs import dlrover_type, elastic_job, kubeflow_job
from world import World


def dlrover(nodes: str) -> dict[str, Any]:
    command = ["dlrover-run", f"--nnodes={nodes}", "train.py"]
    return elastic_job({"worker": {**dlrover_type(5, command=command), "restartCount": 1}})


def test_as_many_as_are_enough_have_succeeded_for_status_as_for_the_watcher() -> None:
    job = dlrover("4:5")
    names = [f"mnist-edljob-worker-{index}" for index in range(5)]
    master = "elasticjob-mnist-dlrover-master-0"
    phases = {**dict.fromkeys(names[:4], "Succeeded"), names[4]: "Failed", master: "Running"}
    result = status(objects(job), phases)
    assert (result.phase, result.because) == ("Succeeded", "4 of 5 replicas succeeded")
    world = World(job)
    for name in names[:4]:
        world.succeed(name)
    world.fail(names[4])
    world.wait(60)
    assert (world.record.phase, world.record.message) == ("Succeeded", result.because)


JOBS = {
    "all": kubeflow_job("PyTorchJob", {"Worker": 3}),
    "first": kubeflow_job("TFJob", {"Worker": 3}),
    "master": kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}),
}


@pytest.mark.parametrize("rule", JOBS)
def test_every_end_of_three_replicas_is_the_same_to_both(rule: str) -> None:
    job = JOBS[rule]
    kind = next(key for key in job["spec"] if key.endswith("ReplicaSpecs"))
    for one in job["spec"][kind].values():
        one["restartPolicy"] = "Never"
    names = World(job, start=False).declared
    for phases in itertools.product(("Running", "Succeeded", "Failed"), repeat=3):
        world = World(job)
        for name, phase in zip(names, phases, strict=True):
            if phase == "Succeeded":
                world.succeed(name)
            elif phase == "Failed":
                world.fail(name)
        world.settle()
        derived = status(objects(job), dict(zip(names, phases, strict=True))).phase
        assert world.record.phase == derived, phases
