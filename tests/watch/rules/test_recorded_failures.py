"""What failed is written down before its Pod goes, once, and in the attempt that it was of."""

from typing import Any

from etcompile.causes.log import Failure, first_causes
from etcompile.watch.core.run import CreatePod, DeletePod, WriteStatus
from specs import kubeflow_job
from world import World

LOST = "ConnectionResetError: Connection reset by peer"


def together() -> World:
    return World(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3}, together=True))


def fails(world: World, name: str, code: int = 1, **facts: Any) -> None:
    pod = world.pods[name]
    more = {"at": world.now, "code": code, "reason": "Error", "node": "gpu-0", **facts}
    failure = Failure(pod.role, pod.index or 0, name, f"{pod.uid}.main.1", 0, **more)
    world.fail(name, code, failures=(failure,))


def test_failure_is_recorded_before_its_pod_is_deleted() -> None:
    world = together()
    fails(world, "mnist-worker-1", tail="step 7\nValueError: bad shape")
    world.settle()
    [failure] = world.failures
    known = failure.pod, failure.code, failure.tail
    assert known == ("mnist-worker-1", 1, "step 7\nValueError: bad shape")
    written = next(n for n, one in enumerate(world.done) if isinstance(one, WriteStatus))
    gone = next(n for n, one in enumerate(world.done) if isinstance(one, CreatePod | DeletePod))
    assert written < gone
    world.wait(60)
    world.restart_watcher()
    world.wait(60)
    assert world.failures == (failure,)


def test_events_and_record_explain_a_failure_as_why_does() -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3})
    alone, gang = World(document), together()
    for world in (alone, gang):
        fails(world, "mnist-worker-1", 137, reason="OOMKilled")
        world.settle()
    words = "ran out of memory (OOMKilled, exit code 137, SIGKILL)"
    assert [one.in_words for one in alone.failures] == [words]
    assert alone.emitted("PodReplaced")[0].message.startswith(f"{words}: recreating it")
    assert gang.record.message.startswith(f"mnist-worker-1: {words}"), gang.record
    fails(alone, "mnist-worker-2", 3)
    alone.settle()
    assert alone.emitted("PodReplaced")[1].message.startswith("ended with exit code 3: recreating")


def test_record_and_event_name_the_failure_that_others_followed_from() -> None:
    alone = World(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3}, "Never"))
    gang = together()
    for world in (alone, gang):
        fails(world, "mnist-worker-0", tail=LOST)
        fails(world, "mnist-worker-2", 137, reason="OOMKilled")
        world.settle()
        words = "mnist-worker-2: ran out of memory (OOMKilled, exit code 137, SIGKILL)"
        assert world.record.message.startswith(words), world.record
    assert alone.emitted("JobFailed")[0].message.startswith(words)


def test_failure_reported_late_belongs_to_the_attempt_that_it_ended() -> None:
    world = together()
    fails(world, "mnist-worker-0", tail=LOST)
    world.settle()
    assert world.record.restarts == 1
    # Another kubelet was slower, and its Pod is on its way out already.
    pod = world.pods["mnist-worker-2"]
    known = "worker", 2, pod.name, f"{pod.uid}.main.1", 0, world.now - 1, "gpu-7"
    failure = Failure(*known, code=137, reason="OOMKilled")
    world.change("mnist-worker-2", phase="Failed", deleting=True, failures=(failure,))
    world.now += 2
    world.settle()
    assert {one.pod for one in world.failures} == {"mnist-worker-0", "mnist-worker-2"}
    assert first_causes(world.failures)[0].pod == "mnist-worker-2"
    world.wait(60)
    fails(world, "mnist-worker-1")
    world.settle()
    firsts = first_causes(world.failures)
    assert {number: one.pod for number, one in firsts.items()} == {
        0: "mnist-worker-2",
        1: "mnist-worker-1",
    }


def test_deleted_pod_is_recorded_as_deleted() -> None:
    world = together()
    world.delete("mnist-worker-1")
    world.wait(30)
    assert world.record.restarts == 1
    [failure] = world.failures
    assert (failure.pod, failure.cause.name) == ("mnist-worker-1", "Deleted")


def test_deletion_is_the_cause_of_what_fails_while_the_pod_still_ends() -> None:
    world = together()
    world.change("mnist-worker-1", deleting=True, deletion_requested=world.now)
    world.now += 1
    fails(world, "mnist-master-0", tail=LOST)
    world.settle()
    assert world.record.message == "mnist-worker-1: deleted"
    assert first_causes(world.failures)[0].pod == "mnist-worker-1"


def test_recorded_failures_stay_until_another_run_begins() -> None:
    world = together()
    for _ in range(20):
        if world.record.ended:
            break
        for name in world.declared:
            fails(world, name, tail=LOST if name != "mnist-worker-2" else "Segmentation fault")
        world.wait(400)
    before = world.failures
    assert before
    world.wait(600)
    assert world.failures == before
    world.documents = (kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}),)
    other = World(*world.documents, start=False)
    other.status = world.status
    other.sync()
    other.get_ready()
    other.settle()
    assert other.failures == ()


def test_failures_alone_are_written_once_a_second() -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 40})
    for spec in document["spec"]["pytorchReplicaSpecs"].values():
        spec["restartPolicy"] = "Never"
    world = World(document)
    world.done.clear()
    for index in range(40):
        name = f"mnist-worker-{index}"
        pod = world.pods[name]
        failure = Failure("worker", index, name, f"{pod.uid}.main.1", 0, world.now, code=1)
        world.change(name, failures=(failure,))  # its container runs again
        world.settle()
        world.now += 0.1
    world.wait(5)
    assert len(world.of(WriteStatus)) <= 6
    assert len(world.failures) == 20
