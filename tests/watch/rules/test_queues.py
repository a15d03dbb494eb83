"""Pods that Kueue holds are let go when they have ended, so that others have their names.

The same with the real Kueue: tests/queues.
"""

from etcompile.model import Settings
from specs import elastic_job, kubeflow_job, replicas, training_job
from world import World


def queued(**policies: str) -> World:
    types = {"Worker": {**replicas("PyTorchJob", 3), "restartPolicy": "ExitCode"}}
    job = kubeflow_job("PyTorchJob", types)
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


def test_gang_in_a_queue_restarts_under_its_names() -> None:
    world = queued(**{"restart-together": "true"})
    before = {pod.uid for pod in world.pods.values()}
    world.fail("mnist-one-worker-1", 137)
    world.wait(300)
    assert sorted(world.pods) == names(0, 1, 2)
    assert before.isdisjoint(pod.uid for pod in world.pods.values())
    assert (world.record.phase, world.record.restarts) == ("Running", 1)


def test_all_pods_of_a_group_restart_when_one_ended_with_0_on_deletion() -> None:
    """Kueue counts it as done, and would delete another one in its place."""
    world = queued()
    before = {pod.uid for pod in world.pods.values()}
    world.ends_with_0.add("mnist-one-worker-1")
    world.change("mnist-one-worker-1", deleting=True, due=world.now + 30)
    world.wait(300)
    assert sorted(world.pods) == names(0, 1, 2)
    assert before.isdisjoint(pod.uid for pod in world.pods.values())
    assert world.record.restarts == 0  # nothing has failed
    [event] = world.emitted("JobRestarted")
    assert "ended with exit code 0 when it was deleted" in event.message


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


def test_preempted_gang_comes_back_when_all_pods_are_gone() -> None:
    world = queued()
    before = {pod.uid for pod in world.pods.values()}
    for name in [*world.pods]:
        world.ends_with_0.add(name)
        world.change(name, deleting=True, due=world.now + 30)
    world.wait(300)
    assert sorted(world.pods) == names(0, 1, 2)
    assert before.isdisjoint(pod.uid for pod in world.pods.values())
    assert world.emitted("JobRestarted") == []


def test_pod_that_missed_its_group_restarts_with_the_others() -> None:
    world = queued()
    world.change("mnist-one-worker-2", left_out_by_queue=True, held_by_queue=False, phase="Pending")
    world.wait(300)
    assert sorted(world.pods) == names(0, 1, 2)
    assert not any(pod.left_out_by_queue for pod in world.pods.values())


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


def test_job_without_a_group_restarts_no_other_pod() -> None:
    types = {"Worker": {**replicas("PyTorchJob", 3), "restartPolicy": "ExitCode"}}
    world = World(kubeflow_job("PyTorchJob", types))
    others = {pod.uid for name, pod in world.pods.items() if name != "mnist-worker-1"}
    ended = {"deleting": True, "due": world.now + 30, "phase": "Succeeded"}
    world.change("mnist-worker-1", held_by_queue=True, **ended)
    world.settle()
    assert others <= {pod.uid for pod in world.pods.values()}
    assert world.emitted("JobRestarted") == []
