"""Rollouts that end early, at any point, and what the next one makes of them."""

import json
import re
import signal
import time

import pytest

from apply.test_killed_commands import state
from faultproxy import WRITE
from specs import scale_in, with_worker
from waiting import eventually


@pytest.fixture(scope="module")
def clean():
    """What a run without trouble ends in, once there was one."""
    return {}


def until(condition):
    eventually(condition, 30, lambda: "it never came to that", pause=0.005)


@pytest.mark.parametrize("writes", range(11))
def test_a_rollout_killed_at_any_point_is_finished_by_the_next(
    run, start, job, kubelet, objects, slow, clean, control_plane, namespace, writes, tmp_path
):
    """At ten points, in the midst of each of the writes; none of them is the clean run."""
    job(replicas=3)
    if writes:
        started = start(
            "apply", "jobs", "--config", "concurrency=1", KUBECONFIG=str(slow.kubeconfig)
        )
        until(lambda: slow.count() >= writes)
        started.send_signal(signal.SIGKILL)
        started.wait()
    run("apply", "jobs", code=0)
    result = json.loads(
        json.dumps(state(objects())).replace(namespace, "NS").replace(str(tmp_path), "FOLDER")
    )
    # The parent's id is a digest of its namespace.
    result = json.loads(_without_ids(json.dumps(result)))
    expected = clean.setdefault("state", result)
    assert result == expected
    created = [
        (event["objectRef"]["resource"], event["objectRef"]["name"])
        for event in control_plane.writes(namespace)
        if event["responseStatus"]["code"] == 201
    ]
    assert len(created) == len(set(created))


def _without_ids(text: str) -> str:
    # So is the name of the volume with a Pod's token, which is drawn by lot.
    text = re.sub(r"kube-api-access-\w{5}", "TOKEN", text)
    # The id of the set of jobs is a digest of their folder.
    text = re.sub(r'"etcompile.dev/set": "[^"]*"', '"etcompile.dev/set": "SET"', text)
    return re.sub(r"applyset-[\w-]{43}-v1", "ID", text)


def test_a_replacement_killed_between_deletion_and_creation_is_finished(
    applied, run, start, write, kubelet, objects, slow
):
    applied(replicas=1)
    old = objects()["Pod/mnist-worker-0"]["metadata"]["uid"]
    write(with_worker(workingDir="/data"))
    started = start(
        "apply", "jobs", "--replace", "--config", "concurrency=1", KUBECONFIG=str(slow.kubeconfig)
    )
    until(lambda: slow.proxy.count("DELETE", WRITE))
    started.send_signal(signal.SIGKILL)
    started.wait()
    until(lambda: "Pod/mnist-worker-0" not in objects())
    run("apply", "jobs", "--replace", code=0)
    new = objects()["Pod/mnist-worker-0"]
    assert new["metadata"]["uid"] != old
    assert new["spec"]["containers"][0]["workingDir"] == "/data"


def test_a_prune_that_was_killed_is_finished(applied, run, start, write, kubelet, objects, slow):
    applied(replicas=3)
    write(scale_in("less", 2), name="in")
    started = start(
        *("apply", "jobs", "--prune", "--config", "drain=1s", "--config", "concurrency=1"),
        KUBECONFIG=str(slow.kubeconfig),
    )
    until(lambda: slow.proxy.count("DELETE", WRITE))
    started.send_signal(signal.SIGKILL)
    started.wait()
    run("apply", "jobs", "--prune", "--config", "drain=1s", code=0)
    left = {name for name in objects() if name.startswith(("Pod/", "Service/"))}
    assert left == {"Pod/mnist-launcher", "Pod/mnist-worker-0", "Service/mnist-worker-0"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_rollout_says_what_is_done_and_goes_on_next_time(
    run, start, job, kubelet, number
):
    job(replicas=2)
    kubelet.let("mnist-worker-1", None)
    started = start("apply", "jobs")
    lines = []
    for line in started.stdout:
        lines.append(line)
        if "mnist-worker-1  waiting" in line:
            break
    started.send_signal(number)
    out, _ = started.communicate(timeout=20)
    lines += out.splitlines(keepends=True)
    assert started.returncode == 130
    text = "".join(lines)
    assert "interrupted: run the command again to continue" in text
    assert "done: 8 created" in text
    assert "not ready:\n  Pod mnist-worker-1: not scheduled yet" in text
    kubelet.let("mnist-worker-1", {"phase": "Succeeded"})
    again = run("apply", "jobs", code=0)
    assert "done: nothing had to be changed" in again.stdout


def test_interrupted_rollout_finishes_the_requests_under_way(start, job, kubelet, objects, slow):
    job(replicas=4)
    started = start("apply", "jobs", "--config", "concurrency=1", KUBECONFIG=str(slow.kubeconfig))
    until(lambda: slow.count() >= 4)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130
    count = int(out.split("done: ")[1].split()[0])
    created = [name for name in objects() if "etcompile-mnist" not in name]
    assert len(created) == count
    assert "not done:" in out


def test_the_time_for_all_of_it_can_be_limited(run, job):
    job(replicas=1)
    began = time.monotonic()
    done = run("apply", "jobs", "--timeout", "2s", code=3)
    assert time.monotonic() - began < 30
    assert "timed out: run the command again to continue" in done.stdout
