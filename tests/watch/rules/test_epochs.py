"""Epochs as the supervisors report them; the watcher only brings back Pods that are gone."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from defects.test_trainer import job, replicated, runtime
from etcompile.causes.log import Failure
from etcompile.model.supervision import epoch_line
from etcompile.watch.core.run import CreatePod, DeletePod, EmitEvent, LogRead, PatchPod, WriteStatus
from watch.rules.supervised import FIRST, begins, failed, pytorch_job, uids
from watcher_rules import observed
from world import World, mpi_job


def changes(world: World) -> list[Any]:
    kinds = (CreatePod, DeletePod, PatchPod)
    return [one for one in world.done if isinstance(one, kinds)]


# Learning of epochs ----------------------------------------------------------------------------


def test_undisturbed_run_costs_one_log_request_every_ten_seconds() -> None:
    world = World(pytorch_job())
    world.wait(100)
    reads = world.reads("epochs")
    assert {one.name for one in reads} == {FIRST}
    assert 9 <= len(reads) <= 11
    assert world.record.epoch == 0
    assert not changes(world)
    assert not world.of(WriteStatus)


def test_epoch_is_recorded_and_no_pod_is_changed() -> None:
    world = World(pytorch_job())
    before = uids(world)
    world.now += 50
    world.says(FIRST, begins(1, 1, failed("worker-1", 137)))
    at = world.now
    world.wait(15)
    assert (world.record.epoch, world.record.restarts) == (1, 1)
    assert world.record.restarts_in_a_row == 1
    assert world.record.epoch_reason == "worker-1 failed first: exit code 137"
    assert world.record.restarted_at == at
    [event] = world.emitted("EpochBegins")
    assert event.warning
    assert event.message.startswith("worker-1 failed first: exit code 137: epoch 1 begins")
    assert uids(world) == before
    assert not changes(world)
    [failure] = world.failures
    assert (failure.pod, failure.code, failure.attempt) == ("mnist-worker-1", 137, 0)
    writes = len(world.of(WriteStatus))
    world.wait(600)
    assert len(world.of(WriteStatus)) == writes


def test_watcher_that_was_away_counts_each_epoch_once() -> None:
    world = World(pytorch_job())
    world.says(FIRST, begins(1, 1, failed("worker-1")))
    world.wait(20)
    for epoch in (2, 3, 4):
        world.now += 30
        world.says(FIRST, begins(epoch, epoch, failed("worker-0")))
    world.restart_watcher()
    world.wait(20)
    assert (world.record.epoch, world.record.restarts) == (4, 4)
    assert [event.message.split(": ")[2] for event in world.emitted("EpochBegins")] == [
        f"epoch {epoch} begins in the existing Pods" for epoch in (1, 2, 3, 4)
    ]
    world.restart_watcher()
    world.wait(100)
    assert (world.record.epoch, world.record.restarts) == (4, 4)
    assert len(world.emitted("EpochBegins")) == 4


def test_epoch_is_read_from_termination_messages() -> None:
    text = "step 7\netcompile: epoch 3 begins (restarts: 2, in a row: 0): worker-0 was deleted\nx"
    ended = {"exitCode": 1, "message": text, "finishedAt": "2026-11-23T10:00:00Z"}
    status = {"name": "main", "restartCount": 1, "lastState": {"terminated": ended}}
    metadata = {"name": "p", "uid": "u", "labels": {"etcompile.dev/role": "worker"}}
    pod = {"metadata": metadata, "status": {"phase": "Running", "containerStatuses": [status]}}
    world = World(pytorch_job())
    world.change("mnist-worker-1", epochs=observed(pod).epochs, restarts=1)
    world.wait(1)
    assert (world.record.epoch, world.record.restarts) == (3, 2)
    assert world.record.epoch_reason == "worker-0 was deleted"


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 begins (restarts: 1, in a row: 1): x",
        "etcompile: epoch 1 begins",
        "etcompile: epoch 1234567890 begins (restarts: 1, in a row: 1): x",
        "etcompile: epoch 1 stops (restarts: 1, in a row: 1): x",
        "etcompile: epoch \N{ARABIC-INDIC DIGIT ONE} begins (restarts: 1, in a row: 1): x",
    ],
)
def test_text_that_no_supervisor_writes_is_no_epoch_line(text: str) -> None:
    assert epoch_line(text) is None


def test_log_that_may_not_be_read_is_retried_after_minutes() -> None:
    world = World(pytorch_job())
    world.known_logs[world.pods[FIRST].uid] = {"epochs": LogRead(at=world.now, failed=True)}
    before = len(world.reads("epochs"))
    world.wait(299)
    assert len(world.reads("epochs")) == before
    world.wait(2)
    assert len(world.reads("epochs")) == before + 1


def test_command_without_a_supervisor_is_reported() -> None:
    script = (Path(__file__).parents[3] / "templates" / "supervise.sh.j2").read_text()
    [line] = re.findall("echo '(etcompile: unsupervised: .*)'", script)
    world = World(pytorch_job())
    lines = (f"2026-01-01T00:00:01Z {line}",)
    world.known_logs[world.pods[FIRST].uid] = {"epochs": LogRead(lines=lines)}
    [event] = [action for action in world.decide() if isinstance(action, EmitEvent)]
    assert (event.reason, event.pod, event.once) == ("Unsupervised", FIRST, True)
    assert event.message.startswith("this image has no Python 3.8")


# Bringing back Pods ----------------------------------------------------------------------------


ORDERS = [order for size in range(2, 5) for order in itertools.permutations("degl", size)]


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_deleted_pod_never_counts_in_any_order_of_events(order) -> None:
    """d: somebody deletes it; e: its container ends; g: it is gone; l: the supervisors' line."""
    world = World(pytorch_job(limit=0))
    name = "mnist-worker-1"
    for event in order:
        if event == "l":
            world.says(FIRST, begins(1, 0, "worker-1 was deleted"))
        elif name not in world.pods or world.pods[name].phase == "Pending":
            continue
        elif event == "d":
            world.change(name, deleting=True)
        elif event == "e" and world.pods[name].deleting:
            world.change(name, phase="Failed", ready=False, exits=(("pytorch", 143),))
        elif event == "e":  # the kubelet of a node without room ends it first
            world.evict(name, 137)
        else:
            world.vanish(name)
        world.now += 1
        world.settle()
    world.wait(60)
    assert world.record.phase == "Running"
    assert (world.record.restarts, sum(world.record.replaced.values())) == (0, 0)
    assert {*world.pods} == {*world.declared}


def test_text_of_an_epoch_line_is_printable_and_short() -> None:
    line = epoch_line("etcompile: " + begins(1, 1, "\x1b[31m" + "x" * 2000))
    assert line is not None
    assert "\x1b" not in line.why
    assert len(line.why) <= 300


def test_failed_pod_counts_once_and_comes_back() -> None:
    world = World(pytorch_job(limit=1))
    world.fail("mnist-worker-1", 137)
    world.wait(30)
    world.says(FIRST, begins(1, 0, "worker-1 was deleted"))
    world.wait(30)
    assert world.record.replaced == {"worker": 1}
    assert world.record.phase == "Running"
    world.says(FIRST, begins(2, 1, failed("worker-0")))
    world.wait(15)
    assert world.record.reason == "BackoffLimitExceeded"


# The end, and other Pods -----------------------------------------------------------------------


def test_container_that_the_kubelet_restarts_counts_as_one_epoch() -> None:
    world = World(pytorch_job(limit=2))
    world.change("mnist-worker-1", restarts=1)
    world.says(FIRST, begins(1, 1, "the container of worker-1 was killed"))
    world.wait(15)
    world.change("mnist-worker-1", restarts=2)
    world.says(FIRST, begins(2, 2, "the container of worker-1 was killed"))
    world.wait(15)
    assert (world.record.phase, world.record.restarts) == ("Running", 2)
    assert not changes(world)


@pytest.mark.parametrize(
    ("restart", "why", "reason"),
    [
        ("OnFailure", "backoffLimit 2 is reached", "BackoffLimitExceeded"),
        ("ExitCode", "its exit code is not retried", "PodFailed"),
    ],
)
def test_last_epoch_ends_the_run(restart: str, why: str, reason: str) -> None:
    world = World(pytorch_job(restart=restart, limit=2))
    why = f"{why}: worker-1 failed first: exit code 3"
    world.says(FIRST, f"epoch 2 is the last (restarts: 2, in a row: 2): {why}", ended=True)
    world.fail("mnist-worker-0", 143)
    world.settle()
    assert (world.record.phase, world.record.reason) == ("Failed", reason)
    assert (world.record.message, world.record.restarts) == (why, 2)
    assert world.failures[0].code == 3
    assert not any(one.uid for one in world.of(CreatePod))


def test_new_pods_after_a_deletion_are_not_counted() -> None:
    world = World(pytorch_job())
    before = uids(world)
    line = "epoch 0 needs new Pods (restarts: 0, in a row: 0): worker-1 was deleted"
    world.says(FIRST, line)
    world.wait(75)
    assert world.record.phase == "Running"
    assert not {*uids(world).values()} & {*before.values()}
    assert (world.record.restarts, world.record.restarts_in_a_row) == (0, 0)


def test_all_pods_are_recreated_once_and_get_the_epoch() -> None:
    world = World(pytorch_job())
    before = uids(world)
    for epoch in range(1, 6):
        world.now += 10
        world.says(FIRST, begins(epoch, epoch, failed("worker-1")))
    world.wait(15)
    line = f"epoch 5 needs new Pods (restarts: 5, in a row: 5): {failed('worker-1')}"
    world.says("mnist-worker-1", line, ended=True)
    world.settle()
    assert world.record.phase == "Restarting"
    world.wait(60)
    assert world.record.phase == "Running"
    assert not {*uids(world).values()} & {*before.values()}
    assert {world.annotated[name] for name in world.declared} == {"5 6"}
    world.says(FIRST, begins(6, 6, "all Pods were made anew", 0))
    world.wait(15)
    assert (world.record.epoch, world.record.restarts) == (6, 6)
    assert world.record.restarts_in_a_row == 6
    after = uids(world)
    for restarts in range(7, 12):
        world.now += 10
        world.says(FIRST, begins(restarts, restarts, failed("worker-1"), restarts - 6))
    world.wait(15)
    assert uids(world) == after
    assert (world.record.phase, world.record.reason) == ("Failed", "RestartsInARow")


# Each by itself --------------------------------------------------------------------------------


def test_long_epoch_ends_a_series_of_restarts() -> None:
    world = World(pytorch_job())
    for epoch in range(1, 30):
        world.now += 700
        world.says(FIRST, begins(epoch, epoch, failed("worker-1"), 1))
        world.wait(15)
    assert (world.record.phase, world.record.restarts_in_a_row) == ("Running", 1)


def launcher(limit: int | None = None) -> World:
    document = mpi_job()
    document["metadata"]["annotations"] = {"etcompile.dev/restart": "in-place"}
    for role in document["spec"]["mpiReplicaSpecs"].values():
        role["restartPolicy"] = "OnFailure"
    if limit is not None:
        document["spec"]["runPolicy"] = {"backoffLimit": limit}
    return World(document)


def test_launcher_reports_its_epochs() -> None:
    world = launcher()
    before = uids(world)
    world.says("mnist-launcher", begins(1, 1, failed("launcher-0")))
    world.wait(15)
    assert (world.record.epoch, world.record.replaced) == (1, {"launcher": 1})
    assert world.record.epoch_reason == "mnist-launcher: launcher-0 failed first: exit code 1"
    [event] = world.emitted("CommandRestarted")
    assert event.pod == "mnist-launcher"
    assert uids(world) == before
    assert {one.name for one in world.reads("epochs")} == {"mnist-launcher"}
    [failure] = world.failures
    assert failure.pod == "mnist-launcher"
    world.delete("mnist-launcher")
    world.wait(30)
    assert world.annotated["mnist-launcher"] == "1 1"
    world.says("mnist-launcher", begins(2, 1, "all Pods were made anew", 0))
    world.wait(15)
    assert (world.record.epoch, world.record.replaced) == (2, {"launcher": 1})


def test_launcher_that_needs_a_new_pod_is_recreated_alone() -> None:
    world = launcher()
    before = uids(world)
    world.says("mnist-launcher", "epoch 5 needs new Pods (restarts: 5, in a row: 5): x", ended=True)
    world.wait(60)
    after = uids(world)
    assert {name for name in after if after[name] != before[name]} == {"mnist-launcher"}
    assert world.annotated["mnist-launcher"] == "5 5"


def test_elastic_nodes_restart_within_their_limit_and_then_all_together() -> None:
    training_runtime = runtime()
    replicated(training_runtime)["template"]["spec"]["backoffLimit"] = 2
    training_runtime["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 1}
    trainjob = job(trainer={"numNodes": 1})
    names = {"etcompile.dev/restart": "in-place", "etcompile.dev/nnodes": "1:4"}
    trainjob["metadata"]["annotations"] = names
    world = World(training_runtime, trainjob)
    last = "epoch 2 is the last (restarts: 2, in a row: 2): backoffLimit 2 is reached: x"
    before = uids(world)
    for epoch in (1, 2):
        world.says("t-node-0-0", begins(epoch, epoch, failed("node-0")))
        world.wait(15)
    assert (world.record.replaced, world.record.restarts) == ({"node": 2}, 0)
    world.says("t-node-0-0", last, ended=True)
    world.wait(60)
    assert (world.record.phase, world.record.restarts) == ("Running", 1)
    assert uids(world)["t-node-0-0"] != before["t-node-0-0"]
    assert world.annotated["t-node-0-0"] == "2 0"
    world.says("t-node-0-0", last.replace("2 is the", "5 is the"), ended=True)
    world.wait(60)
    assert (world.record.phase, world.record.reason) == ("Failed", "BackoffLimitExceeded")


# What it failed of -----------------------------------------------------------------------------


def test_last_lines_of_the_first_failure_are_read_from_its_log() -> None:
    world = World(pytorch_job())
    world.says(FIRST, begins(1, 1, failed("worker-1", 139)))
    world.wait(15)
    [ask] = world.reads("end")
    assert ask.name == "mnist-worker-1"
    lines = (
        "1970-01-12T13:46:40Z etcompile: epoch 0 begins (restarts: 0, in a row: 0): x",
        "1970-01-12T13:46:40Z step 7",
        "1970-01-12T13:46:41Z etcompile: the command ended in epoch 0: exit code 139 (SIGSEGV)",
        "1970-01-12T13:46:42Z etcompile: epoch 1 begins (restarts: 1, in a row: 1): x",
        "1970-01-12T13:46:42Z step 7 again",
    )
    world.read(ask, lines)
    world.wait(5)
    [failure] = world.failures
    assert (failure.code, failure.signal, failure.tail, failure.at) == (
        139,
        11,
        "step 7",
        1_000_001.0,
    )
    assert len(world.reads("end")) == 1


@pytest.mark.parametrize("lines", [(), ("1970-01-12T13:46:40Z step 7",)])
def test_log_without_the_failure_is_read_once(lines: tuple[str, ...]) -> None:
    world = World(pytorch_job())
    world.says(FIRST, begins(1, 1, failed("worker-1", 139)))
    world.wait(15)
    [ask] = world.reads("end")
    world.read(ask, lines)
    world.wait(30)
    [failure] = world.failures
    assert (failure.code, failure.message) == (139, "its log could not be read")
    assert len(world.reads("end")) == 1


def test_killed_container_belongs_to_the_attempt_that_it_ended() -> None:
    world = World(pytorch_job())
    world.now += 100
    pod = world.pods["mnist-worker-1"]
    died = Failure("worker", 1, pod.name, f"{pod.uid}.pytorch.1", 0, world.now - 1, code=137)
    world.says(FIRST, begins(1, 1, "the container of worker-1 was killed"))
    world.wait(15)
    world.change(pod.name, failures=(died,), restarts=1)
    world.wait(5)
    [failure] = world.failures
    assert failure.attempt == 0


def test_log_of_a_new_pod_is_not_read_for_an_older_failure() -> None:
    world = World(pytorch_job())
    world.now += 50
    world.says(FIRST, begins(1, 1, failed("worker-1", 139)))
    world.change("mnist-worker-1", created=world.now + 5)
    world.wait(15)
    assert not world.reads("end")
    assert (world.failures[0].code, world.failures[0].node) == (139, "")
