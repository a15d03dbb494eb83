"""TrainJobs whose commands run again in their Pods: within the backoffLimit of their Job."""

from typing import Any

from defects.test_trainer import job, replicated, runtime
from gang import Gang


def in_place(runtime: dict[str, Any], nodes: int = 2, **more: str) -> tuple[dict[str, Any], ...]:
    """A job of a runtime that restarts in place, and the runtime."""
    made = job(trainer={"numNodes": nodes})
    names = {f"etcompile.dev/{name}": value for name, value in more.items()}
    made["metadata"]["annotations"] = {"etcompile.dev/restart": "in-place", **names}
    return runtime, made


def limited(limit: int, **job_set: Any) -> dict[str, Any]:
    given = runtime()
    replicated(given)["template"]["spec"]["backoffLimit"] = limit
    given["spec"]["template"]["spec"].update(job_set)
    return given


def test_all_nodes_begin_the_next_epoch_in_the_pods_that_are_there() -> None:
    gang = Gang(1, documents=in_place(runtime(), 3))
    gang.pass_time(20)
    before = {name: pod.uid for name, pod in gang.pods.items()}
    gang.kill_process("t-node-0-1")
    gang.pass_time(30)
    assert {name: pod.uid for name, pod in gang.pods.items()} == before
    assert (gang.record.epoch, gang.record.phase) == (1, "Running")
    assert not gang.violations


def test_a_node_that_may_come_and_go_runs_again_by_itself() -> None:
    gang = Gang(1, documents=in_place(runtime(), 1, nnodes="1:4"))
    gang.pass_time(20)
    uid = gang.pods["t-node-0-0"].uid
    for _ in range(3):
        gang.kill_process("t-node-0-0")
        gang.pass_time(60)
    assert gang.pods["t-node-0-0"].uid == uid
    assert gang.record.replaced == {"node": 3}
    assert len(gang.alive) == 1


def test_so_often_as_the_job_survives_failures_and_then_the_run_fails() -> None:
    gang = Gang(1, documents=in_place(limited(2), 1, nnodes="1:4"))
    gang.pass_time(20)
    for _ in range(4):
        gang.kill_process("t-node-0-0")
        gang.pass_time(90)
    assert gang.record.phase == "Failed"
    assert gang.record.reason == "BackoffLimitExceeded"
    assert gang.record.message == "replicas of node failed more than 2 times"


def test_restarts_of_the_whole_job_are_left_for_after_that() -> None:
    given = limited(3, failurePolicy={"maxRestarts": 1})
    gang = Gang(1, documents=in_place(given, 1, nnodes="1:4"))
    gang.pass_time(20)
    uid = gang.pods["t-node-0-0"].uid
    for _ in range(3):
        gang.kill_process("t-node-0-0")
        gang.pass_time(90)
    assert gang.record.restarts == 0
    assert gang.pods["t-node-0-0"].uid == uid
    gang.kill_process("t-node-0-0")
    gang.pass_time(90)
    assert gang.record.restarts == 1
    assert gang.pods["t-node-0-0"].uid != uid
