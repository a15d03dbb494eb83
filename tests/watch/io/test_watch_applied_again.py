"""A job that is deleted in the middle of its run, and applied again: nothing of before counts."""

import json
import time

import pytest
from watched import eventually

from specs import kubeflow_job
from world import of_replicas


def torch(workers: int = 3, **run) -> dict:
    return kubeflow_job("PyTorchJob", {"Worker": workers}, runPolicy=run)


def delete(place, objects: list[dict]) -> None:
    """As `kubectl delete -f` does; the run record is in no file, and stays."""
    for value in objects:
        resource = place.cluster.resource(value["apiVersion"], value["kind"])
        place.cluster.delete(resource, value["metadata"]["name"])
    eventually(lambda: place.pods() == {})


def recorded(place, **changes) -> None:
    """Changes what is recorded, as if it had come to pass."""
    record = {**place.record("mnist"), **changes}
    data = {"data": {"record": json.dumps(record)}}
    place.cluster.patch(place.cluster.resource("v1", "ConfigMap"), "mnist-etcompile-status", data)


def config_uid(place) -> str:
    found = place.cluster.get(place.cluster.resource("v1", "ConfigMap"), "mnist-etcompile")
    return found["metadata"]["uid"]


def is_running(place) -> bool:
    return place.data("mnist-etcompile-status").get("phase") == "Running"


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
def test_workers_that_finished_before_do_not_end_the_run(place, watching, there):
    first = watching()
    place.kubelets()
    objects = place.submit(torch())
    eventually(lambda: is_running(place))
    place.becomes("mnist-worker-0", "Succeeded", 0)
    place.becomes("mnist-worker-1", "Succeeded", 0)
    eventually(lambda: of_replicas(place.run_record("mnist"), "completed") == {"worker": "0-1"})
    if not there:
        first.stop()
    delete(place, objects)
    place.submit(torch())
    if not there:
        watching()
    eventually(lambda: is_running(place) and place.record("mnist")["config"] == config_uid(place))
    before = {name: pod["metadata"]["uid"] for name, pod in place.pods().items()}
    place.becomes("mnist-worker-2", "Succeeded", 0)
    eventually(lambda: of_replicas(place.run_record("mnist"), "completed") == {"worker": "2"})
    assert place.record("mnist")["phase"] == "Running"
    assert {name: pod["metadata"]["uid"] for name, pod in place.pods().items()} == before
    eventually(lambda: place.told("RunBeganAnew"))
    for name in ("mnist-worker-0", "mnist-worker-1"):
        place.becomes(name, "Succeeded", 0)
    eventually(lambda: place.record("mnist")["phase"] == "Succeeded")


def test_the_deadline_is_counted_anew(place, watching):
    first = watching()
    place.kubelets()
    objects = place.submit(torch(activeDeadlineSeconds=3600))
    eventually(lambda: is_running(place))
    first.stop()
    recorded(place, started=time.time() - 3590, restarts=2)
    delete(place, objects)
    recorded(place, started=time.time() - 7200)
    place.submit(torch(activeDeadlineSeconds=3600))
    watching()
    eventually(lambda: place.record("mnist")["config"] == config_uid(place))
    eventually(lambda: is_running(place))
    assert place.record("mnist")["started"] > time.time() - 600
    assert place.record("mnist").get("restarts", 0) == 0


def test_a_run_that_was_over_is_still_over(place, watching):
    watching()
    place.kubelets()
    objects = place.submit(torch(1))
    eventually(lambda: is_running(place))
    place.becomes("mnist-worker-0", "Succeeded", 0)
    eventually(lambda: place.record("mnist")["phase"] == "Succeeded")
    record = place.record("mnist")
    delete(place, objects)
    place.submit(torch(1, cleanPodPolicy="All"))
    eventually(lambda: place.pods() == {}, why="its Pods were to be cleaned up")
    assert place.record("mnist") == record


def test_a_record_of_before_records_had_a_uid_goes_on(place, watching):
    first = watching()
    place.kubelets()
    place.submit(torch())
    eventually(lambda: is_running(place))
    place.becomes("mnist-worker-0", "Succeeded", 0)
    eventually(lambda: of_replicas(place.run_record("mnist"), "completed"))
    first.stop()
    uid = place.record("mnist")["config"]
    recorded(place, config="")
    watching()
    eventually(lambda: place.record("mnist")["config"] == uid)
    assert of_replicas(place.run_record("mnist"), "completed") == {"worker": "0"}
