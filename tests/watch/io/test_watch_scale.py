"""Many Pods, and many jobs: all that fail at once are replaced, in little memory.

`ETCOMPILE_SCALE_PODS` and `ETCOMPILE_SCALE_JOBS` say how many; 10000 and 2000 take some minutes.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_watch_tenants import MIB, memory, watcher
from watched import Place, created_pods, eventually, training_job

from etcompile.kubeapi import connect

PODS = int(os.environ.get("ETCOMPILE_SCALE_PODS", "240"))
JOBS = int(os.environ.get("ETCOMPILE_SCALE_JOBS", "40"))
PATIENCE = 60.0 + PODS / 20 + JOBS / 4
"""Seconds to wait for all of them: the API server takes its time for each."""


@pytest.fixture
def kubeconfig(control_plane, namespace, granted) -> Path:
    """That of a watcher with its own rights."""
    return control_plane.kubeconfig(token=granted(), namespace=namespace)


@pytest.fixture
def crowd(control_plane, namespace) -> Iterator[Place]:
    """A namespace with a connection for many writes at once."""
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=namespace)
    with connect(kubeconfig=kubeconfig, connections=32) as cluster:
        started = Place(control_plane, cluster, namespace)
        yield started
        started.close()


def filled(place: Place, jobs: int, workers: int) -> list[str]:
    """Create so many jobs whose Pods run; return the names of their workers."""
    names = []
    with ThreadPoolExecutor(16) as pool:
        for number in range(jobs):
            objects = place.compiled(training_job(f"job-{number}", workers))
            for value in objects:
                if value["kind"] == "ServiceAccount":
                    place.cluster.create(value)
            rest = [value for value in objects if value["kind"] in ("ConfigMap", "Pod")]
            [*pool.map(place.cluster.create, rest)]
            pods = [value["metadata"]["name"] for value in rest if value["kind"] == "Pod"]
            [*pool.map(lambda name: place.becomes(name, "Running"), pods)]
            names += [name for name in pods if "worker" in name]
    return names


def all_fail(place: Place, names: list[str]) -> None:
    """Let workers fail at once; each must come back, and once."""
    before = {name: pod["metadata"]["uid"] for name, pod in place.pods().items()}
    with ThreadPoolExecutor(16) as pool:
        [*pool.map(place.fails, names)]

    def left() -> list[str]:
        now = place.pods()
        return [
            one for one in names if one not in now or now[one]["metadata"]["uid"] == before[one]
        ]

    eventually(lambda: not left(), PATIENCE, pause=1.0)
    assert sorted(created_pods(place)) == sorted(names)


def test_pods_of_a_large_namespace_that_fail_at_once_are_all_replaced(crowd, kubeconfig):
    workers = filled(crowd, -(-PODS // 500), min(PODS, 500) - 1)
    crowd.kubelets()
    with watcher(kubeconfig, crowd.namespace) as process:
        eventually(lambda: len(crowd.hosts("job-0")) == min(PODS, 500) - 1, PATIENCE, pause=1.0)
        all_fail(crowd, workers[:: PODS // (PODS // 20)][: PODS // 20])
        peak = memory(process, "VmHWM") // MIB
    print(f"{PODS} Pods, {PODS // 20} at once, {peak} MiB")
    assert peak <= 128


def test_watcher_of_many_jobs_supervises_each_of_them_when_it_starts(crowd, kubeconfig):
    workers = filled(crowd, JOBS, 1)
    crowd.kubelets()
    maps = crowd.cluster.resource("v1", "ConfigMap")

    def running() -> int:
        listed = crowd.cluster.list(maps, crowd.namespace).items
        return sum((one.get("data") or {}).get("phase") == "Running" for one in listed)

    with watcher(kubeconfig, crowd.namespace) as process:
        eventually(lambda: running() == JOBS, PATIENCE, pause=1.0)
        all_fail(crowd, workers[::10])
        peak = memory(process, "VmHWM") // MIB
    print(f"{JOBS} jobs, {len(workers[::10])} failures at once, {peak} MiB")
