"""Pods that Kueue holds are let go when they have ended, so that others have their names.

The same with the real Kueue: tests/queues.
"""

from collections.abc import Callable

import pytest

from etcompile.model import Settings
from specs import elastic_job, kubeflow_job, training_job
from world import World


def queued(**policies: str) -> World:
    job = kubeflow_job("PyTorchJob", {"Worker": 3}, "ExitCode")
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    job["metadata"]["annotations"] = {
        f"etcompile.dev/{key}": value for key, value in policies.items()
    }
    world = World(job, settings=Settings(gang="kueue", run="one"))
    for name in world.pods:
        world.change(name, node=f"node-of-{name}")
    return world


def names(*numbers: int) -> list[str]:
    return [f"mnist-one-worker-{number}" for number in numbers]


def test_failed_pod_in_a_queue_comes_back_under_its_name() -> None:
    world = queued()
    failed = world.pods["mnist-one-worker-1"].uid
    world.fail("mnist-one-worker-1", 137)
    world.wait(30)
    assert sorted(world.pods) == names(0, 1, 2)
    assert [action.uid for action in world.patched("release")] == [failed]
    assert world.record.replaced == {"worker": 1}


def test_pod_in_a_queue_is_not_released_before_it_ended() -> None:
    world = queued()
    world.change("mnist-one-worker-1", deleting=True, due=world.now + 30)
    world.wait(5, ready=False)
    assert world.patched("release") == []
    world.wait(30)
    assert sorted(world.pods) == names(0, 1, 2)


def ends_with_0(world: World, *numbers: int) -> None:
    """Pods are deleted, and end with exit code 0: Kueue counts them as done."""
    for name in names(*numbers):
        world.ends_with_0.add(name)
        world.change(name, deleting=True, due=world.now + 30)


def misses_its_group(world: World) -> None:
    left_out = {"left_out_by_queue": True, "held_by_queue": False, "phase": "Pending"}
    world.change("mnist-one-worker-2", **left_out)


DONE = "ended with exit code 0 when it was deleted"
# What happens, which restarts of the job are reported for it, and how many count.
RESTARTS: dict[str, tuple[Callable[[World], None], list[str], int]] = {
    "one fails": (lambda it: it.fail("mnist-one-worker-1", 137), ["exit code 137"], 1),
    "one counts as done": (lambda it: ends_with_0(it, 1), [DONE], 0),
    "all are preempted": (lambda it: ends_with_0(it, 0, 1, 2), [], 0),
    "one missed its group": (misses_its_group, ["group"], 0),
}


@pytest.mark.parametrize("how", RESTARTS)
def test_all_pods_of_a_group_restart_under_their_names(how: str) -> None:
    happens, reported, restarts = RESTARTS[how]
    world = queued(**({"restart-together": "true"} if how == "one fails" else {}))
    before = {pod.uid for pod in world.pods.values()}
    happens(world)
    world.wait(300)
    assert sorted(world.pods) == names(0, 1, 2)
    assert before.isdisjoint(pod.uid for pod in world.pods.values())
    assert not any(pod.left_out_by_queue for pod in world.pods.values())
    assert (world.record.phase, world.record.restarts) == ("Running", restarts)
    events = world.emitted("JobRestarted")
    assert [text in event.message for text, event in zip(reported, events, strict=True)] == [
        True for _ in reported
    ]


def test_pod_that_kueue_still_counts_is_not_followed() -> None:
    """A follower has another name, so that Kueue would see one Pod too many."""
    job = elastic_job({"worker": 3})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    world = World(job, settings=Settings(gang="kueue", run="one"))
    for name in world.pods:
        world.change(name, node=f"node-of-{name}")
    before = {pod.uid for pod in world.pods.values()}
    names = sorted(world.pods)
    world.ends_with_0.add(names[0])
    world.change(names[0], deleting=True, due=world.now + 30)
    world.wait(300)
    assert sorted(world.pods) == names
    assert before.isdisjoint(pod.uid for pod in world.pods.values())


def test_pod_beyond_the_minimum_that_ended_with_0_restarts_no_other() -> None:
    """Kueue admits it by itself, so no group counts it as done."""
    world = queued(**{"gang-min-member": "2"})
    others = {pod.uid for name, pod in world.pods.items() if name != "mnist-one-worker-2"}
    ended = {"deleting": True, "due": world.now + 30, "phase": "Succeeded"}
    world.change("mnist-one-worker-2", queued_alone=True, held_by_queue=True, **ended)
    world.settle()
    assert others <= {pod.uid for pod in world.pods.values()}
    assert world.emitted("JobRestarted") == []


def test_launcher_that_kueue_stopped_comes_back() -> None:
    """Without Kueue the run fails with its launcher (reference/et-operator.md 4.3)."""
    job = training_job()
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    world = World(job, settings=Settings(gang="kueue", run="one"))
    for name in [*world.pods]:
        world.change(name, deleting=True, due=world.now + 30, stopped_by_queue=True)
    world.wait(300)
    assert len(world.pods) == 3
    assert world.record.phase == "Running"
