"""What `status` derives from Pods and what the watcher writes down of them agree."""

import itertools
from typing import Any

import pytest
from test_status_of_objects import objects, status

from etcompile.model import Success
from etcompile.model.run_completion import Decider, Outcome, Ranked, completion, holder
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


@pytest.mark.parametrize(
    ("needs", "least", "outcomes", "end"),
    [
        ("all", None, "done done done", "succeeded"),
        ("all", None, "done done open", "open"),
        ("all", None, "done done out", "hopeless"),
        ("all", 2, "done done out", "succeeded"),
        ("all", 2, "done open out", "open"),
        ("all", 2, "done out out", "hopeless"),
        ("any", None, "out done out", "succeeded"),
        ("any", None, "out open out", "open"),
        ("any", None, "out out out", "hopeless"),
        ("first", None, "done open out", "succeeded"),
        ("first", None, "open done out", "open"),
        ("first", None, "out done done", "hopeless"),
    ],
)
def test_the_rule_of_success(needs: Any, least: int | None, outcomes: str, end: str) -> None:
    deciders = [
        Decider(f"worker-{index}", index == 0, outcome)
        for index, outcome in enumerate(list[Outcome](outcomes.split()))
    ]
    assert completion(Success(("worker",), needs, least), deciders).end == end


def pod(index: int, *, lives: bool = True) -> Ranked:
    return Ranked(index, float(index), lives)


@pytest.mark.parametrize(
    ("recorded", "pods", "expected"),
    [
        (None, [], 1),
        (None, [pod(1, lives=False), pod(4)], 4),
        (4, [pod(1), pod(4)], 1),
        (4, [pod(1, lives=False)], 4),
        (4, [pod(1, lives=False), pod(5)], 4),
        (None, [pod(1, lives=False), pod(4, lives=False)], 4),
        (None, [pod(1, lives=False)], 1),
    ],
)
def test_who_has_a_rank(recorded: int | None, pods: list[Ranked], expected: int) -> None:
    assert holder(1, recorded, pods) == expected
