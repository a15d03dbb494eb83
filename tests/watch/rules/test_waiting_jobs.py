"""Roles that wait until others have succeeded, each with a limit of failures of its own."""

from typing import Any

import pytest

from defects.test_trainer import job, mpi, of_parts, part, with_data
from etcompile.watch.listeners.gates import succeeded
from world import World


def said(world: World) -> list[str]:
    """What gates read: the roles that have succeeded in this run."""
    roles = succeeded(world.job, world.record)
    assert roles is not None
    return roles


def test_waiting_job_starts_when_all_pods_of_the_awaited_one_succeeded() -> None:
    runtime = with_data()
    data = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]
    data["template"]["spec"]["parallelism"] = 2
    world = World(runtime, job())
    assert said(world) == []
    world.succeed("t-dataset-initializer-0-0")
    world.settle()
    assert said(world) == []
    world.succeed("t-dataset-initializer-0-1")
    world.settle()
    assert said(world) == ["dataset-initializer"]
    world.vanish("t-dataset-initializer-0-0")
    world.wait(600)
    assert said(world) == ["dataset-initializer"]
    assert "t-dataset-initializer-0-0" not in world.pods  # what is fetched is not fetched again


def test_waiting_pods_are_touched_when_the_awaited_job_succeeded() -> None:
    world = World(with_data(), job())
    for name in ("t-node-0-0", "t-node-0-1"):
        if name in world.pods:
            world.change(name, phase="Pending", ready=False)
    waiting = [name for name in world.pods if "node" in name]
    world.wait(60, ready=False)
    assert not world.patched("touch")
    world.succeed("t-dataset-initializer-0-0")
    world.settle()
    assert [touch.name for touch in world.patched("touch")] == waiting
    world.wait(600, ready=False)
    assert len(world.patched("touch")) == len(waiting)


def test_record_names_no_success_that_no_job_awaits() -> None:
    world = World(mpi(), job(trainer={"numNodes": 2}))
    assert succeeded(world.job, world.record) is None


def of_limits(**limits: int) -> dict[str, Any]:
    parts = [part("node", "trainer", command=["a"]), part("other", command=["b"])]
    for one in parts:
        one["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        if (limit := limits.get(one["name"])) is not None:
            one["template"]["spec"]["backoffLimit"] = limit
    return of_parts({}, *parts)


@pytest.mark.parametrize(("name", "survives"), [("t-node-0-0", 0), ("t-other-0-0", 2)])
def test_each_job_of_a_trainjob_has_a_separate_backoff_limit(name: str, survives: int) -> None:
    world = World(of_limits(node=0, other=2), job())
    for _ in range(survives):
        world.fail(name)
        world.wait(600)
        assert world.record.phase == "Running"
    world.fail(name)
    world.wait(600)
    assert (world.record.phase, world.record.reason) == ("Failed", "BackoffLimitExceeded")


def test_one_successful_job_is_enough_if_the_policy_says_so() -> None:
    runtime = of_limits()
    runtime["spec"]["template"]["spec"]["successPolicy"] = {"operator": "Any"}
    world = World(runtime, job())
    world.succeed("t-other-0-0")
    world.wait(60)
    assert world.record.phase == "Succeeded"


def restarting(**limits: int) -> World:
    runtime = of_limits(**limits)
    runtime["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 1}
    parts = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    parts[1]["dependsOn"] = [{"name": "node", "status": "Complete"}]
    return World(runtime, job(activeDeadlineSeconds=3600))


def test_trainer_15_failure_policy_restarts_all_jobs_up_to_its_limit() -> None:
    world = restarting(node=0, other=0)
    began = world.record.started
    world.succeed("t-node-0-0")
    world.settle()
    assert said(world) == ["node"]
    before = {pod.uid for pod in world.pods.values()}
    world.fail("t-other-0-0")
    world.wait(120)
    assert world.record.restarts == 1
    assert before.isdisjoint(pod.uid for pod in world.pods.values())
    assert said(world) == []  # what had succeeded is done again
    assert world.record.started == began  # and the deadline is the job's
    world.fail("t-node-0-0")
    world.wait(120)
    assert (world.record.phase, world.record.reason) == ("Failed", "BackoffLimitExceeded")


def test_restart_resets_the_failures_of_each_job() -> None:
    world = restarting(node=1, other=1)
    for _ in range(2):
        world.fail("t-other-0-0")
        world.wait(600)
    assert (world.record.phase, world.record.restarts) == ("Running", 1)
    world.fail("t-other-0-0")
    world.wait(600)
    assert (world.record.phase, world.record.restarts) == ("Running", 1)
    world.fail("t-other-0-0")
    world.wait(600)
    assert world.record.phase == "Failed"


def test_trainer_24_failed_run_is_not_run_again() -> None:
    world = World(of_limits(node=0, other=0), job())
    world.fail("t-node-0-0")
    world.wait(60)
    for name in [*world.pods]:
        world.vanish(name)
    world.wait(3600)
    assert (world.record.phase, world.pods) == ("Failed", {})
