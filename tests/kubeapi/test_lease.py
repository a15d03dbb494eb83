"""A Lease on a real API server, with several instances that want it."""

import logging
import threading
import time

import pytest

from etcompile.kubeapi import Retries, connect
from etcompile.kubeapi.controller.lease import Lease
from etcompile.model.protocol import WATCHER, WATCHES
from waiting import eventually

SECONDS = 3.0
ONCE = Retries(attempts=1)


@pytest.fixture
def contender(control_plane, namespace):
    """`contender(name, server=URL)`: an instance that wants the Lease of this namespace."""
    opened = []

    def make(name: str, server: str = "", marks: dict | None = None) -> Lease:
        kubeconfig = control_plane.kubeconfig(
            token="admin-token", namespace=namespace, server=server
        )
        opened.append(connect(kubeconfig=kubeconfig, retries=ONCE, timeout=2))
        return Lease(opened[-1], namespace, "lease", name, WATCHER, SECONDS, marks or {})

    yield make
    for cluster in opened:
        cluster.close()


def changes(lease: Lease) -> list[bool]:
    """Whether the instance leads, at each change from now on."""
    changes: list[bool] = []
    lease.changed = changes.append
    return changes


def test_second_instance_stands_by_and_its_log_names_the_leader_once(contender, caplog):
    caplog.set_level(logging.INFO)
    first, second = contender("first"), contender("second")
    assert first.attempt()
    assert [second.attempt(), second.attempt()] == [False, False]
    assert first.attempt()
    assert (first.valid, second.valid, second.holder) == (True, False, "first")
    assert [one for one in caplog.messages if "standing by" in one] == ["standing by: first leads"]


def test_one_of_many_instances_that_start_at_once_leads(contender):
    instances = [contender(f"watcher-{number}") for number in range(8)]
    at_once = threading.Barrier(len(instances))

    def run(one: Lease) -> None:
        at_once.wait()
        one.attempt()

    threads = [threading.Thread(target=run, args=(one,)) for one in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.valid for one in instances) == 1


def test_lease_that_is_not_renewed_changes_hands_after_its_holder_stopped(contender):
    first, second = contender("first"), contender("second")
    assert first.attempt()
    overlapping = []

    def tried() -> bool:
        won = second.attempt()
        overlapping.append(won and first.valid)
        return won

    eventually(tried, 15, lambda: "the Lease never changed hands", pause=0.02)
    assert not any(overlapping)
    assert not first.attempt()
    assert not first.valid


def test_released_lease_is_free_at_once(contender):
    first, second = contender("first"), contender("second")
    assert first.attempt()
    first.release()
    assert not first.valid
    assert second.attempt()


def test_leader_without_the_api_server_stops_and_says_why(contender, proxy):
    leading = contender("cut-off", proxy.url)
    turns = changes(leading)
    assert leading.attempt()
    proxy.add("status", path="leases", status=503, times=1000)
    eventually(lambda: not leading.attempt(), 15, lambda: "it still leads", pause=0.02)
    assert turns == [True, False]
    assert "503" in leading.problem


def test_late_renewal_counts_as_a_new_term(contender, proxy):
    leading = contender("slow", proxy.url)
    turns = changes(leading)
    assert leading.attempt()
    # The request begins in time and its answer is late: for a moment nobody led.
    time.sleep(SECONDS * 0.4)
    proxy.add("delay", path="leases", seconds=SECONDS * 0.4)
    assert leading.attempt()
    assert turns == [True, False, True]


def test_holder_of_a_stolen_lease_stops_as_soon_as_it_reads_it(contender, control_plane, namespace):
    leading = contender("robbed")
    assert leading.attempt()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lease"
    change = {"spec": {"holderIdentity": "robber", "leaseDurationSeconds": 60}}
    control_plane.ask("PATCH", path, change, "application/merge-patch+json")
    leading.attempt()  # its write conflicts
    assert not leading.attempt()
    assert not leading.valid


def test_lease_names_the_namespaces_of_its_watcher_though_it_is_older(contender):
    marks = {"labels": {WATCHES: ""}, "annotations": {WATCHES: "nlp,vision"}}
    assert contender("first").attempt()
    marked = contender("first", marks=marks)
    assert marked.attempt()
    kind = marked.cluster.resource("coordination.k8s.io/v1", "Lease")
    assert marks.items() <= marked.cluster.get(kind, "lease")["metadata"].items()
