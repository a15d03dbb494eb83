"""What failed is written down before its Pod goes, once, and in the attempt that it was of."""

from typing import Any

import pytest
from msgspec import structs

from etcompile.failures import Failure, first_causes
from etcompile.watch.actions import DeletePod, ReadTail, ReplacePod, WriteStatus
from etcompile.watch.state import Tail
from specs import kubeflow_job
from watch.rules.gang import Gang, stamp
from world import World

LOST = "ConnectionResetError: Connection reset by peer"


def together(workers: int = 3) -> World:
    """A PyTorchJob that is made again as a whole when a replica fails."""
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": workers})
    document["metadata"]["annotations"] = {"etcompile.dev/restart-together": "true"}
    return World(document)


def fails(world: World, name: str, code: int = 1, **facts: Any) -> None:
    """A Pod fails, as its kubelet tells it."""
    pod = world.pods[name]
    more = {"at": world.now, "code": code, "reason": "Error", "node": "gpu-0", **facts}
    told = Failure(pod.role, pod.index or 0, name, f"{pod.uid}.main.1", 0, **more)
    world.fail(name, code, failures=(told,))


def test_a_failure_is_written_down_before_its_pod_is_deleted() -> None:
    world = together()
    fails(world, "mnist-worker-1", tail="step 7\nValueError: bad shape")
    world.settle()
    [kept] = world.failures
    assert (kept.pod, kept.code, kept.tail) == (
        "mnist-worker-1",
        1,
        "step 7\nValueError: bad shape",
    )
    written = next(n for n, one in enumerate(world.done) if isinstance(one, WriteStatus))
    gone = next(n for n, one in enumerate(world.done) if isinstance(one, ReplacePod | DeletePod))
    assert written < gone
    world.wait(60)
    world.restart_watcher()
    world.wait(60)
    assert world.failures == (kept,)


def test_events_and_the_record_say_what_why_says() -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3})
    alone, gang = World(document), together()
    for world in (alone, gang):
        fails(world, "mnist-worker-1", 137, reason="OOMKilled")
        world.settle()
    words = "ran out of memory (OOMKilled, exit code 137, SIGKILL)"
    assert [one.in_words for one in alone.failures] == [words]
    assert alone.told("PodReplaced")[0].message.startswith(f"{words}: recreating it")
    assert gang.record.message.startswith(f"mnist-worker-1: {words}"), gang.record
    fails(alone, "mnist-worker-2", 3)
    alone.settle()
    assert alone.told("PodReplaced")[1].message.startswith("ended with exit code 3: recreating")


def test_what_is_told_late_is_of_the_attempt_that_it_ended() -> None:
    world = together()
    fails(world, "mnist-worker-0", tail=LOST)
    world.settle()
    assert world.record.restarts == 1
    # Another kubelet was slower, and its Pod is on its way out already.
    pod = world.pods["mnist-worker-2"]
    late = Failure("worker", 2, pod.name, f"{pod.uid}.main.1", 0, world.now - 1, "gpu-7")
    facts = {"code": 137, "reason": "OOMKilled"}
    told = Failure(*(getattr(late, name) for name in Failure.__struct_fields__[:7]), **facts)
    world.change("mnist-worker-2", phase="Failed", deleting=True, failures=(told,))
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


def test_a_pod_that_somebody_deletes_says_so() -> None:
    world = together()
    world.delete("mnist-worker-1")
    world.wait(30)
    assert world.record.restarts == 1
    [kept] = world.failures
    assert (kept.pod, kept.cause.name) == ("mnist-worker-1", "Deleted")


def test_the_log_outlives_the_run_and_ends_with_it() -> None:
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
        told = Failure("worker", index, name, f"{pod.uid}.main.1", 0, world.now, code=1)
        world.change(name, failures=(told,))  # its container runs again
        world.settle()
        world.now += 0.1
    world.wait(5)
    assert len(world.of(WriteStatus)) <= 6
    assert len(world.failures) == 20


def ended_lines(at: str, code: int) -> tuple[str, ...]:
    """The last lines of a command that has ended, as its supervisor leaves them."""
    return (
        f"{at} etcompile: epoch 0 begins",
        f"{at} step 7",
        f"{at} etcompile: the command ended with exit code {code}; it can begin again here",
        "2096-01-01T00:00:00Z etcompile: the command ended with exit code 1; in a later epoch",
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_a_command_said_last_is_written_down_with_the_epoch_that_it_ends(seed: int) -> None:
    gang = Gang(seed, 1)
    gang.pass_time(20)
    writes = len(gang.of(WriteStatus))
    gang.kill_process("mnist-worker-0", 139)
    while gang.record.epoch == 0:
        assert gang.failures == ()  # it is not sure yet
        gang.pass_time(1)
        for ask in gang.of(ReadTail):
            code = 139 if ask.name == "mnist-worker-0" else 1
            gang.tails[ask.uid] = Tail(ask.of, ended_lines(stamp(gang.now), code))
    assert len(gang.of(WriteStatus)) == writes + 1
    [told] = [one for one in gang.failures if one.pod == "mnist-worker-0"]
    assert (told.code, told.signal, told.tail) == (139, 11, "step 7")


def test_a_log_that_did_not_tell_yet_is_read_once_more_and_then_given_up() -> None:
    gang = Gang(0, 1)
    gang.pass_time(20)
    gang.kill_process("mnist-worker-0", 139)
    while gang.record.epoch == 0:
        for ask in gang.of(ReadTail):
            gang.tails[ask.uid] = Tail(ask.of, (f"{stamp(gang.now)} step 7",))
        gang.pass_time(1)
    [began] = {one.at for one in gang.failures if one.pod == "mnist-worker-0"}
    asked = [one for one in gang.of(ReadTail) if one.name == "mnist-worker-0"]
    assert len(asked) == 2
    gang.tails[asked[1].uid] = Tail(asked[1].of, ended_lines(stamp(began), 139))
    other = next(one for one in reversed(gang.of(ReadTail)) if one.name == "mnist-master-0")
    gang.tails[other.uid] = Tail(other.of, ())
    gang.pass_time(10)
    told = {one.pod: one for one in gang.failures}
    assert told["mnist-worker-0"].code == 139
    assert told["mnist-master-0"].message == "its log could not be read"
    assert len([one for one in gang.of(ReadTail) if one.name == "mnist-master-0"]) <= 2


def test_a_log_that_cannot_be_read_is_given_up_at_once_with_the_epoch() -> None:
    gang = Gang(0, 1)
    gang.pass_time(20)
    writes = len(gang.of(WriteStatus))
    gang.kill_process("mnist-worker-0", 139)
    while gang.record.epoch == 0:
        for ask in gang.of(ReadTail):
            gang.tails[ask.uid] = Tail(ask.of, ())
        gang.pass_time(1)
    gang.pass_time(5)
    assert len(gang.of(WriteStatus)) == writes + 1
    assert {one.message for one in gang.failures} == {"its log could not be read"}
    assert len([one for one in gang.of(ReadTail) if one.name == "mnist-worker-0"]) == 1


def test_a_log_read_too_early_is_read_again_when_the_command_really_ends() -> None:
    gang = Gang(1)
    gang.pass_time(20)
    pod = gang.pods["mnist-worker-1"]
    working = pod.supervised
    assert working is not None
    [container] = working.containers
    flapped = structs.replace(
        working, containers=(structs.replace(container, ready=False),), since=stamp(gang.now)
    )
    gang.change("mnist-worker-1", supervised=flapped)
    gang.settle()
    [early] = gang.of(ReadTail)
    gang.tails[pod.uid] = Tail(early.of, (f"{stamp(gang.now)} step 6",))
    gang.change("mnist-worker-1", supervised=structs.replace(working, since=stamp(gang.now + 1)))
    gang.pass_time(20)
    assert gang.record.epoch == 0
    gang.kill_process("mnist-worker-1", 139)
    gang.pass_time(6)
    again = [one for one in gang.of(ReadTail) if one.name == "mnist-worker-1" and one != early]
    gang.tails[pod.uid] = Tail(again[0].of, ended_lines(stamp(gang.now - 5), 139))
    gang.pass_time(3)
    [told] = [one for one in gang.failures if one.pod == "mnist-worker-1"]
    assert (told.code, told.tail) == (139, "step 7")


def test_a_command_that_ends_in_a_pod_that_stays_is_told_from_its_log() -> None:
    gang = Gang(1)
    gang.pass_time(20)
    gang.kill_process("mnist-worker-1", 139)
    gang.pass_time(6)
    kept = [one for one in gang.failures if one.reason == "CommandEnded"]
    assert "mnist-worker-1" in {one.pod for one in kept}
    asked = {one.of: one for one in gang.of(ReadTail)}
    assert {one.name for one in asked.values()} == {one.pod for one in kept}
    [own] = [one for one in kept if one.pod == "mnist-worker-1"]
    [ask] = [one for one in asked.values() if one.name == own.pod]
    gang.tails[ask.uid] = Tail(ask.of, ended_lines(stamp(own.at), 139))
    gang.pass_time(3)
    [told] = [one for one in gang.failures if one.uid == own.uid]
    assert (told.code, told.signal, told.tail) == (139, 11, "step 7")
