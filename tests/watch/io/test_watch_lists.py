"""The live host list: no host that is gone stays in it, whatever the others do."""

import itertools
import threading
import time

import pytest
from watched import eventually, is_ready, training_job

from etcompile.integrations.watcher_manifests import NAME
from world import mpi_job

QUIET = 1.5
"""Seconds in which whatever would still be written is: longer than each wait of these watchers."""


def set_ready(place, name: str, *, ready: bool) -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    change = {"status": {"phase": "Running", "conditions": [condition]}}
    place.cluster.patch(
        place.cluster.resource("v1", "Pod"), name, change, place.namespace, subresource="status"
    )


def begun(place, workers: int) -> None:
    place.kubelets()
    place.submit(training_job(workers=workers))
    eventually(lambda: place.whole(workers))
    eventually(lambda: is_ready(place.pod("bert-launcher")))


def test_a_dead_host_goes_while_the_others_come_and_go(place, watching):
    watching()
    begun(place, 4)
    for index in (0, 2, 3):
        set_ready(place, f"bert-worker-{index}", ready=False)
    eventually(lambda: place.hosts() == ["bert-worker-1"])
    # It dies, and of the others one at a time is Ready for a moment.
    stop = threading.Event()

    def flap() -> None:
        for index in itertools.cycle((2, 3)):
            if stop.is_set():
                return
            set_ready(place, f"bert-worker-{index}", ready=True)
            set_ready(place, f"bert-worker-{5 - index}", ready=False)
            stop.wait(0.1)

    set_ready(place, "bert-worker-1", ready=False)
    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        eventually(lambda: "bert-worker-1" not in place.hosts(), 10)
    finally:
        stop.set()
        flapping.join()


def test_a_dead_host_goes_before_a_new_launcher_reads_the_list(place, watching):
    watching()
    begun(place, 3)
    place.becomes("bert-launcher", "Pending")
    place.holding.set()
    set_ready(place, "bert-worker-1", ready=False)
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])
    place.holding.clear()


def test_a_dead_host_goes_although_its_replacement_cannot_be_made(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, 3)
    proxy.add("status", method="POST", path=r"/pods\?", status=500, times=10_000)
    place.fails("bert-worker-1")
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])


def test_a_dead_host_goes_although_nothing_can_be_recorded(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, 3)
    proxy.add(
        "status",
        method="PATCH",
        path=r"/configmaps/bert-etcompile-status",
        status=500,
        times=10_000,
    )
    place.fails("bert-worker-1")
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])
    assert place.uid("bert-worker-1"), "what is not recorded must not be done"


# told at once -----------------------------------------------------------------------------------


def elastic(kind: str, workers: int) -> dict:
    """A job `bert` of so many workers, whose launcher reads a list."""
    if kind == "TrainingJob":
        return training_job(workers=workers)
    job = mpi_job(version=kind)
    job["metadata"]["name"] = "bert"
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return job


def applied(place, job: dict) -> None:
    """What is declared is applied: the ConfigMap with its list, and workers that are new."""
    there = place.pods()
    for value in place.compiled(job):
        if value["kind"] == "ConfigMap":
            place.cluster.server_side_apply(value, force=True)
        elif value["kind"] == "Pod" and value["metadata"]["name"] not in there:
            place.cluster.create(value)


def started(place, kind: str, workers: int) -> None:
    """The launcher starts when all workers are Ready: its first list is the one from Git."""
    place.kubelets()
    launchers = []
    for value in place.compiled(elastic(kind, workers)):
        if (value["kind"], value["metadata"]["name"]) == ("Pod", "bert-launcher"):
            launchers.append(value)
        else:
            place.cluster.create(value)
    eventually(lambda: len(place.ready()) == workers)
    time.sleep(QUIET)
    for value in launchers:
        place.cluster.create(value)
    if not launchers:
        launched(place)
    eventually(lambda: listed(place) == workers)
    time.sleep(QUIET)


def launched(place) -> None:
    """What the Job controller does: the Pod of a launcher that is a Job."""
    job = place.cluster.get(place.cluster.resource("batch/v1", "Job"), "bert-launcher")
    template = job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    owner.update({key: job["metadata"][key] for key in ("name", "uid")})
    metadata = {**template["metadata"], "name": "bert-launcher-x1", "ownerReferences": [owner]}
    metadata["namespace"] = place.namespace
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    place.cluster.create(pod)


def touches(place) -> list[str]:
    """The value of each touch of the launcher so far."""
    return [
        event["requestObject"]["metadata"]["annotations"]["etcompile.dev/touched"]
        for event in place.plane.writes(place.namespace)
        if NAME in event["user"]["username"]
        and (event["verb"], event["objectRef"]["resource"]) == ("patch", "pods")
        and event["objectRef"]["name"].startswith("bert-launcher")
    ]


def listed(place) -> int:
    """How many hosts the live list has."""
    data = place.data("bert-etcompile-hosts")
    return len((data.get("hostfile") or data.get("hosts") or "").splitlines())


@pytest.mark.parametrize("kind", ["TrainingJob", "v1", "v2beta1"])
def test_a_launcher_is_touched_once_for_each_change_that_is_applied(place, watching, kind):
    running = watching(leads=False)
    started(place, kind, 3)
    begun_with = len(touches(place))
    for changes, workers in enumerate([4, 2], start=1):
        applied(place, elastic(kind, workers))
        eventually(lambda: listed(place) == workers)  # noqa: B023 - called at once
        eventually(lambda: len(touches(place)) == begun_with + changes, 3)  # noqa: B023
        time.sleep(QUIET)
        applied(place, elastic(kind, workers))  # nothing changes
        time.sleep(QUIET)
        assert len(touches(place)) == begun_with + changes
    running.stop()
    watching()
    time.sleep(QUIET)
    told = touches(place)
    assert len(told) == begun_with + 2, "nothing changed while no watcher was there"
    assert len(set(told)) == len(told) == 3, "one touch at the start, and each list has its digest"


def test_a_change_while_no_watcher_is_there_is_told_by_the_next(place, watching):
    running = watching(leads=False)
    started(place, "TrainingJob", 3)
    before = len(touches(place))
    running.stop()
    applied(place, elastic("TrainingJob", 2))
    watching()
    eventually(lambda: len(place.hosts()) == 2)
    eventually(lambda: len(touches(place)) == before + 1)
    time.sleep(QUIET)
    assert len(touches(place)) == before + 1


def test_a_replaced_worker_costs_two_touches(place, watching):
    watching()
    started(place, "TrainingJob", 3)
    before = len(touches(place))
    place.fails("bert-worker-1")
    eventually(lambda: len(touches(place)) == before + 2)
    time.sleep(QUIET)
    assert len(touches(place)) == before + 2
    assert place.whole(3)
