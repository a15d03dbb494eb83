"""How long a run has been in training: through failures, restarts and watchers that were away."""

from typing import Any

from etcompile.causes.goodput import goodput
from etcompile.watch.core.run import WriteStatus
from etcompile.watch.listeners.timeline import timeline
from specs import kubeflow_job, training_job
from watch.rules.supervised import FIRST, begins, failed
from watch.rules.supervised import pytorch_job as in_place
from world import START, World


def pytorch_job(**policy: Any) -> dict[str, Any]:
    return kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3}, runPolicy=policy)


def seconds(world: World) -> tuple[float, float]:
    """Seconds in training, and since the run began, as whoever asks now is told."""
    run_timeline = timeline(world.view(), world.record, world.now)
    assert run_timeline is not None
    value = goodput(run_timeline, world.now)
    return value.training, value.elapsed


def test_undisturbed_run_is_training_and_costs_no_write() -> None:
    world = World(training_job(replicas=3))
    world.wait(3600)
    written = len(world.of(WriteStatus))
    world.wait(3600)
    assert len(world.of(WriteStatus)) == written
    assert seconds(world) == (7200.0, 7200.0)


def test_run_is_not_training_while_a_replica_is_missing() -> None:
    world = World(pytorch_job())
    world.wait(100)
    world.fail("mnist-worker-1", 137)
    world.settle()
    world.now += 40
    world.settle()
    assert world.timeline.times == ((START, START + 100),)
    assert seconds(world) == (100.0, 140.0)
    world.restart_watcher()  # what is written down outlives it
    world.wait(60)
    assert seconds(world) == (160.0, 200.0)


def test_watcher_that_was_away_counts_only_what_pods_show() -> None:
    world = World(pytorch_job())
    world.now += 5000  # nobody watches, and all goes well
    world.restart_watcher()
    world.settle()
    assert seconds(world) == (5000.0, 5000.0)
    # A Pod goes without a trace while nobody watches: since when is not known.
    world.vanish("mnist-worker-1")
    world.now += 3000
    world.restart_watcher()
    world.wait(30, ready=False)
    assert seconds(world) == (0.0, 8030.0)


def test_elastic_role_is_training_with_its_least_replicas() -> None:
    world = World(training_job(replicas=3))
    world.wait(100)
    world.fail("mnist-worker-2", 137)
    world.wait(100, ready=False)
    assert seconds(world) == (200.0, 200.0)


def test_timeline_ends_when_the_deciding_pods_ended() -> None:
    world = World(training_job(replicas=2))
    world.now += 600
    world.succeed("mnist-launcher")
    world.now += 3600
    world.restart_watcher()
    world.settle()
    assert world.record.phase == "Succeeded"
    assert seconds(world)[0] == 600


def test_attempt_of_a_timeline_ends_with_the_cause_of_its_restart() -> None:
    world = World(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3}, together=True))
    world.wait(50)
    world.fail("mnist-master-0", 1)
    world.wait(4)  # its Pods are made again, and start
    world.wait(96)
    first, second = world.timeline.attempts
    assert (first.number, first.began, first.ended) == (0, START, START + 50)
    assert first.why.startswith("mnist-master-0: ")
    assert (second.number, second.ended) == (1, 0.0)
    training, elapsed = seconds(world)
    assert (training, elapsed) == (146.0, 150.0)


def test_job_applied_again_has_a_new_timeline() -> None:
    world = World(pytorch_job())
    world.wait(50)
    world.apply_again()
    world.get_ready()
    world.wait(20)
    assert seconds(world)[1] <= 20.0


def test_each_restart_in_place_is_an_attempt_with_its_cause() -> None:
    """That commands which do not run are not training: tests/goodput/test_spans."""
    world = World(in_place())
    for epoch in range(1, 5):
        world.wait(60)
        world.says(FIRST, begins(epoch, epoch, failed("worker-1")))
    world.wait(60)
    assert [attempt.number for attempt in world.timeline.attempts] == [0, 1, 2, 3, 4]
    assert world.timeline.attempts[1].why == "worker-1 failed first: exit code 1"
