"""Which losses of a worker bring it back: the tables of the operators, row by row."""

from collections.abc import Callable

import pytest

from specs import kubeflow_job, training_job, worker
from world import World

WORKER = "mnist-worker-1"

LOSSES: dict[str, Callable[[World], None]] = {
    "exit 1": lambda it: it.fail(WORKER, 1),
    "exit 127": lambda it: it.fail(WORKER, 127),
    "exit 128": lambda it: it.fail(WORKER, 128),
    "exit 129": lambda it: it.fail(WORKER, 129),
    "exit 137": lambda it: it.fail(WORKER, 137),
    "exit 254": lambda it: it.fail(WORKER, 254),
    "exit 255": lambda it: it.fail(WORKER, 255),
    "Succeeded": lambda it: it.succeed(WORKER),
    "Unknown": lambda it: it.change(WORKER, phase="Unknown", ready=False),
    "deleted, grace 0": lambda it: it.vanish(WORKER),
    "deleted gracefully": lambda it: it.delete(WORKER),
    "Evicted, exit 137": lambda it: it.evict(WORKER, 137),
    "Evicted, no container status": lambda it: it.evict(WORKER),
    "second container 137": lambda it: it.fail(WORKER, exits=(("main", 0), ("side", 137))),
    "exit 1, second container 137": lambda it: it.fail(WORKER, exits=(("main", 1), ("side", 137))),
}

# The recording of the real operator (reference/et-operator.md 4.1): R for replaced. A capital X is
# a `-` there and replaced here, on purpose: defect 18.
MATRIX = """
Never     - - - - - - - - - - - - - - -
Always    R R R R R R R R R R R R R R R
OnFailure R R R R R R R - - - R R R R R
ExitCode  - - X R R R X - - - R R X X -
"""
ROWS = [line.split() for line in MATRIX.strip().splitlines()]
CASES = [
    (policy, loss, mark in "RX")
    for policy, *marks in ROWS
    for loss, mark in zip(LOSSES, marks, strict=True)
]


def et_world(policy: str, **more: object) -> World:
    job = training_job(**more)
    worker(job)["restartPolicy"] = policy
    return World(job)


@pytest.mark.parametrize(("policy", "loss", "replaced"), CASES)
def test_et_operator_18_21_lost_worker_comes_back_as_its_policy_says(
    policy: str, loss: str, replaced: bool
) -> None:
    job = training_job()
    worker(job)["restartPolicy"] = policy
    world = World(job)
    before = world.pods[WORKER].uid
    LOSSES[loss](world)
    for _ in range(5):
        world.wait(60)
    assert (WORKER in world.pods and world.pods[WORKER].uid != before) == replaced
    assert world.record.phase == "Running"
    assert world.listed == ["mnist-worker-0", *([WORKER] if replaced else [])] or loss == "Unknown"
    if replaced:
        assert sorted(world.pods) == sorted(world.declared)
        assert len(world.emitted("PodReplaced")) == 1
    else:
        assert len(world.emitted("PodLost")) <= 1
        assert world.deleted == []


# The Training Operator: what its ReconcilePods does, defects 5, 9 and 44 fixed. F: the job fails.
KUBEFLOW = {
    "Never": ("exit 1 F", "exit 137 F", "Evicted, no container status F"),
    "OnFailure": ("exit 1 R", "exit 137 R", "Evicted, no container status R"),
    "Always": ("exit 1 R", "exit 137 R", "Evicted, no container status R"),
    "ExitCode": (
        "exit 1 F",
        "exit 127 F",
        "exit 128 R",
        "exit 255 R",
        "Evicted, no container status R",
    ),
}
ALL_POLICIES = ("deleted, grace 0 R", "deleted gracefully R")
KINDS = {
    "TFJob": ("Worker", "Chief"),
    "PyTorchJob": ("Worker", "Master"),
    "XGBoostJob": ("Worker", "Master"),
    "PaddleJob": ("Worker", "Master"),
    "JAXJob": ("Worker", None),
    "MXJob": ("Worker", "Scheduler"),
}


@pytest.mark.parametrize(
    ("policy", "case"),
    [(policy, case) for policy, cases in KUBEFLOW.items() for case in (*cases, *ALL_POLICIES)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_training_operator_05_44_lost_replica_comes_back_or_fails_the_job(
    kind: str, policy: str, case: str
) -> None:
    loss, _, outcome = case.rpartition(" ")
    types: dict[str, object] = {"Worker": 2}
    if KINDS[kind][1]:
        types[KINDS[kind][1]] = 1
    job = kubeflow_job(kind, types)
    key = next(iter(job["spec"]))
    job["spec"][key]["Worker"]["restartPolicy"] = policy
    world = World(job)
    before = world.pods[WORKER].uid
    LOSSES[loss](world)
    world.wait(60)
    # A worker of MXNet that failed for good under ExitCode is left to its scheduler's judgement
    # (reference/training-operator-mxjob.md 3).
    judged = kind == "MXJob" and policy == "ExitCode"
    fails = outcome == "F" and not judged
    assert world.record.phase == ("Failed" if fails else "Running")
    if outcome == "R":
        assert world.pods[WORKER].uid != before
        assert sorted(world.pods) == sorted(world.declared)
