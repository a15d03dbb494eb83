"""`etcompile status --watch`: a line for each change, and an end when the job has one."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from specs import training_job


@pytest.fixture
def watching(kubeconfig) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`watching(argument...)` starts `etcompile status --watch`."""
    started: list[subprocess.Popen[str]] = []

    def start(*more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "etcompile", "status", "--kubeconfig", str(kubeconfig)]
        command += ["--watch", *more]
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    raise AssertionError(lines)


def test_each_change_is_a_line_until_the_job_has_succeeded(deployed, pod_is, watching, namespace):
    deployed(training_job())
    process = watching("mnist")
    until(process, "mnist-launcher: Pending")
    pod_is("mnist-worker-0", "Running", ready=True)
    line = until(process, "Starting")[-1]
    assert line.endswith(
        f"{namespace}/mnist job Pending -> Starting: mnist-launcher is not running yet"
    )
    until(process, "Pod/mnist-worker-0 Pending -> Ready")
    pod_is("mnist-launcher", "Running", ready=True)
    until(process, "job Starting -> Running")
    pod_is("mnist-launcher", "Succeeded")
    until(process, "job Running -> Succeeded")
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "not ready: mnist-worker-1" in stderr


def test_a_job_that_fails_ends_the_watch_with_1(deployed, pod_is, watching):
    deployed(training_job())
    process = watching("mnist", "--output", "json")
    until(process, '"Pod/mnist-launcher"')
    pod_is("mnist-launcher", "Failed", reason="Evicted", message="out of memory")
    output, _ = process.communicate(timeout=30)
    changes = {one["object"]: one for one in map(json.loads, output.splitlines())}
    assert process.returncode == 1
    assert (changes["job"]["was"], changes["job"]["status"]) == ("Pending", "Failed")
    assert changes["Pod/mnist-launcher"]["reason"].startswith("Evicted")


def test_hosts_and_events_show_and_a_deleted_job_ends_the_watch(
    deployed, cluster, report_event, watching
):
    deployed(training_job())
    process = watching("mnist")
    until(process, "mnist-launcher: Pending")
    hosts = {"hostfile": "mnist-worker-1:1\n", "deepspeed-hostfile": "mnist-worker-1 slots=1\n"}
    metadata = {"name": "mnist-etcompile-hosts"}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": hosts})
    assert "2 (from Git) -> 1 (live): mnist-worker-1" in until(process, " hosts ")[-1]
    report_event("mnist-worker-1", "FailedMount", 'secret "mnist" not found')
    assert 'FailedMount: secret "mnist" not found' in until(process, "event of")[-1]
    cluster.delete(cluster.resource("v1", "ConfigMap"), "mnist-config")
    until(process, "Deleted")
    _, last_stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "mnist was deleted" in last_stderr


def test_all_jobs_are_watched_until_it_is_interrupted(deployed, watching):
    deployed(training_job())
    process = watching()
    until(process, "  mnist  TrainingJob  Pending")
    deployed(training_job("bert"))
    until(process, "bert job Pending")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_status_watch_lists_no_resource_a_second_time(
    deployed, pod_is, watching, control_plane, namespace
):
    deployed(training_job())
    process = watching("mnist")
    until(process, "mnist-launcher: Pending")
    until_now = _lists(control_plane, namespace)
    for index in range(2):
        pod_is(f"mnist-worker-{index}", "Running", ready=True)
        until(process, f"Pod/mnist-worker-{index} Pending -> Ready")
    assert _lists(control_plane, namespace) == until_now


def _lists(control_plane, namespace: str) -> int:
    return sum(
        event["verb"] in ("get", "list") and not event["userAgent"].startswith("Python-urllib")
        for event in control_plane.audit(namespace)
    )
