"""Rollouts that are interrupted, or out of time; test_killed_commands.py has killed ones."""

import signal
import time

import pytest

from waiting import eventually


def until(condition):
    eventually(condition, 30, lambda: "it never came to that", pause=0.005)


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
