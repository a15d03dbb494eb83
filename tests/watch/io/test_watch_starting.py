"""A run that does not start, and Pods that do not go: told by Events, in the record, by status."""

import time
from datetime import UTC, datetime

from msgspec import structs
from watched import QUICK, eventually, pods, training_job

from etcompile.status.job_status import statuses
from etcompile.status.text import job_text
from specs import kubeflow_job, replicas
from world import of_replicas

PATIENCE = structs.replace(QUICK, start=1.0)
IMAGE = "Back-off pulling image example.com/nothing:1"


def told(place, reason: str) -> list[str]:
    return [event["message"] for event in place.told(reason)]


def phase(place, job: str = "bert") -> str:
    return place.data(f"{job}-etcompile-status").get("phase", "")


def status(place, job: str = "bert") -> str:
    """What `etcompile status JOB` says."""
    kinds = (("v1", "ConfigMap"), ("v1", "Pod"), ("batch/v1", "Job"))
    objects = [
        one
        for version, kind in kinds
        for one in place.cluster.list(place.cluster.resource(version, kind), place.namespace).items
    ]
    [found] = [one for one in statuses(objects) if one.name == job]
    return job_text(found, datetime.now(UTC))


def cannot_pull(place, name: str, reason: str) -> None:
    waiting = {"state": {"waiting": {"reason": reason, "message": IMAGE}}}
    container = {
        "name": "train",
        "restartCount": 0,
        "ready": False,
        "image": "i",
        "imageID": "",
        **waiting,
    }
    change = {"status": {"phase": "Pending", "containerStatuses": [container]}}
    place.cluster.patch(pods(place), name, change, place.namespace, subresource="status")


def not_running(place) -> list[str]:
    """What is told of a run of which no Pod runs; on a slow machine some are missing before."""
    messages = told(place, "JobNotStarting")
    return [message for message in messages if message.startswith("no Pod is running: bert-")]


def test_a_job_whose_images_cannot_be_pulled_is_not_running_and_says_why(place, watching):
    watching(timeouts=PATIENCE)
    place.submit(training_job(workers=2))
    for _ in range(3):  # kubelets say now this and now that
        for reason in ("ErrImagePull", "ImagePullBackOff"):
            for name in place.pods():
                cannot_pull(place, name, reason)
    [message] = eventually(lambda: not_running(place))
    assert ": ImagePullBackOff: Back-off" in message
    eventually(lambda: phase(place) == "Pending")
    assert "ImagePullBackOff" in status(place)
    time.sleep(1.5)
    assert phase(place) == "Pending"
    assert len(not_running(place)) == 1
    place.kubelets()
    eventually(lambda: phase(place) == "Running")
    assert not place.record().get("reason")


def test_a_run_whose_replacements_cannot_be_pulled_is_not_running_any_more(place, watching):
    watching(timeouts=PATIENCE)
    place.kubelets()
    workers = {**replicas("PyTorchJob", 2), "restartPolicy": "OnFailure"}
    place.submit(kubeflow_job("PyTorchJob", {"Worker": workers}))
    eventually(lambda: phase(place, "mnist") == "Running")
    # Somebody has deleted the image from the registry, and both Pods fail.
    place.holding.set()
    for number in (0, 1):
        name = f"mnist-worker-{number}"
        uid = place.uid(name)
        place.fails(name)
        eventually(lambda name=name, uid=uid: place.uid(name) not in ("", uid))
        cannot_pull(place, name, "ImagePullBackOff")
    eventually(lambda: phase(place, "mnist") == "Pending")
    [message] = eventually(lambda: told(place, "JobNotStarting"))
    assert ": ImagePullBackOff: Back-off" in message
    assert "ImagePullBackOff" in status(place, "mnist")
    time.sleep(1.0)
    assert phase(place, "mnist") == "Pending"
    place.holding.clear()
    for number in (0, 1):
        place.becomes(f"mnist-worker-{number}", "Running")
    eventually(lambda: phase(place, "mnist") == "Running")
    assert not place.record("mnist").get("reason")


def test_a_pod_that_nobody_has_created_is_told_of(place, watching):
    place.kubelets()
    objects = place.compiled(training_job(workers=3))
    late = next(v for v in objects if v["kind"] == "Pod" and v["metadata"]["name"].endswith("-2"))
    for value in objects:
        if value is not late:
            place.cluster.create(value)
    watching(timeouts=PATIENCE)  # not before: a slow machine takes longer than that to create all
    [message] = eventually(lambda: told(place, "JobNotStarting"))
    assert message.startswith("missing: bert-worker-2; they were never created")
    assert "missing: bert-worker-2" in status(place)
    place.cluster.create(late)
    eventually(lambda: phase(place) == "Running")


def test_a_pod_lost_before_all_were_there_comes_back_with_the_next_watcher(place, watching):
    first = watching(leads=False)
    place.kubelets()
    worker = {"restartPolicy": "Always", "replicas": 3}
    for value in place.compiled(training_job(workers=3, worker=worker)):
        if value["metadata"]["name"] != "bert-worker-2":
            place.cluster.create(value)
    eventually(lambda: of_replicas(place.run_record(), "seen").get("worker") == "0-1")
    first.stop()
    place.cluster.delete(pods(place), "bert-worker-1", grace=0)
    watching(leads=False)
    eventually(lambda: "bert-worker-1" in place.pods())


def test_a_worker_that_had_finished_unseen_runs_again_and_that_is_told(place, watching):
    first = watching(leads=False)
    place.kubelets()
    place.submit(kubeflow_job("PyTorchJob", {"Worker": 2}))
    eventually(lambda: phase(place, "mnist") == "Running")
    first.stop()
    place.becomes("mnist-worker-1", "Succeeded", 0)
    place.cluster.delete(pods(place), "mnist-worker-1", grace=0)
    watching(leads=False)
    eventually(lambda: "mnist-worker-1" in place.pods())
    [message] = eventually(lambda: told(place, "PodReplaced"))
    assert "deleted while no watcher was running, so how it ended is unknown" in message


def lost_with_its_node(place, name: str) -> None:
    """A Pod that was asked to go, on a node that does not answer."""
    taint = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    change = {"status": {"conditions": [taint, {"type": "Ready", "status": "False"}]}}
    place.cluster.patch(pods(place), name, change, place.namespace, subresource="status")
    place.cluster.delete(pods(place), name, grace=1)


def test_a_pod_on_a_node_that_does_not_answer_is_waited_for_and_that_is_told(place, watching):
    def bound(value: dict) -> None:
        if value["kind"] == "Pod":
            value["spec"]["nodeName"] = "node-1"

    watching(timeouts=PATIENCE)
    place.kubelets()
    place.submit(training_job(workers=2), marks=bound)
    eventually(lambda: place.whole(2))
    uid = place.uid("bert-worker-1")
    lost_with_its_node(place, "bert-worker-1")
    [message] = eventually(lambda: told(place, "PodUnreachable"))
    assert "its node does not answer" in message
    assert "kubectl delete pod bert-worker-1 --force" in message
    assert place.uid("bert-worker-1") == uid, "two of one name cannot be"
    assert "kubectl delete pod bert-worker-1 --force" in " ".join(status(place).split())
    place.cluster.delete(pods(place), "bert-worker-1", grace=0)
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    assert len(told(place, "PodUnreachable")) == 1


def test_a_pod_of_which_nothing_is_known_is_told_of(place, watching):
    watching(timeouts=PATIENCE)
    place.kubelets()
    place.submit(training_job(workers=2))
    eventually(lambda: place.whole(2))
    place.becomes("bert-worker-1", "Unknown")
    [message] = eventually(lambda: told(place, "PodUnreachable"))
    assert "its node does not answer" in message
    assert "its node does not answer" in " ".join(status(place).split())
