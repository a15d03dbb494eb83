"""However odd the state of a job is, and whatever else happens to it: few requests."""

import contextlib
import itertools
import threading
import time
from collections import Counter

import pytest
from watched import ALWAYS, create_pod, eventually, maps, pods

from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi import ClusterError

SECONDS = 4.0
"""For how long requests are counted. A loop without a back-off sends hundreds."""
MOST = 30
UNLABELLED = {"metadata": {"labels": {"etcompile.dev/job": None}}}


def unlabelled(place) -> None:
    place.cluster.patch(pods(place), "bert-worker-1", UNLABELLED)


def of_somebody(place) -> None:
    """The name of a worker is taken by a Pod of somebody else."""
    place.cluster.delete(pods(place), "bert-worker-1")
    with contextlib.suppress(ClusterError):  # the watcher may be faster, and then it is as well
        create_pod(place, "bert-worker-1")


def terminating(place) -> None:
    place.cluster.delete(place.cluster.resource("v1", "Namespace"), place.namespace)
    for name in ("bert-worker-1", "bert-worker-2"):
        place.cluster.delete(pods(place), name)


def held_by_a_finalizer(place) -> None:
    place.cluster.patch(
        pods(place), "bert-worker-1", {"metadata": {"finalizers": ["example.com/a"]}}
    )
    place.fails("bert-worker-1")


def changed(name: str, change: dict):

    def make(place) -> None:
        place.cluster.patch(maps(place), name, change)
        place.fails("bert-worker-1")

    return make


def fails(place) -> None:
    for name in ("bert-worker-1", "bert-worker-2"):
        place.fails(name)


RECORD, LIST = "bert-etcompile-status", "bert-etcompile-hosts"
STATES = {
    "a Pod without the job's label": unlabelled,
    "a name that is taken": of_somebody,
    "a namespace that is being deleted": terminating,
    "a Pod that waits for a finalizer": held_by_a_finalizer,
    "a record that cannot be changed": changed(RECORD, {"immutable": True}),
    "a list that cannot be changed": changed(LIST, {"immutable": True}),
    "a record without its label": changed(RECORD, UNLABELLED),
    "a list without its label": changed(LIST, UNLABELLED),
    "a job that cannot be read": changed("bert-config", {"data": {"job.yaml": "a: ["}}),
    "a record that cannot be read": changed(RECORD, {"data": {"record": "{", "phase": ""}}),
    "a list that nobody has written": changed(LIST, {"data": {"hostfile": "nobody"}}),
}
REFUSED = {
    "every Pod": ("POST", r"/pods\?", 403),
    "Pods for a while": ("POST", r"/pods\?", 429),
    "Pods by a server that fails": ("POST", r"/pods\?", 500),
    "every deletion": ("DELETE", r"/pods/", 403),
    "every record": ("PATCH", r"/configmaps/bert-etcompile-status", 403),
    "every list": ("PATCH", r"/configmaps/bert-etcompile-hosts", 403),
    "every annotation": ("PATCH", r"/pods/", 403),
    "every Event": ("POST", r"/events", 403),
    "every Secret": ("POST", r"/secrets", 403),
}


@pytest.fixture
def busy(place):
    """`busy()`: from now on something happens to a worker all the time, and nothing follows."""
    stop = threading.Event()
    state = {"name": "main", "ready": True, "image": "", "imageID": ""}

    def happen() -> None:
        for count in itertools.takewhile(lambda _: not stop.wait(0.02), itertools.count()):
            status = {"containerStatuses": [{**state, "restartCount": count}]}
            with contextlib.suppress(ClusterError):
                place.cluster.patch(
                    pods(place), "bert-worker-3", {"status": status}, subresource="status"
                )

    thread = threading.Thread(target=happen)
    yield thread.start
    stop.set()
    if thread.ident is not None:
        thread.join()


def counted(proxy) -> Counter:
    """The requests of the next seconds, but for those that watch and lead, and its rights.

    What it may do it asks once, when it has started.
    """
    before = len(proxy.seen)
    time.sleep(SECONDS)
    once = ("/leases", "/selfsubjectaccessreviews")
    requests = [one for one in proxy.seen[before:] if not any(path in one.path for path in once)]
    return Counter(
        f"{one.method} {one.path.partition('?')[0].rpartition('/')[2]}" for one in requests
    )


@pytest.mark.parametrize("state", STATES)
def test_odd_state_of_a_job_costs_few_requests(place, watching, proxy, busy, state):
    watching(server=proxy.url)
    place.begin(4, ALWAYS)
    STATES[state](place)
    busy()
    requests = counted(proxy)
    assert requests.total() <= MOST, requests


@pytest.mark.parametrize("what", REFUSED)
def test_refused_writes_cost_few_requests(place, watching, proxy, busy, what):
    watching(server=proxy.url)
    place.begin(4, ALWAYS)
    method, path, status = REFUSED[what]
    proxy.add("status", method=method, path=path, status=status, times=100_000)
    fails(place)
    busy()
    requests = counted(proxy)
    assert requests.total() <= MOST, requests


def test_healthy_job_costs_no_requests(place, watching, proxy, busy):
    watching(server=proxy.url)
    place.begin(4, ALWAYS)
    eventually(lambda: place.pod("bert-launcher")["metadata"]["annotations"])
    time.sleep(1.0)
    busy()
    assert counted(proxy).total() <= 2


@pytest.fixture
def patient(monkeypatch) -> None:
    """Watchers that try again only when they are told to."""
    monkeypatch.setattr("etcompile.watch.core.act.backoff", lambda _: 600.0)
    monkeypatch.setattr("etcompile.watch.core.act.LONGEST", 600.0)


@pytest.mark.usefixtures("patient")
def test_few_of_many_pods_that_a_quota_refuses_are_tried(place, watching):
    def created() -> list[str]:
        return [
            event["objectRef"].get("name", "")
            for event in place.plane.audit(place.namespace)
            if NAME in event["user"]["username"]
            and (event["verb"], event["objectRef"]["resource"]) == ("create", "pods")
        ]

    running = watching()
    place.begin(60, ALWAYS)
    running.stop()
    for number in range(60):
        place.cluster.delete(pods(place), f"bert-worker-{number}", grace=0)
    # A quota whose controller has just counted.
    hard, meta = {"pods": "1"}, {"name": "few", "namespace": place.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    place.cluster.create(quota)
    kind = place.cluster.resource("v1", "ResourceQuota")
    status = {"status": {"hard": hard, "used": {"pods": str(len(place.pods()))}}}
    place.cluster.patch(kind, "few", status, place.namespace, subresource="status")
    watching()
    eventually(created)
    eventually(lambda: place.events_of("Refused"))
    assert len(created()) < 40
