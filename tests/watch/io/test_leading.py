"""Who may act: the Lease, on a real API server, with two that want it."""

import threading
import time

import pytest
from watched import LEASE, ONCE, eventually

from etcompile.kubeapi import connect
from etcompile.kubeapi.controller.lease import Lease
from etcompile.model.protocol import WATCHER, WATCHES


@pytest.fixture
def contender(control_plane, namespace):
    """`contender(name, server=URL)`: somebody who wants the Lease of this namespace."""
    opened = []

    def make(name: str, server: str = "") -> Lease:
        kubeconfig = control_plane.kubeconfig(
            token="admin-token", namespace=namespace, server=server
        )
        cluster = connect(kubeconfig=kubeconfig, retries=ONCE, timeout=2)
        opened.append(cluster)
        return Lease(cluster, namespace, "lease", name, WATCHER, LEASE)

    yield make
    for cluster in opened:
        cluster.close()


def test_the_first_leads_and_the_second_does_not(contender):
    first, second = contender("first"), contender("second")
    assert first.attempt()
    assert not second.attempt()
    assert first.attempt()
    assert (first.valid, second.valid, second.holder) == (True, False, "first")


def test_of_many_that_start_at_once_one_leads(contender):
    all_of_them = [contender(f"watcher-{number}") for number in range(8)]
    at_once = threading.Barrier(len(all_of_them))

    def run(one: Lease) -> None:
        at_once.wait()
        one.attempt()

    threads = [threading.Thread(target=run, args=(one,)) for one in all_of_them]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.valid for one in all_of_them) == 1


def test_a_lease_that_is_not_renewed_goes_to_another_after_its_holder_has_stopped(contender):
    first, second = contender("first"), contender("second")
    assert first.attempt()
    assert not second.attempt()
    overlapping = []

    def tried() -> bool:
        won = second.attempt()
        overlapping.append(won and first.valid)
        return won

    eventually(tried)
    assert not any(overlapping)
    assert not first.attempt()
    assert not first.valid


def test_a_lease_given_away_is_another_s_at_once(contender):
    first, second = contender("first"), contender("second")
    assert first.attempt()
    assert not second.attempt()
    first.release()
    assert not first.valid
    assert second.attempt()


def test_who_cannot_reach_the_cluster_leads_no_more_and_says_why(contender, proxy):
    told: list[bool] = []
    leading = contender("cut-off", proxy.url)
    leading.changed = told.append
    assert leading.attempt()
    proxy.add("status", path="leases", status=503, times=1000)
    eventually(lambda: not leading.attempt())
    assert told == [True, False]
    assert "503" in leading.problem


def test_who_renews_late_leads_anew(contender, proxy):
    told: list[bool] = []
    leading = contender("slow", proxy.url)
    leading.changed = told.append
    assert leading.attempt()
    # Begun in time and answered too late: for a moment nobody led, and looks were given up.
    time.sleep(LEASE * 0.4)
    proxy.add("delay", path="leases", seconds=LEASE * 0.4)
    assert leading.attempt()
    assert told == [True, False, True]


def test_a_holder_that_reads_that_it_lost_the_lease_stops_at_once(
    contender, control_plane, namespace
):
    leading = contender("robbed")
    assert leading.attempt()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lease"
    change = {"spec": {"holderIdentity": "robber", "leaseDurationSeconds": 60}}
    control_plane.ask("PATCH", path, change, "application/merge-patch+json")
    leading.attempt()  # somebody else wrote
    assert not leading.attempt()
    assert not leading.valid


def test_lease_names_what_its_watcher_watches(control_plane, namespace):
    """An older Lease gets the marks when a watcher takes it."""
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=namespace)
    marks = {"labels": {WATCHES: ""}, "annotations": {WATCHES: "nlp,vision"}}
    with connect(kubeconfig=kubeconfig, retries=ONCE, timeout=2) as cluster:
        assert Lease(cluster, namespace, "older", "first", WATCHER, LEASE).attempt()
        for name in ("older", "newer"):
            assert Lease(cluster, namespace, name, "first", WATCHER, LEASE, marks).attempt()
            lease = cluster.get(cluster.resource("coordination.k8s.io/v1", "Lease"), name)
            assert marks.items() <= lease["metadata"].items()
