"""A phase that waits says for what, and has a way out."""

from specs import kubeflow_job
from world import World

TOGETHER = kubeflow_job("PyTorchJob", {"Worker": 3}, "OnFailure", together=True)


def test_joint_restart_creates_a_replica_that_was_never_there() -> None:
    world = World(TOGETHER, start=False)
    world.create("mnist-worker-0")
    world.create("mnist-worker-1")
    world.get_ready()
    world.settle()
    world.fail("mnist-worker-0")
    world.wait(60)
    assert sorted(world.pods) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]
    assert world.record.phase == "Running"


def test_joint_restart_says_after_a_minute_which_pod_it_waits_for() -> None:
    world = World(TOGETHER)
    world.fail("mnist-worker-0")
    world.settle()
    world.wait(50, ready=False)
    assert world.emitted("JobNotStarting") == []
    world.wait(20, ready=False)
    [event] = world.emitted("JobNotStarting")
    assert event.message.startswith("the restart waits for mnist-worker-1 ")
    assert "mnist-worker-0: " in world.record.message
    world.wait(60)
    assert (world.record.phase, world.record.reason) == ("Running", "")
    assert len(world.emitted("JobNotStarting")) == 1


def test_run_without_its_record_says_which_pods_are_missing() -> None:
    world = World(TOGETHER)
    world.fail("mnist-worker-0")
    world.settle()
    world.status = None  # somebody deletes it in the middle of a restart
    for name in list(world.pods):
        world.vanish(name)
    world.gone.clear()
    world.wait(70)
    [event] = world.emitted("JobNotStarting")
    assert "Apply the job again" in event.message
    world.sync()
    world.wait(10)
    assert world.record.phase == "Running"
