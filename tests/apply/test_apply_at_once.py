"""Two commands that change one job: one of them is refused, and nothing of it is done."""

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from specs import training_job, with_worker
from waiting import eventually

PARENT = "ConfigMap/etcompile-mnist"
LEASE = "etcompile.dev/lease"


def until(condition, seconds=30.0):
    eventually(condition, seconds, lambda: "it never came to that", pause=0.02)


def versions(objects):
    return {
        name: (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
        for name, one in objects().items()
    }


def pause(process):
    """Stops a process that holds a lease; what it has sent already arrives."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)


def lease(objects):
    parent = objects().get(PARENT)
    text = parent and (parent["metadata"].get("annotations") or {}).get(LEASE)
    return json.loads(text) if text else None


@pytest.fixture
def under_way(run, start, write, kubelet, objects, slow):
    """An apply that has begun to write, and takes a while."""
    write(training_job(replicas=3))
    run("apply", "jobs", code=0)
    write(with_worker(replicas=3, workingDir="/data"))
    started = start(
        *("apply", "jobs", "--run", "auto", "--prune", "--config", "concurrency=1"),
        KUBECONFIG=str(slow.kubeconfig),
    )
    until(lambda: lease(objects))
    return started


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "jobs", "--replace", "--prune"),
        ("apply", "jobs", "--run", "auto", "--prune"),
        ("delete", "--job", "mnist"),
        ("restart", "mnist", "--yes"),
    ],
    ids=lambda words: "-".join(words[:1] + words[2:3]),
)
def test_the_later_of_two_is_refused_and_says_whose_is_under_way(
    under_way, run, write, objects, words
):
    pause(under_way)
    before = versions(objects)
    write(training_job(replicas=2, name="mnist"))
    done = run(*words)
    after = versions(objects)
    under_way.send_signal(signal.SIGCONT)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "has been changing the job since" in done.stderr
    assert f"{datetime.now(UTC):%Y-%m-%d}" in done.stderr
    assert lease(objects) is None or lease(objects)["holder"] in done.stderr
    assert after == before
    out, err = under_way.communicate(timeout=60)
    assert under_way.returncode == 0, out + err
    assert lease(objects) is None


def test_of_two_fresh_starts_one_gang_is_left(applied, start, write, kubelet, objects):
    applied(replicas=3)
    write(with_worker(replicas=3, workingDir="/data"))
    words = ("apply", "jobs", "--run", "auto", "--prune")
    both = [start(*words), start(*words)]
    outputs = [one.communicate(timeout=90) for one in both]
    codes = sorted(one.returncode for one in both)
    assert codes in ([0, 0], [0, 4]), outputs
    pods = [name for name in objects() if name.startswith("Pod/")]
    assert len(pods) == 4, pods
    assert lease(objects) is None


def test_of_many_first_applies_of_a_job_one_writes(start, job, kubelet, writes):
    job(replicas=3)
    all_of_them = [start("apply", "jobs", "--wait", "none") for _ in range(4)]
    outputs = [one.communicate(timeout=90) for one in all_of_them]
    codes = [one.returncode for one in all_of_them]
    assert 0 in codes, outputs
    assert set(codes) <= {0, 4}, outputs
    created = [one for one in writes() if one.startswith("create pods/")]
    assert len(created) == len(set(created)) == 4


def test_several_jobs_are_changed_all_or_none(under_way, run, write, objects):
    """The refused command leaves no inventory of a job that nobody else changes."""
    pause(under_way)
    write(training_job("another", replicas=1), name="another")
    before = versions(objects)
    run("apply", "jobs", "--replace", code=4)
    assert versions(objects) == before
    under_way.send_signal(signal.SIGCONT)
    under_way.communicate(timeout=60)


def test_who_waits_for_pods_holds_no_lease(run, start, job, kubelet, objects):
    job(replicas=2)
    kubelet.let("mnist-worker-1", None)
    started = start("apply", "jobs")
    until(lambda: "Pod/mnist-worker-1" in objects() and lease(objects) is None)
    assert started.poll() is None
    run("delete", "--job", "mnist", code=0)
    assert not [name for name in objects() if name.startswith("Pod/")]


PROGRAM = """
import sys, time, etcompile
from etcompile import operations
from etcompile.rollout import inventory

inventory._machine = lambda: "another machine"
inventory.SECONDS = 6.0
with operations.connect(kubeconfig=sys.argv[1]) as cluster:
    proposal = operations.apply_proposal(etcompile.compile(["jobs"]), cluster)
    stop = lambda event: time.sleep(600) if event.status == "created" else None
    operations.execute(cluster, proposal, operations.Choices(concurrency=1), tell=stop)
"""


def test_a_lease_is_renewed_and_runs_out_when_its_holder_is_killed(
    run, job, kubelet, objects, kubeconfig, tmp_path
):
    job(replicas=2)
    words = [sys.executable, "-c", PROGRAM, str(kubeconfig)]
    with subprocess.Popen(words, cwd=tmp_path) as holder:
        until(lambda: lease(objects))
        first = lease(objects)
        until(lambda: lease(objects)["until"] > first["until"] + 4)  # renewed twice at least
        assert lease(objects)["since"] == first["since"]
        run("apply", "jobs", code=4)
        holder.kill()
    run("apply", "jobs", code=4)  # nobody here can know that it is dead
    until(lambda: run("apply", "jobs").returncode == 0, 60)
    assert lease(objects) is None


def test_a_lease_of_a_dead_process_of_this_machine_holds_nobody_up(under_way, run, objects):
    under_way.kill()
    under_way.wait()
    assert lease(objects)
    run("apply", "jobs", "--run", "auto", "--prune", code=0)
    assert len([name for name in objects() if name.startswith("Pod/")]) == 4
    assert lease(objects) is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"id": 1}', '{"id":"a","holder":"b","since":9e99,"until":9e99}']
)
def test_an_annotation_that_is_no_lease_stops_nobody(applied, kubelet, ask, text):
    applied(replicas=1)
    change = {"metadata": {"annotations": {LEASE: text}}}
    ask("PATCH", "configmaps/etcompile-mnist", change)
    applied(replicas=2)
