"""A run whose Pods are all at work and none of which writes anything any more."""

from typing import Any

import pytest
from msgspec import structs

from etcompile.causes.log import first_causes
from etcompile.k8s.pod_state import PodState
from etcompile.model.supervision import read_notice
from etcompile.watch.core.run import CreatePod, DeletePod, PatchPod
from watch.rules.supervised import FIRST, begins, pytorch_job, uids
from world import World, mpi_job

LIMIT = 600
STUCK = {"etcompile.dev/stuck-after": str(LIMIT)}


def torch(workers: int = 2, restart: str = "OnFailure", **annotations: str) -> dict[str, Any]:
    document = pytorch_job(workers, restart)
    document["metadata"]["annotations"] = {**STUCK, **annotations}
    return document


def speaks(world: World, *names: str, at: float | None = None) -> None:
    """The last line of these Pods is of now, or of another time."""
    for name in names or [*world.pods]:
        world.words[name] = world.now if at is None else at


def test_logs_are_first_read_near_the_limit_and_one_is_enough() -> None:
    world = World(torch(20))
    world.wait(LIMIT - 10)
    assert not world.reads("activity")
    speaks(world, "mnist-master-0", at=1e9)
    world.wait(100)
    assert [one.name for one in world.reads("activity")] == ["mnist-master-0"]
    assert not world.deleted


def test_run_in_which_only_one_rank_logs_is_not_stuck() -> None:
    world = World(torch())
    for _ in range(40):
        speaks(world, "mnist-master-0")
        world.wait(LIMIT / 2)
    assert not world.deleted
    assert len(world.reads("activity")) < 40 * 3


def test_stuck_run_gets_a_new_deciding_pod_and_records_the_first_silent() -> None:
    world = World(torch())
    before = uids(world)
    speaks(world)
    speaks(world, "mnist-worker-1", at=world.now - 3)
    world.wait(LIMIT + 60)
    after = uids(world)
    assert after["mnist-master-0"] != before["mnist-master-0"]
    failures = world.failures
    assert {one.reason for one in failures} == {"Stuck"}
    # Who fell silent first comes first.
    assert first_causes(failures)[0].pod == "mnist-worker-1"
    [event] = world.emitted("PodReplaced")
    assert "no replica has logged anything for too long" in event.message
    # What begins has the same time again.
    deleted = len(world.deleted)
    world.wait(LIMIT - 120)
    assert len(world.deleted) == deleted


def test_stuck_gang_restarts_as_a_whole() -> None:
    world = World(torch(**{"etcompile.dev/restart-together": "true"}))
    before = uids(world)
    speaks(world)
    world.wait(LIMIT + 90)
    assert not set(uids(world).values()) & set(before.values())
    assert world.record.restarts == 1


def test_stuck_run_that_may_not_restart_fails() -> None:
    world = World(torch(restart="Never"))
    speaks(world)
    world.wait(LIMIT + 60)
    assert world.record.phase == "Failed"
    assert "no replica has logged anything for too long" in world.record.message


@pytest.mark.parametrize("unreadable", ["mnist-master-0", "mnist-worker-1"])
def test_run_with_an_unreadable_log_is_not_stuck(unreadable: str) -> None:
    world = World(torch())
    speaks(world)
    world.words[unreadable] = None
    world.wait(20 * LIMIT)
    assert not world.deleted
    assert len(world.reads("activity")) < 20 * LIMIT / 60 * 3 + 10


@pytest.mark.parametrize("facts", [{"deleting": True}, {"phase": "Pending", "ready": False}])
def test_run_with_a_pod_that_starts_or_ends_is_not_stuck(facts: dict[str, Any]) -> None:
    world = World(torch())
    speaks(world)
    world.change("mnist-worker-0", **facts)
    world.wait(5 * LIMIT, ready=False)
    assert not any(isinstance(one, CreatePod | DeletePod) for one in world.done)


def test_logs_are_not_read_without_the_annotation() -> None:
    document = torch()
    document["metadata"]["annotations"] = {}
    world = World(document)
    world.wait(100 * LIMIT)
    assert not world.reads("activity")
    assert not world.deleted


def test_stuck_launcher_of_a_kubernetes_job_is_deleted_for_it_to_recreate() -> None:
    document = mpi_job(version="v2beta1")
    document["metadata"]["annotations"] = STUCK
    world = World(document)
    run = world.pods["mnist-worker-0"].spec_hash
    launcher = PodState("mnist-launcher-x1", "u-1", "launcher", None, run, created=world.now)
    world.pods[launcher.name] = structs.replace(launcher, phase="Running", ready=True)
    world.settle()
    assert world.record.phase == "Running"
    speaks(world)
    world.wait(LIMIT + 1, ready=False)
    assert [(one.name, one.reason) for one in world.of(DeletePod)] == [
        ("mnist-launcher-x1", "Stuck")
    ]
    [event] = world.emitted("RunStuck")
    assert event.message == "no replica has logged anything for 600 s: deleted"


class Supervised(World):
    """A run whose supervisors restart the commands when the watcher says so."""

    def __init__(self) -> None:
        super().__init__(pytorch_job(stuck_after=str(LIMIT)))
        self.wait(30)

    def act(self, action: Any) -> None:
        super().act(action)
        if isinstance(action, PatchPod) and action.what == "notify":
            epoch = (self.record.epoch or 0) + 1
            self.says(FIRST, begins(epoch, epoch, read_notice(action.value).why))
            speaks(self)


def test_stuck_run_in_place_is_restarted_by_the_first_supervisor() -> None:
    world = Supervised()
    before = uids(world)
    speaks(world)
    world.wait(LIMIT + 90)
    [notified] = world.patched("notify")
    assert (notified.name, notified.value.split(" ")[1]) == (FIRST, "RESTART")
    assert uids(world) == before
    assert (world.record.epoch, world.record.restarts) == (1, 1)
    assert world.record.epoch_reason == "no replica has logged anything for 600 s"
    assert {(failure.reason, failure.message) for failure in world.failures} == {("Stuck", "")}
    [(begin, end)] = world.timeline.hung
    assert LIMIT <= end - begin < LIMIT + 90, "which was not training"
    speaks(world, at=1e9)
    world.wait(LIMIT + 120)
    assert world.record.epoch == 1


def test_supervisor_that_ignores_a_notice_gets_another_after_the_limit() -> None:
    world = World(pytorch_job(stuck_after=str(LIMIT)))
    speaks(world)
    world.wait(2 * LIMIT + 120)
    words = [one.value.split(" ")[1] for one in world.patched("notify")]
    assert words == ["RESTART"] * 2
