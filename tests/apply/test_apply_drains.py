"""A worker that left the host list drains for its time, whichever command removed it."""

import signal
import time
from datetime import datetime

import pytest

from apply.kubelet import ready
from specs import scale_in, training_job
from waiting import eventually

DRAIN = 8


@pytest.fixture
def gap(control_plane, namespace):
    """Seconds between the last change of the host list and the deletion of worker 1."""

    def seconds(lists: str = "mnist-config") -> float:
        at = {
            (event["verb"], event["objectRef"]["name"]): event["requestReceivedTimestamp"]
            for event in control_plane.writes(namespace)
        }
        listed, deleted = (
            datetime.fromisoformat(at[key]).timestamp()
            for key in (("patch", lists), ("delete", "mnist-worker-1"))
        )
        return deleted - listed

    return seconds


@pytest.fixture
def scaled_in(run, job, write, kubelet) -> None:
    job(replicas=2)
    run("apply", "jobs", code=0)
    write(scale_in("less", 1), name="in")


def test_a_scale_in_that_was_killed_drains_for_the_rest_of_the_time(
    run, start, scaled_in, objects, gap
):
    started = start("apply", "jobs", "--prune", "--config", f"drain={DRAIN}s")
    listed = "mnist-worker-1"
    eventually(
        lambda: listed not in objects()["ConfigMap/mnist-config"]["data"]["hostfile"], 60, str
    )
    started.send_signal(signal.SIGKILL)
    started.wait()
    done = run("apply", "jobs", "--prune", "--config", f"drain={DRAIN}s", code=0)
    assert "it was removed from the host list at 20" in done.stdout
    assert f"and drains for at most {DRAIN} s" in done.stdout
    assert gap() >= DRAIN


def test_a_prune_after_the_scale_in_drains_for_the_rest_of_the_time(run, scaled_in, gap):
    run("apply", "jobs", code=0)
    planned = run("diff", "jobs", "--prune")
    assert "wait     Pod" in planned.stdout
    assert "it was removed from the host list at 20" in planned.stdout
    run("apply", "jobs", "--prune", "--config", f"drain={DRAIN}s", code=0)
    assert gap() >= DRAIN


def test_a_plan_file_drains_for_the_rest_of_the_time(run, scaled_in, gap):
    run("apply", "jobs", code=0)
    run("diff", "jobs", "--prune", "--plan", "plan.json")
    run("apply", "plan.json", "--config", f"drain={DRAIN}s", code=0)
    assert gap() >= DRAIN


def test_a_worker_that_has_drained_is_deleted_at_once(run, scaled_in):
    run("apply", "jobs", code=0)
    time.sleep(3)  # the time that passes is what is tested
    done = run("apply", "jobs", "--prune", "--config", "drain=1s", code=0)
    assert "drains" not in done.stdout


def test_a_live_list_that_names_a_worker_restarts_its_drain(run, scaled_in, ask, gap):
    run("apply", "jobs", code=0)
    hosts = {
        "metadata": {"name": "mnist-etcompile-hosts"},
        "data": {"hostfile": "mnist-worker-0:1\n"},
    }
    time.sleep(2)
    ask("POST", "configmaps", hosts, manager="etcompile-watcher")
    change = {"data": {"hostfile": "mnist-worker-0:1 \n"}}
    ask("PATCH", "configmaps/mnist-etcompile-hosts", change, manager="etcompile-watcher")
    run("apply", "jobs", "--prune", "--config", f"drain={DRAIN}s", code=0)
    assert gap("mnist-etcompile-hosts") >= DRAIN


def test_a_service_stays_until_the_pod_that_a_killed_command_deleted_is_gone(
    run, start, scaled_in, ask, objects
):
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    ask("PATCH", "pods/mnist-worker-1", held)
    started = start("apply", "jobs", "--prune", "--config", "drain=0")
    eventually(lambda: "deletionTimestamp" in objects()["Pod/mnist-worker-1"]["metadata"], 60, str)
    started.send_signal(signal.SIGKILL)
    started.wait()
    run("apply", "jobs", "--prune", "--timeout", "3s", code=3)
    assert "Service/mnist-worker-1" in objects()
    ask("PATCH", "pods/mnist-worker-1", {"metadata": {"finalizers": None}})
    run("apply", "jobs", "--prune", code=0)
    assert "Service/mnist-worker-1" not in objects()


def test_resumed_replacement_waits_for_ready_workers_before_the_launcher(
    run, start, write, kubelet, objects
):
    def with_directory(path: str) -> dict:
        document = training_job(replicas=1)
        for role in document["spec"]["etReplicaSpecs"].values():
            role["template"]["spec"]["containers"][0]["workingDir"] = path
        return document

    write(with_directory("/a"))
    run("apply", "jobs", code=0)
    before = objects()
    uid = before["Pod/mnist-worker-0"]["metadata"]["uid"]
    write(with_directory("/b"))
    kubelet.let("mnist-worker-0", None)
    started = start("apply", "jobs", "--replace")
    eventually(
        lambda: (
            objects().get("Pod/mnist-worker-0", {"metadata": {"uid": uid}})["metadata"]["uid"]
            != uid
        ),
        60,
        str,
    )
    started.send_signal(signal.SIGKILL)
    started.wait()
    run("apply", "jobs", "--replace", "--timeout", "3s", code=3)
    launcher = before["Pod/mnist-launcher"]["metadata"]["uid"]
    assert objects()["Pod/mnist-launcher"]["metadata"]["uid"] == launcher
    kubelet.let("mnist-worker-0", ready())
    run("apply", "jobs", "--replace", code=0)
    assert objects()["Pod/mnist-launcher"]["metadata"]["uid"] != launcher
