"""A ConfigMap that describes another run than its Pods are of, or none: the old run goes on."""

import time

import pytest
from msgspec import structs
from watched import QUICK, eventually, training_job

from etcompile.model.run_record import ANOTHER_RUN, UNREADABLE
from etcompile.status import statuses

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
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    if not there:
        watching()
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    eventually(lambda: place.whole(3))
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
    before = len([one for one in place.writes("watch") if one[:2] == ("create", "pods")])
    for value in objects:
        name = value["metadata"]["name"]
        place.cluster.delete(place.cluster.resource("v1", "Pod"), name)
        time.sleep(QUICK.settle)
        place.cluster.create(value)
    eventually(lambda: place.whole(3))
    creations = [one for one in place.writes("watch") if one[:2] == ("create", "pods")]
    assert len(creations) == before
    assert images(place) == {IMAGE}
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Running")
    assert messages(place) == []


def test_stored_copy_of_another_run_is_reported_and_creates_no_pod(place, watching):
    watching()
    begun(place)
    declare(place, job(IMAGE))
    eventually(lambda: place.record().get("reason") == ANOTHER_RUN)
    maps = place.cluster.resource("v1", "ConfigMap")
    text = place.cluster.get(maps, "bert-config")["data"]["job.yaml"]
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"run.yaml": text}})
    eventually(lambda: any("can no longer manage" in one for one in messages(place)))
    place.fails("bert-worker-1")
    time.sleep(QUICK.verdict)
    assert place.pod("bert-worker-1")["status"]["phase"] == "Failed"


def test_stored_copy_follows_a_scale_in(place, watching):
    watching()
    begun(place, 4)
    declare(place, job(workers=3))
    eventually(lambda: place.pod("bert-worker-3") is None)
    declare(place, job(IMAGE, workers=3))
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    assert sorted(place.pods()) == ["bert-launcher", *(f"bert-worker-{n}" for n in range(3))]


def other(workers: int = 3) -> dict:
    """The same job with what cannot be changed in place: its Pods are refused."""
    document = job(workers=workers)
    for part in document["spec"]["etReplicaSpecs"].values():
        part["template"]["spec"]["containers"][0]["env"] = [{"name": "RATE", "value": "2"}]
    return document


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
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    if not there:
        watching()
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    eventually(lambda: place.whole(3))
    eventually(lambda: place.record().get("reason") == UNREADABLE)
    assert "keeps managing the run" in place.record()["message"]
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("done") == run)


def test_job_that_becomes_readable_again_is_supervised_as_declared(place, watching):
    watching()
    begun(place)
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.patch(maps, "bert-config", {"data": {"job.yaml": "kind: [broken"}})
    eventually(lambda: place.record().get("reason") == UNREADABLE)
    declare(place, job())
    eventually(lambda: "reason" not in place.record())
    # A smaller one is taken at its word now.
    declare(place, job(workers=2))
    eventually(lambda: place.pod("bert-worker-2") is None)


def test_unfinished_replacement_by_hand_is_reported_on_each_old_pod(place, watching):
    watching(timeouts=structs.replace(QUICK, start=1.0))
    begun(place)
    declare(place, other())
    compiled = {one["metadata"]["name"]: one for one in place.compiled(other())}
    resource = place.cluster.resource("v1", "Pod")
    place.cluster.delete(resource, "bert-worker-1", grace=0)
    place.cluster.create(compiled["bert-worker-1"])
    eventually(lambda: place.events_of("NameTaken"))
    time.sleep(1.5)
    events = place.events_of("NameTaken")
    assert len(events) == 3
    for event in events:
        assert " not of the run in the ConfigMap" in event["message"]
        assert "--replace" in event["message"]
    kinds = [place.cluster.resource("v1", kind) for kind in ("ConfigMap", "Pod")]
    [result] = statuses(
        [one for kind in kinds for one in place.cluster.list(kind, place.namespace).items]
    )
    old = ["bert-launcher", "bert-worker-0", "bert-worker-2"]
    assert [one.split(" ")[0] for one in result.surplus] == old
    assert all("of another run" in one for one in result.surplus)
