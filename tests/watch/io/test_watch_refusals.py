"""What the API server refuses for a while, or for good: full quotas, namespaces that go."""

import time

import pytest
from watched import eventually, training_job

from etcompile.integrations.watcher_manifests import NAME
from etcompile.watch.core.reconciler import Reconciler


def created(place) -> list[tuple[int, str]]:
    """Status and name of each Pod that the watcher tried to create."""
    return [
        (event["responseStatus"]["code"], event["objectRef"].get("name", ""))
        for event in place.plane.audit(place.namespace)
        if NAME in event["user"]["username"]
        and (event["verb"], event["objectRef"]["resource"]) == ("create", "pods")
    ]


def started(place, workers: int) -> None:
    place.kubelets()
    place.submit(
        training_job(workers=workers, worker={"restartPolicy": "Always", "replicas": workers})
    )
    eventually(lambda: place.whole(workers), 60)


def test_nothing_is_created_again_and_again_in_a_namespace_that_is_being_deleted(place, watching):
    watching()
    started(place, 40)
    namespaces = place.cluster.resource("v1", "Namespace")
    place.cluster.delete(namespaces, place.namespace)
    pods = place.cluster.resource("v1", "Pod")
    # As the namespace controller does, one after the other; each is an event.
    for number in range(20):
        place.cluster.delete(pods, f"bert-worker-{number}", grace=0)
    eventually(lambda: created(place), why="the watcher has not even tried")
    for number in range(20, 40):
        place.cluster.delete(pods, f"bert-worker-{number}", grace=0)
    eventually(lambda: not place.ready())
    assert {code for code, _ in created(place)} == {403}
    assert len(created(place)) <= 40, "not more than one try, of some Pods"


def quota(place, pods: int) -> None:
    """A quota whose controller has just counted."""
    name, kind = "few", place.cluster.resource("v1", "ResourceQuota")
    hard = {"pods": str(pods)}
    place.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": place.namespace},
            "spec": {"hard": hard},
        }
    )
    status = {"status": {"hard": hard, "used": {"pods": str(len(place.pods()))}}}
    place.cluster.patch(kind, name, status, place.namespace, subresource="status")


@pytest.fixture
def patient(monkeypatch) -> None:
    """Watchers that try again only when they are told to."""
    monkeypatch.setattr("etcompile.watch.core.ledger.backoff", lambda _: 600.0)
    monkeypatch.setattr("etcompile.watch.core.act.LONGEST", 600.0)
    monkeypatch.setattr(Reconciler, "_later", lambda *_: time.time() + 600)


@pytest.mark.usefixtures("patient")
def test_of_many_pods_of_a_role_that_a_quota_refuses_a_few_are_tried(place, watching):
    running = watching()
    started(place, 60)
    running.stop()
    pods = place.cluster.resource("v1", "Pod")
    for number in range(60):
        place.cluster.delete(pods, f"bert-worker-{number}", grace=0)
    quota(place, 1)
    watching()
    eventually(lambda: created(place))
    eventually(lambda: place.told("Refused"))
    assert len(created(place)) < 40
    assert len({name for _, name in created(place)}) < 40


def test_a_refused_replacement_is_created_when_the_quota_is_gone(place, watching):
    watching()
    started(place, 2)
    quota(place, 2)
    place.cluster.delete(place.cluster.resource("v1", "Pod"), "bert-worker-1", grace=0)
    eventually(lambda: (403, "bert-worker-1") in created(place))
    place.cluster.delete(place.cluster.resource("v1", "ResourceQuota"), "few")
    eventually(lambda: place.whole(2), 40)
