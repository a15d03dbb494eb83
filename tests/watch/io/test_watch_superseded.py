"""A ConfigMap that describes another run than its Pods are of, or none: the old run goes on."""

import time

import pytest
from msgspec import structs
from watched import QUICK, eventually, training_job

from etcompile.model.protocol import SPEC_HASH
from etcompile.model.run_record import ANOTHER_RUN, UNREADABLE
from etcompile.status import statuses

IMAGE = "horovod/horovod:0.27.0"
"""Of another run: an image can be changed in place, but then the hash in the Pod cannot."""


def job(image: str = "", workers: int = 3, policy: str = "OnFailure") -> dict:
    found = training_job(workers=workers, worker={"restartPolicy": policy})
    if image:
        for part in found["spec"]["etReplicaSpecs"].values():
            part["template"]["spec"]["containers"][0]["image"] = image
    return found


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


def told(place) -> list[str]:
    return [event["message"] for event in place.told(ANOTHER_RUN)]


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
def test_the_pods_of_the_old_run_are_still_replaced(place, watching, there):
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
    eventually(lambda: told(place))
    time.sleep(0.5)
    assert len(told(place)) == 1
    # Somebody takes the change back.
    declare(place, job())
    eventually(lambda: "reason" not in place.record())


def test_a_dead_host_of_the_old_run_is_not_listed(place, watching):
    watching()
    begun(place)
    declare(place, job(IMAGE))
    place.cluster.patch(
        place.cluster.resource("v1", "Pod"),
        "bert-worker-1",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        subresource="status",
    )
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])


def test_the_old_run_ends_as_it_would_have(place, watching):
    watching()
    begun(place)
    run = place.record()["run"]
    declare(place, job(IMAGE))
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("done") == run)
    assert place.record()["phase"] == "Succeeded"


def test_pods_that_are_exchanged_are_not_made_again(place, watching):
    # As long as nobody could take the exchange for a refused one, however slow this machine is.
    watching(timeouts=structs.replace(QUICK, verdict=12.0))
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
    made = [one for one in place.writes("watch") if one[:2] == ("create", "pods")]
    assert len(made) == before
    assert images(place) == {IMAGE}
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Running")
    assert told(place) == []


def test_a_copy_that_is_not_of_the_run_makes_no_pod(place, watching):
    watching()
    begun(place)
    declare(place, job(IMAGE))
    eventually(lambda: place.record().get("reason") == ANOTHER_RUN)
    maps = place.cluster.resource("v1", "ConfigMap")
    text = place.cluster.get(maps, "bert-config")["data"]["job.yaml"]
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"run.yaml": text}})
    eventually(lambda: any("can no longer manage" in one for one in told(place)))
    place.fails("bert-worker-1")
    time.sleep(QUICK.verdict)
    assert place.pod("bert-worker-1")["status"]["phase"] == "Failed"


def test_scaling_before_changes_the_copy(place, watching):
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
    found = job(workers=workers)
    for part in found["spec"]["etReplicaSpecs"].values():
        part["template"]["spec"]["containers"][0]["env"] = [{"name": "RATE", "value": "2"}]
    return found


def test_pods_that_somebody_stopped_exchanging_half_way_are_told_of(place, watching):
    watching(timeouts=structs.replace(QUICK, start=1.0))
    begun(place)
    declare(place, other())
    resource = place.cluster.resource("v1", "Pod")
    [value] = [
        one
        for one in place.compiled(other())
        if (one["kind"], one["metadata"]["name"]) == ("Pod", "bert-worker-1")
    ]
    place.cluster.delete(resource, "bert-worker-1", grace=0)
    place.cluster.create(value)

    def words() -> list[str]:
        return [event["message"] for event in place.told("NameTaken")]

    eventually(words)
    time.sleep(1.5)
    [message] = words()
    assert " not of the run in the ConfigMap" in message
    assert "--replace" in message
    # What is told of stands in status, too.
    [found] = statuses(
        [
            one
            for kind in ("ConfigMap", "Pod")
            for one in place.cluster.list(place.cluster.resource("v1", kind), place.namespace).items
        ]
    )
    assert [one.split(" ")[0] for one in found.surplus] == [
        "bert-launcher",
        "bert-worker-0",
        "bert-worker-2",
    ]
    assert all("of another run" in one for one in found.surplus)


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
@pytest.mark.parametrize(
    "text", ["kind: [broken", "kind: Stored\napiVersion: etcompile.dev/v9\n", "{}"]
)
def test_a_job_that_becomes_unreadable_in_mid_run_is_looked_after(place, watching, there, text):
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


def test_a_job_that_becomes_readable_again_is_looked_after_as_it_is(place, watching):
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


def pytorch(rate: str = "1") -> dict:
    """A PyTorchJob whose workers' command has a value."""
    container = {"name": "pytorch", "image": "pytorch/pytorch:2.4.0"}
    roles = {
        "Master": (1, [*["python", "train.py"]]),
        "Worker": (2, ["python", "train.py", "--rate", rate]),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "gpt"},
        "spec": {
            "pytorchReplicaSpecs": {
                name: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": {"containers": [{**container, "command": command}]}},
                }
                for name, (count, command) in roles.items()
            }
        },
    }


def test_what_fails_of_an_exchange_that_stopped_half_way_gets_the_pod_that_is_declared(
    place, watching
):
    watching(timeouts=structs.replace(QUICK, start=1.0))
    begun(place)
    declare(place, other())
    compiled = {one["metadata"]["name"]: one for one in place.compiled(other())}
    resource = place.cluster.resource("v1", "Pod")
    place.cluster.delete(resource, "bert-worker-1", grace=0)
    place.cluster.create(compiled["bert-worker-1"])
    eventually(lambda: place.told("NameTaken"))
    uid = place.uid("bert-worker-2")
    place.fails("bert-worker-2")
    eventually(lambda: place.uid("bert-worker-2") not in ("", uid))
    live = place.pod("bert-worker-2")
    wanted = compiled["bert-worker-2"]["metadata"]["annotations"][SPEC_HASH]
    assert live["metadata"]["annotations"][SPEC_HASH] == wanted
    eventually(lambda: "bert-worker-0" not in " ".join(place.hosts()))  # it is of another run
