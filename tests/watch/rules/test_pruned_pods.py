"""Pods that somebody deletes where a tool syncs Git: it may be the tool, and more is to come."""

import pytest

from etcompile.watch.core.run import CreatePod
from specs import scale_in, training_job, worker
from world import World, stored_job

WORKERS = [f"mnist-worker-{number}" for number in range(4)]


def job(replicas: int = 4) -> dict:
    document = training_job(replicas=replicas)
    worker(document)["restartPolicy"] = "Always"
    return document


def recreated(world: World) -> list[str]:
    return [one.name for one in world.of(CreatePod)]


@pytest.mark.parametrize(
    ("git", "disrupted", "seconds"),
    [(True, False, 20), (True, True, 3), (False, False, 3)],
    ids=["a tool may recreate it", "evicted", "no tool"],
)
def test_deleted_pod_comes_back_as_soon_as_no_tool_may_recreate_it(
    git: bool, disrupted: bool, seconds: int
) -> None:
    world = World(job(), git=git)
    world.change(WORKERS[1], disrupted=disrupted)
    world.delete(WORKERS[1])
    world.wait(seconds / 2)
    assert seconds < 10 or recreated(world) == []
    world.wait(seconds / 2)
    assert recreated(world) == [WORKERS[1]]


def test_pod_pruned_before_its_config_map_changes_stays_away() -> None:
    world = World(job(), git=True)
    world.delete(WORKERS[2])
    world.wait(9)
    world.delete(WORKERS[3])  # it took its time to end
    world.wait(9)
    world.job, world.settings = stored_job(job(), scale_in("less", 2))
    world.wait(100)
    assert recreated(world) == []


def test_deleted_pod_waits_while_others_of_its_job_terminate() -> None:
    world = World(job(), git=True)
    for name in (*WORKERS, "mnist-launcher"):
        world.change(name, deleting=True, due=world.now + 30)
    world.vanish(WORKERS[0])
    world.wait(29, ready=False)
    assert recreated(world) == []


def test_pod_on_a_silent_node_does_not_delay_others_for_long() -> None:
    world = World(job(), git=True)
    world.change(WORKERS[0], deleting=True, due=world.now + 30)
    world.change(WORKERS[1], deleting=True)
    world.vanish(WORKERS[1])
    world.wait(60, ready=False)
    assert recreated(world) == [WORKERS[1]]


def test_watcher_that_starts_during_a_prune_recreates_no_pod() -> None:
    world = World(job(), git=True)
    world.change(WORKERS[0], deleting=True, due=world.now + 30)
    world.vanish(WORKERS[1])
    world.restart_watcher()
    world.wait(29, ready=False)
    assert recreated(world) == []
