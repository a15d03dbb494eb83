"""Runs in the middle of something, each of which leaves something else in the run record."""

from collections.abc import Callable
from typing import Any

from specs import dlrover_type, elastic_job, kubeflow_job, replicas, training_job, worker
from world import World


def _et(workers: int = 3, policy: str = "Always", **spec: Any) -> dict[str, Any]:
    job = training_job(replicas=workers, **spec)
    worker(job)["restartPolicy"] = policy
    return job


def _torch(workers: int, policy: str = "OnFailure", **run: Any) -> dict[str, Any]:
    types = {"Master": {**replicas("PyTorchJob", 1)}, "Worker": {**replicas("PyTorchJob", workers)}}
    for one in types.values():
        one["restartPolicy"] = policy
    return kubeflow_job("PyTorchJob", types, runPolicy=run)


def _elastic(workers: int = 4) -> dict[str, Any]:
    command = ["dlrover-run", f"--nnodes=3:{workers}", "train.py"]
    return elastic_job({"worker": dlrover_type(workers, command=command)})


def _together(workers: int) -> dict[str, Any]:
    job = _torch(workers)
    job["metadata"]["annotations"] = {"etcompile.dev/restart-together": "true"}
    return job


def thousands_seen() -> World:
    return World(_torch(3000))


def restarts_counted() -> World:
    world = World(_et())
    for _ in range(4):
        world.fail("mnist-worker-1")
        world.wait(5)
    world.evict("mnist-worker-2")
    world.settle()
    return world


def left_alone() -> World:
    world = World(_et(policy="Never"))
    world.fail("mnist-worker-0")
    world.fail("mnist-worker-2", 137)
    world.wait(30)
    return world


def some_are_done() -> World:
    world = World(kubeflow_job("PyTorchJob", {"Worker": 12}))
    for index in (0, 1, 2, 7):
        world.succeed(f"mnist-worker-{index}")
    world.settle()
    world.vanish("mnist-worker-7")
    world.settle()
    return world


def with_a_deadline() -> World:
    world = World(_torch(2, activeDeadlineSeconds=600))
    world.wait(100)
    return world


def gone_while_nobody_watched() -> World:
    world = World(_torch(4))
    world.vanish("mnist-worker-2")
    world.restart_watcher()
    world.settle()
    return world


def restarting_together() -> World:
    world = World(_together(3))
    world.fail("mnist-worker-1")
    world.settle()
    return world


def restarted_as_a_whole() -> World:
    world = World(_et(policy="ExitCode", restartPolicy="OnFailure", backoffLimit=3))
    world.fail("mnist-launcher")
    world.wait(30)
    world.fail("mnist-launcher")
    world.settle()
    return world


def followed_by_others() -> World:
    world = World(_elastic())
    world.fail("mnist-edljob-worker-1")
    world.wait(30)
    world.fail("mnist-edljob-worker-4")
    world.evict("mnist-edljob-worker-2")
    world.wait(30)
    return world


def followed_with_more_memory() -> World:
    memory = {"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    server = dlrover_type(2, command=["python", "train.py"])
    given = {"ps": server, "worker": dlrover_type(3, command=["python"], resources=memory)}
    job = elastic_job(
        given,
        annotations={"etcompile.dev/parameter-servers": "static"},
        distributionStrategy="ParameterServerStrategy",
    )
    world = World(job)
    world.fail("mnist-edljob-worker-1", 137, reasons=("OOMKilled",))
    world.wait(30)
    return world


def hosts_by_other_names() -> World:
    job = _et()
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = ["horovodrun", "--host-discovery-script", "/x.sh", "python", "t.py"]
    world = World(job)
    world.fail("mnist-worker-1")
    world.wait(5)
    world.fail("mnist-worker-1")
    world.fail("mnist-worker-0")
    world.wait(5)
    return world


def suspended() -> World:
    world = World(_torch(2))
    world.fail("mnist-worker-1")
    world.wait(5)
    world.job = World(_torch(2, suspend=True), start=False).job
    world.settle()
    return world


def scaled_in() -> World:
    world = World(_et(workers=5))
    world.job = World(_et(workers=3), start=False).job
    world.settle()
    return world


def on_a_node_that_does_not_answer() -> World:
    world = World(_torch(2))
    world.change("mnist-worker-1", deleting=True, due=world.now + 30, ready=False)
    world.wait(100, ready=False)
    return world


def ended() -> World:
    world = World(_torch(2, policy="Never"))
    world.fail("mnist-worker-1")
    world.wait(30)
    return world


RUNS: dict[str, Callable[[], World]] = {
    one.__name__: one
    for one in (
        thousands_seen,
        restarts_counted,
        left_alone,
        some_are_done,
        with_a_deadline,
        gone_while_nobody_watched,
        restarting_together,
        restarted_as_a_whole,
        followed_by_others,
        followed_with_more_memory,
        hosts_by_other_names,
        suspended,
        scaled_in,
        on_a_node_that_does_not_answer,
        ended,
    )
}
