"""A ConfigMap that describes another run than its Pods are of, or none: the old run goes on."""

import time

import pytest
from msgspec import structs
from watched import QUICK, created_pods, eventually, training_job

from etcompile.model.run_record import ANOTHER_RUN, UNREADABLE

IMAGE = "horovod/horovod:0.27.0"
"""Of another run: an image can be changed in place, but then the hash in the Pod cannot."""


def job(image: str = "", workers: int = 3, policy: str = "OnFailure") -> dict:
    document = training_job(workers=workers, worker={"restartPolicy": policy})
    if image:
        for part in document["spec"]["etReplicaSpecs"].values():
            part["template"]["spec"]["containers"][0]["image"] = image
    return document


def declare(place, document: dict) -> None:
    """What is left of an apply whose Pods are refused."""
    for value in place.compiled(document):
        if value["kind"] != "Pod":
            place.cluster.server_side_apply(value, force=True)


def begun(place, workers: int = 3) -> None:
    place.kubelets()
    place.submit(job(workers=workers))
    eventually(lambda: place.whole(workers))


def loses_a_worker(place, watching=None) -> None:
    """Fails a worker, which comes back; `watching` starts a watcher in between."""
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    if watching is not None:
        watching()
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    eventually(lambda: place.whole(3))


def images(place) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in place.pods().values()}


def messages(place) -> list[str]:
    return [event["message"] for event in place.events_of(ANOTHER_RUN)]


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
def test_old_run_is_supervised_to_its_end_if_apply_could_not_replace_pods(place, watching, there):
    first = watching()
    begun(place)
    record = place.record()
    if not there:
        first.stop()
    declare(place, job(IMAGE))
    loses_a_worker(place, None if there else watching)
    assert images(place) == {"horovod/horovod:0.28.1"}
    assert place.record()["run"] == record["run"]
    eventually(lambda: place.record().get("reason") == ANOTHER_RUN)
    eventually(lambda: messages(place))
    time.sleep(0.5)
    assert len(messages(place)) == 1
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("done") == record["run"])
    assert place.record()["phase"] == "Succeeded"


def test_pods_that_somebody_replaces_one_by_one_are_not_recreated(place, watching):
    # As long as nobody could take the exchange for a refused one, however slow this machine is.
    watching(timeouts=structs.replace(QUICK, verdict=300.0))
    begun(place)
    declare(place, job(IMAGE))
    objects = [one for one in place.compiled(job(IMAGE)) if one["kind"] == "Pod"]
    before = created_pods(place)
    for value in objects:
        name = value["metadata"]["name"]
        place.cluster.delete(place.cluster.resource("v1", "Pod"), name)
        time.sleep(QUICK.settle)
        place.cluster.create(value)
    eventually(lambda: place.whole(3))
    assert created_pods(place) == before
    assert images(place) == {IMAGE}
    eventually(lambda: place.phase() == "Running")
    assert messages(place) == []


@pytest.mark.parametrize(
    ("there", "text"),
    [
        (True, "kind: [broken"),
        (False, "kind: Stored\napiVersion: etcompile.dev/v9\n"),
        (False, "{}"),
    ],
)
def test_run_whose_job_becomes_unreadable_is_supervised_to_its_end(place, watching, there, text):
    first = watching()
    begun(place)
    run = place.record()["run"]
    if not there:
        first.stop()
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.patch(maps, "bert-config", {"data": {"job.yaml": text}})
    loses_a_worker(place, None if there else watching)
    eventually(lambda: place.record().get("reason") == UNREADABLE)
    assert "keeps managing the run" in place.record()["message"]
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("done") == run)
