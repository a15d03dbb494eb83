"""The store of what was observed: it only becomes newer, forgets what is gone, and has a cap."""

import pytest

from etcompile.watch.core.act import change
from etcompile.watch.core.observe import Store

KEY = ("ml", "bert")


def pod(version: int, uid: str = "a", phase: str = "Running", **metadata) -> dict:
    marks = {"job": "bert", "role": "worker", "index": "0"}
    labels = {f"etcompile.dev/{key}": text for key, text in marks.items()}
    known = {"name": "bert-worker-0", "namespace": "ml", "uid": uid, "labels": labels}
    metadata = {**known, "resourceVersion": str(version), **metadata}
    return {"metadata": metadata, "status": {"phase": phase}}


def config_map(version: int, name: str = "bert-etcompile-status", **data: str) -> dict:
    metadata = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": str(version)}
    labels = {"etcompile.dev/job": "bert"}
    return {"metadata": {**metadata, "labels": labels}, "data": data}


@pytest.fixture
def enqueued() -> list:
    return []


@pytest.fixture
def seen(enqueued) -> Store:
    return Store(enqueued.append)


def view(seen: Store):
    return seen.job(KEY).pods["bert-worker-0"].view


def test_older_event_does_not_undo_a_newer_answer(seen):
    seen.observe("Pod", pod(5, "a", "Failed"))
    seen.observe("Pod", pod(9, "b", "Pending"), answer=True)  # its replacement is created
    seen.observe("Pod", pod(7, "a", "Failed"))
    seen.observe("Pod", pod(8, "a", "Failed"), gone=True)
    assert (view(seen).uid, view(seen).phase) == ("b", "Pending")


def test_late_answer_does_not_bring_back_what_has_vanished(seen):
    seen.observe("ConfigMap", config_map(1))
    seen.observe("ConfigMap", config_map(2, "bert-etcompile-hosts", hostfile="a\n"))
    seen.observe("Pod", pod(5))
    seen.observe("Pod", pod(6), gone=True)
    seen.observe("Pod", pod(5, deletionTimestamp="2026-01-01T00:00:00Z"), answer=True)
    assert seen.job(KEY).pods == {}
    seen.observe("ConfigMap", config_map(7, "bert-etcompile-hosts"), gone=True)
    seen.observe("ConfigMap", config_map(4, "bert-etcompile-hosts", hostfile="b\n"), answer=True)
    assert seen.job(KEY).hosts is None


def test_late_answer_does_not_bring_back_what_a_list_did_not_have(seen):
    seen.observe("ConfigMap", config_map(1))
    seen.observe("Pod", pod(5))
    for place in ("ml", None):
        seen.left("Pod", place, set(), 10)
        seen.observe("Pod", pod(9, "b"), answer=True)
        assert seen.job(KEY).pods == {}
    seen.observe("Pod", pod(11, "b"), answer=True)
    assert view(seen).uid == "b"


def test_pod_of_no_job_is_not_stored(seen):
    stranger = pod(5)
    del stranger["metadata"]["labels"]
    seen.observe("Pod", stranger, answer=True)
    assert seen.known() == []


def test_pod_whose_deletion_was_requested_stays_deleting_until_it_is_gone(seen):
    seen.observe("Pod", pod(5))
    seen.leaves(KEY, "bert-worker-0", "a")
    seen.observe("Pod", pod(6))  # on its way since before
    assert view(seen).deleting
    seen.observe("Pod", pod(8, "b"))
    assert not view(seen).deleting


def test_vanished_pod_is_remembered_until_another_has_its_name(seen):
    seen.observe("Pod", pod(5))
    gone = pod(6, phase="Failed", deletionTimestamp="2026-01-01T00:00:00Z")
    seen.observe("Pod", gone, gone=True)
    assert seen.job(KEY) is None  # nothing else is known of it
    seen.observe("ConfigMap", config_map(1))
    seen.observe("Pod", pod(7, "b"))
    seen.observe("Pod", pod(8, "b"), gone=True)
    assert seen.job(KEY).gone["bert-worker-0"].pod.uid == "b"
    assert seen.job(KEY).gone["bert-worker-0"].pod.phase == "Running"
    seen.observe("Pod", pod(9, "c"))
    assert seen.job(KEY).gone == {}


def test_list_forgets_what_it_does_not_have_but_not_what_came_after_it(seen):
    seen.observe("ConfigMap", config_map(1))
    for name, version in (("old", 3), ("new", 12), ("there", 4)):
        value = pod(version)
        value["metadata"]["name"] = name
        seen.observe("Pod", value)
    there = pod(4)
    there["metadata"]["name"] = "there"
    seen.observe("Pod", there)
    seen.left("Pod", "other", set(), 10)
    assert set(seen.job(KEY).pods) == {"old", "new", "there"}
    seen.left("Pod", "ml", {("ml", "there")}, 10)
    assert set(seen.job(KEY).pods) == {"new", "there"}


def test_change_that_no_rule_reads_enqueues_nothing(seen, enqueued):
    seen.observe("Pod", pod(5))
    seen.observe("ConfigMap", config_map(6, done="x"))
    del enqueued[:]
    seen.observe("Pod", pod(7, managedFields=[{"manager": "kubelet"}]))
    seen.observe("ConfigMap", config_map(6, done="x"))  # the watcher's own write, coming back
    assert enqueued == []
    seen.observe("Pod", pod(8, phase="Failed"))
    assert enqueued == [KEY]


def test_three_config_maps_of_a_job_are_stored_apart(seen):
    seen.observe(
        "ConfigMap", config_map(1, "bert-config", **{"job.yaml": "x", "worker.sh": "long"})
    )
    seen.observe("ConfigMap", config_map(2, "bert-etcompile-hosts", hostfile="a\n"))
    seen.observe("ConfigMap", config_map(3, "bert-etcompile-status", done=""))
    seen.observe("ConfigMap", config_map(4, "bert-anything"))
    job = seen.job(KEY)
    assert job.config.data == {"job.yaml": "x"}
    assert job.hosts.data == {"hostfile": "a\n"}
    assert job.status.data == {"done": ""}


def test_stored_pod_takes_less_than_a_kilobyte(seen):
    import tracemalloc

    count = 2000
    tracemalloc.start()
    for number in range(count):
        value = pod(number + 1, f"{number:08}-0000-0000-0000-000000000000")
        value["metadata"]["name"] = f"bert-worker-{number}"
        value["spec"] = {"containers": [{"name": "c", "env": [{"name": "A", "value": "x" * 5000}]}]}
        seen.observe("Pod", value)
    del value
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 1000


def test_key_of_a_newer_watcher_in_its_config_map_stays(seen):
    seen.observe("ConfigMap", config_map(1, phase="Pending", invention="of a later version"))
    known = seen.job(KEY).status
    wanted = config_map(1, phase="Running", timeline="{}")
    wanted["metadata"]["annotations"] = {}
    changed = change(wanted, known)["data"]
    assert changed == {"phase": "Running", "timeline": "{}"}


# Nothing is kept of what is gone ----------------------------------------------------------------


def test_store_forgets_namespaces_that_are_deleted(seen):
    seen.left("Pod", None, set(), 1)
    for number in range(500):
        for gone in (False, True):
            value = pod(2 + 2 * number + gone)
            value["metadata"]["namespace"] = f"n-{number}"
            seen.observe("Pod", value, gone=gone)
    assert seen.known() == []
    sizes = {name: len(field) for name, field in vars(seen).items() if hasattr(field, "__len__")}
    assert {name: size for name, size in sizes.items() if size > 10} == {}


def test_store_forgets_all_but_the_last_pods_that_vanished(seen):
    seen.observe("ConfigMap", config_map(1))
    for number in range(500):
        for version, gone in ((2 * number + 2, False), (2 * number + 3, True)):
            value = pod(version, f"u-{number}")
            value["metadata"]["name"] = f"w-{number}"
            seen.observe("Pod", value, gone=gone)
    assert [*seen.job(KEY).gone] == [f"w-{number}" for number in range(400, 500)]


# The cap of a namespace -------------------------------------------------------------------------


def labelled(number: int, namespace: str, size: int, key: str = "record", job: str = "") -> dict:
    """The record of a job in a namespace, of so many bytes."""
    job = job or f"j{number}"
    value = config_map(number, f"{job}-etcompile-status", **{key: "x" * size})
    value["metadata"] |= {"namespace": namespace, "labels": {"etcompile.dev/job": job}}
    return value


def test_namespace_beyond_the_cap_does_not_cost_others_their_jobs(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._MAPS", 500_000)
    seen = Store(lambda _key: None)
    for number in range(1, 50):
        seen.observe("ConfigMap", labelled(number, "greedy", 100_000))
    seen.observe("ConfigMap", labelled(90, "modest", 100_000))
    numbers = [n for n in range(1, 50) if seen.job(("greedy", f"j{n}")).status.data]
    assert numbers == [1, 2, 3, 4]
    assert seen.job(("modest", "j90")).status.data
    refused = seen.job(("greedy", "j9")).status
    assert "more than" in refused.problem
    assert not refused.data


def test_failures_beyond_the_cap_cost_no_job_its_record(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._MAPS", 250_000)
    seen = Store(lambda _key: None)
    for number in range(1, 9):
        value = labelled(number, "ml", 100_000, "failures")
        value["data"]["record"] = "x" * 1000
        seen.observe("ConfigMap", value)
    statuses = [seen.job(("ml", f"j{number}")).status for number in range(1, 9)]
    assert [one.problem for one in statuses] == [""] * 8
    assert [len(one.data["record"]) for one in statuses] == [1000] * 8
    assert ["failures" in one.data for one in statuses] == [True] * 2 + [False] * 6


def test_job_beyond_the_cap_is_read_when_another_is_gone(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._MAPS", 250_000)
    seen = Store(lambda _key: None)
    for number in (1, 2):
        seen.observe("ConfigMap", labelled(number, "ml", 100_000))
    seen.observe("ConfigMap", labelled(3, "ml", 100_000))
    assert seen.job(("ml", "j3")).status.problem
    seen.observe("ConfigMap", labelled(4, "ml", 1, job="j1"), gone=True)
    seen.observe("ConfigMap", labelled(9, "ml", 100_000, job="j3"))
    assert seen.job(("ml", "j3")).status.data
