"""A Service that a replaced Pod is found by, and that somebody has deleted."""

import logging

import pytest
from watched import QUICK, Running, eventually, training_job

from specs import kubeflow_job

SERVICES = {"TrainingJob": "bert-worker-1", "PyTorchJob": "mnist-worker-1"}


def missing(place) -> list[dict]:
    return place.told("MissingService")


def begun(place, kind: str) -> None:
    place.kubelets()
    job = (
        training_job() if kind == "TrainingJob" else kubeflow_job(kind, {"Master": 1, "Worker": 2})
    )
    place.submit(job)
    name = SERVICES[kind]
    status = f"{name.partition('-')[0]}-etcompile-status"
    eventually(lambda: place.data(status).get("phase") == "Running")


def replaced(place, name: str) -> None:
    uid = place.pod(name)["metadata"]["uid"]
    place.fails(name)
    eventually(lambda: (place.pod(name) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)


@pytest.mark.parametrize("kind", SERVICES)
def test_a_replaced_pod_whose_service_is_missing_is_reported_each_time_it_goes(
    place, watching, caplog, kind
):
    caplog.set_level(logging.WARNING, "etcompile.watch")
    watching()
    begun(place, kind)
    name, services = SERVICES[kind], place.cluster.resource("v1", "Service")
    declared = place.cluster.get(services, name)
    replaced(place, name)
    place.cluster.delete(services, name)
    replaced(place, name)
    [event] = eventually(lambda: missing(place))
    assert event["involvedObject"]["name"] == name
    assert f"the Service {name} is missing" in event["message"]
    assert "`etcompile apply`" in event["message"]
    lines = [one.getMessage() for one in caplog.records if "is missing" in one.getMessage()]
    assert [line.split(": ")[0] for line in lines] == [f"{place.namespace}/{name}"]
    # Known already; and the watcher does not create what Git declares.
    replaced(place, name)
    assert len(missing(place)) == 1
    assert place.cluster.get(services, name) is None
    # It comes back, and goes again.
    metadata = {key: declared["metadata"][key] for key in ("name", "namespace", "labels")}
    spec = {key: declared["spec"][key] for key in ("clusterIP", "ports", "selector")}
    place.cluster.create({**declared, "metadata": metadata, "spec": spec, "status": {}})
    replaced(place, name)
    place.cluster.delete(services, name)
    replaced(place, name)
    eventually(lambda: len(missing(place)) == 2)


def test_without_the_right_to_see_services_pods_are_replaced_and_a_line_says_so(
    place, watching, caplog
):
    caplog.set_level(logging.INFO, "etcompile.watch")
    watching(without=("services", "get"), rights=["quotas"])
    begun(place, "TrainingJob")
    place.cluster.delete(place.cluster.resource("v1", "Service"), "bert-worker-1")
    replaced(place, "bert-worker-1")
    eventually(lambda: place.whole(2))
    assert missing(place) == []
    [line] = eventually(
        lambda: [one for one in caplog.records if "has no right to" in one.getMessage()]
    )
    assert line.levelno == logging.WARNING
    assert line.getMessage().partition("to: ")[2].partition(" (")[0].split("; ") == [
        "get services",
        "read logs",
        "remove jobs with ttlSecondsAfterFinished",
        "remove the PodGroups of such jobs",
    ]


def test_a_service_that_all_pods_share_is_reported_once(place, watching):
    watching()
    place.kubelets()
    place.submit(training_job(workers=3), services="shared")
    eventually(lambda: place.whole(3) and place.record().get("phase") == "Running")
    place.cluster.delete(place.cluster.resource("v1", "Service"), "bert")
    for name in ("bert-worker-0", "bert-worker-1", "bert-worker-2"):
        place.fails(name)
    [event] = eventually(lambda: missing(place))
    assert "the Service bert is missing" in event["message"]
    eventually(lambda: place.whole(3))
    assert len(missing(place)) == 1


def test_once_reports_a_missing_service_before_it_ends(place, watching, granted, control_plane):
    running = watching()
    begun(place, "TrainingJob")
    running.stop()
    place.cluster.delete(place.cluster.resource("v1", "Service"), "bert-worker-1")
    place.fails("bert-worker-1")
    kubeconfig = control_plane.kubeconfig(token=granted(), namespace=place.namespace)
    Running(kubeconfig, place.namespace, leads=False, timeouts=QUICK).watcher.once()
    assert [event["involvedObject"]["name"] for event in missing(place)] == ["bert-worker-1"]
