"""Nodes that do not answer, and nodes that fail Pods, as far as the job asks for it."""

from typing import Any

import pytest

from etcompile.causes.log import Failure
from etcompile.watch.core.run import CreatePod, DeletePod
from specs import kubeflow_job
from world import World

LOST, AVOID = "etcompile.dev/lost-node-after", "etcompile.dev/avoid-nodes"


def job(workers: int = 3, **annotations: str) -> World:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": workers}, "OnFailure")
    document["metadata"]["annotations"] = annotations
    world = World(document)
    for name in world.pods:
        world.change(name, node=f"node-of-{name}")
    return world


def falls_silent(world: World, name: str) -> None:
    """The node controller calls the Pod not Ready; its containers were ready when last heard of."""
    world.change(name, ready=False, ready_since=None, unreachable_since=world.now)


def forced(world: World) -> list[str]:
    return [one.name for one in world.of(DeletePod) if one.force]


# Nodes that do not answer -----------------------------------------------------------------------


def test_pod_of_a_silent_node_is_deleted_by_force_after_its_time() -> None:
    world = job(**{LOST: "300"})
    falls_silent(world, "mnist-worker-1")
    world.wait(299, ready=False)
    assert not world.of(DeletePod)
    old = world.pods["mnist-worker-1"].uid
    world.wait(60)
    # It was asked first: a kubelet that comes back ends it.
    assert [(one.name, one.force) for one in world.of(DeletePod)] == [
        ("mnist-worker-1", False),
        ("mnist-worker-1", True),
    ]
    assert world.pods["mnist-worker-1"].uid != old
    assert world.pods["mnist-worker-1"].ready
    [event] = world.emitted("PodReleased")
    assert "node-of-mnist-worker-1 has not answered for 300 s" in event.message
    [failure] = world.failures
    assert (failure.pod, failure.reason) == ("mnist-worker-1", "NodeLost")


def going(world: World) -> dict[str, Any]:
    """The facts of a Pod whose deletion was requested now."""
    return {"deleting": True, "due": world.now + 30, "deletion_requested": world.now}


def test_node_that_answers_again_in_time_does_not_lose_its_pod() -> None:
    world = job(**{LOST: "300"})
    falls_silent(world, "mnist-worker-1")
    world.wait(200, ready=False)
    world.change("mnist-worker-1", ready=True, ready_since=world.now, unreachable_since=0.0)
    world.wait(1000)
    assert not world.of(DeletePod)


def test_pod_evicted_from_a_silent_node_is_deleted_by_force_too() -> None:
    world = job(**{LOST: "60"})
    # It was not Ready when its node fell silent, so only its deletion tells.
    world.change("mnist-worker-0", ready=False, **going(world))
    world.wait(89, ready=False)
    assert not forced(world)
    world.wait(30, ready=False)
    assert forced(world) == ["mnist-worker-0"]
    assert not world.pods["mnist-worker-0"].deleting


@pytest.mark.parametrize("limit", ["60", ""], ids=["with a finalizer", "without the annotation"])
def test_terminating_pod_is_not_deleted_by_force(limit: str) -> None:
    world = job(**({LOST: limit} if limit else {}))
    if limit:
        world.change("mnist-worker-0", phase="Failed", ready=False, **going(world))
    else:
        falls_silent(world, "mnist-worker-1")
        world.change("mnist-worker-1", **going(world))
    world.wait(10_000, ready=False)
    assert not forced(world)
    assert world.emitted("PodUnreachable")


def test_pods_of_an_ended_run_are_only_forced_while_terminating() -> None:
    world = job(**{LOST: "60"})
    falls_silent(world, "mnist-worker-1")
    world.succeed("mnist-master-0")
    world.settle()
    assert world.record.phase == "Succeeded"
    deleted = {one.name for one in world.of(DeletePod)}
    world.wait(600, ready=False)
    assert set(forced(world)) <= deleted


def test_forced_deletion_survives_a_watcher_that_dies_before_any_action() -> None:
    for count in range(1, 12):
        world = job(**{LOST: "60"})
        old = world.pods["mnist-worker-2"].uid
        falls_silent(world, "mnist-worker-2")
        world.wait(59, ready=False)
        world.now += 2
        world.dies_before(count)
        world.wait(300)
        assert world.pods["mnist-worker-2"].uid != old, count
        assert world.pods["mnist-worker-2"].ready


# Nodes that fail Pods ---------------------------------------------------------------------------


def fails(world: World, name: str, node: str, reason: str = "UnexpectedAdmissionError") -> None:
    """A Pod fails on a node, by its fault: its kubelet does not admit it."""
    pod = world.pods[name]
    failure = Failure(
        pod.role, pod.index or 0, name, f"{pod.uid}.{reason}", 0, world.now, node, reason=reason
    )
    world.fail(
        name, None, node=node, failures=(failure,), refused=True, disrupted=True, reason=reason
    )
    world.settle()


def avoided(world: World) -> list[tuple[str, ...]]:
    return [one.away_from for one in world.done if isinstance(one, CreatePod)]


def test_node_that_failed_two_replicas_is_avoided_afterwards() -> None:
    world = job(**{AVOID: "2"})
    fails(world, "mnist-worker-0", "bad")
    world.wait(30)
    assert avoided(world) == [()]
    fails(world, "mnist-worker-1", "bad")
    world.wait(30)
    assert avoided(world)[-1] == ("bad",)
    fails(world, "mnist-worker-2", "other")
    world.wait(30)
    assert avoided(world)[-1] == ("bad",)
    [event] = world.emitted("NodeAvoided")
    assert event.message.startswith("recreated Pods avoid the node bad: it caused at least")
    world.restart_watcher()
    fails(world, "mnist-worker-1", "other")
    world.wait(30)
    assert avoided(world)[-1] == ("bad", "other")
    assert len(world.emitted("NodeAvoided")) == 2


# Preflight ----------------------------------------------------------------------------------------


def test_no_node_is_avoided_without_the_annotation() -> None:
    world = job()
    for _ in range(4):
        fails(world, "mnist-worker-0", "bad")
        world.wait(60)
    assert not any(avoided(world))


def sent_away(world: World, name: str, node: str, phase: str = "Failed") -> None:
    pod = world.pods[name]
    known = pod.role, pod.index or 0, name, f"{pod.uid}.preflight.1", 0, world.now, node
    failure = Failure(*known, container="preflight", code=20, reason="Error", tail="7 GPUs, not 8")
    facts: dict[str, Any] = {"refused": True, "disrupted": True, "failures": (failure,)}
    world.change(name, phase=phase, ready=False, node=node, init_restarts=1, **facts)


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_pod_refused_by_its_preflight_is_recreated_on_another_node(phase: str) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}, runPolicy={"backoffLimit": 0})
    document["metadata"]["annotations"] = {"etcompile.dev/preflight": "check gpus"}
    document["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Never"
    world = World(document)
    old = world.pods["mnist-worker-1"].uid
    sent_away(world, "mnist-worker-1", "bad", phase)
    world.wait(30)
    # It never trained, so whatever the policy says, and nothing of its limit is spent.
    assert world.pods["mnist-worker-1"].uid != old
    assert world.record.phase == "Running"
    assert set(avoided(world)) == {("bad",)}
    [event] = world.emitted("NodeAvoided")
    assert "a preflight check rejected it for a Pod of this run" in event.message
    [failure] = world.failures
    assert (failure.cause.name, failure.cause.blame) == ("PreflightNode", "node")


def test_preflight_that_fails_otherwise_is_an_ordinary_failure() -> None:
    pod = Failure("worker", 0, "w", container="preflight", code=1, tail="no /dev/shm")
    assert (pod.cause.name, pod.cause.blame) == ("Preflight", "program")
    assert Failure("worker", 0, "w", container="main", code=20).cause.name == "ExitCode"
