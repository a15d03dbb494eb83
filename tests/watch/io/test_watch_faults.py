"""A watcher whose network, API server, rival or life fails in the middle of its work."""

import logging
import subprocess
import sys
import time

import pytest
from watched import LEASE, created_pods, eventually, training_job

from etcompile.integrations.watcher_manifests import NAME


def replaced(place, names: list[str]) -> None:
    before = {name: place.uid(name) for name in names}
    for name in names:
        place.fails(name)
    eventually(lambda: all(place.uid(name) not in ("", uid) for name, uid in before.items()), 30)
    eventually(lambda: place.whole(len(place.ready())), 30)
    once_each(place, names)


def once_each(place, names: list[str]) -> None:
    assert sorted(created_pods(place)) == sorted(names)
    written = [*place.run_record().every_replica()]
    counts = {key: one.failed for key, one in written if one.lost}
    assert counts == {("worker", int(name.rpartition("-")[2])): 1 for name in names}


def reports(place) -> list[tuple[str, str]]:
    """Whom each Event is about, and its reason."""
    return [(event["involvedObject"]["name"], event["reason"]) for event in place.events()]


WRITES = {
    "pods": ("DELETE|POST", r"/pods(/bert-worker-1)?\?"),
    "record": ("PATCH", r"/configmaps/bert-etcompile-status"),
    "hosts": ("PATCH", r"/configmaps/bert-etcompile-hosts"),
}


FAULTS = [("status", 429), ("status", 500), ("lost", 500), ("reset-before", 0), ("reset-after", 0)]


@pytest.mark.parametrize(("kind", "status"), FAULTS, ids=str)
@pytest.mark.parametrize("what", WRITES)
def test_write_that_fails_is_decided_again_and_done_once(
    place, watching, proxy, what, kind, status
):
    watching(server=proxy.url)
    place.begin(3)
    methods, path = WRITES[what]
    for method in methods.split("|"):
        proxy.add(kind, method=method, path=path, status=status, times=2)
    replaced(place, ["bert-worker-1"])
    eventually(lambda: any(seen.fault == kind for seen in proxy.seen))
    eventually(lambda: place.whole(3))
    once_each(place, ["bert-worker-1"])
    eventually(lambda: reports(place), why="nobody was told")
    assert reports(place) == [("bert-worker-1", "PodReplaced")]


def test_partitioned_leader_is_replaced_and_its_late_writes_change_nothing(
    place, watching, proxy, caplog
):
    caplog.set_level(logging.INFO)
    first = watching(server=proxy.url)
    eventually(lambda: first.leading.valid)
    second = watching()
    eventually(lambda: [one for one in caplog.messages if one.startswith("standing by: test-")])
    place.begin(12)
    names = [f"bert-worker-{number}" for number in range(1, 11)]
    # What the first has decided reaches the API server after the second took over.
    proxy.add("delay", path=".", seconds=LEASE * 2, times=10_000)
    proxy.hang_up("watch=true")
    for name in names[:5]:
        place.fails(name)
    eventually(lambda: second.leading.valid, 30)
    assert not first.leading.valid
    assert any(one.startswith("stopped leading: ") for one in caplog.messages)
    for name in names[5:]:
        place.fails(name)
    eventually(lambda: sorted(created_pods(place)) == sorted(names), 60)
    time.sleep(LEASE * 2)
    eventually(lambda: place.whole(12), 60)
    once_each(place, names)


def test_robbed_leader_stops_says_who_leads_and_goes_on_when_the_lease_is_free(
    place, watching, caplog
):
    caplog.set_level(logging.INFO)
    running = watching()
    place.begin(3)
    assert "became leader" in caplog.messages
    leases = place.cluster.resource("coordination.k8s.io/v1", "Lease")
    stolen = {"holderIdentity": "robber", "leaseDurationSeconds": 3}
    place.cluster.patch(leases, NAME, {"spec": stolen})
    eventually(lambda: not running.leading.valid)
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    eventually(lambda: "stopped leading: robber leads" in caplog.messages)
    eventually(lambda: running.leading.valid, 30)
    assert caplog.messages.count("became leader") == 2
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid), 30)
    eventually(lambda: place.whole(3), 30)
    once_each(place, ["bert-worker-1"])


def test_two_watchers_that_both_lead_replace_each_worker_once(place, watching):
    watching(leads=False)
    watching(leads=False)
    place.begin(12)
    replaced(place, [f"bert-worker-{number}" for number in range(1, 11)])


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_deletion_that_the_api_server_left_unfinished_is_finished(
    place, watching, control_plane, phase
):
    first = watching()
    place.begin(3)
    first.stop()
    uid = place.uid("bert-worker-1")
    if phase == "Failed":
        place.fails("bert-worker-1")
    else:
        place.holding.set()
        place.cluster.delete(place.cluster.resource("v1", "Pod"), "bert-worker-1")
        objects = place.compiled(training_job(workers=3))
        again = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Pod"}
        uid = place.cluster.create(again["bert-worker-1"])["metadata"]["uid"]
    control_plane.half_delete(place.namespace, "bert-worker-1")
    assert place.pod("bert-worker-1")["metadata"]["deletionTimestamp"]
    watching()
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
    place.holding.clear()
    eventually(lambda: place.whole(3))


def test_terminated_watcher_releases_its_lease(place, granted, control_plane):
    kubeconfig = control_plane.kubeconfig(token=granted(), namespace=place.namespace)
    command = [sys.executable, "-m", "etcompile", "watch", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen([*command, "--lease", "2", "--listen", ""]) as process:
        try:
            place.begin(3)
            process.terminate()
            assert process.wait(timeout=15) == 0
        finally:
            process.kill()
    lease = place.cluster.get(place.cluster.resource("coordination.k8s.io/v1", "Lease"), NAME)
    assert not lease["spec"].get("holderIdentity")


def test_watcher_waits_for_a_cluster_that_does_not_answer(place, watching, proxy):
    proxy.add("status", path=".", status=503, times=30)
    watching(server=proxy.url)
    place.begin(3)
    replaced(place, ["bert-worker-1"])
