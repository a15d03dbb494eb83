"""What is known only ever becomes newer, whatever order streams and answers tell it in."""

import pytest

from etcompile.watch.core.config_maps import change
from etcompile.watch.core.observe import Store

KEY = ("ml", "bert")


def pod(version: int, uid: str = "a", phase: str = "Running", **metadata) -> dict:
    labels = {
        "etcompile.dev/job": "bert",
        "etcompile.dev/role": "worker",
        "etcompile.dev/index": "0",
    }
    own = {"name": "bert-worker-0", "namespace": "ml", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": {**own, "labels": labels, **metadata}, "status": {"phase": phase}}


def config_map(version: int, name: str = "bert-etcompile-status", **data: str) -> dict:
    metadata = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": str(version)}
    labels = {"etcompile.dev/job": "bert"}
    return {"metadata": {**metadata, "labels": labels}, "data": data}


@pytest.fixture
def told() -> list:
    return []


@pytest.fixture
def seen(told) -> Store:
    return Store(told.append)


def view(seen: Store):
    return seen.job(KEY).pods["bert-worker-0"].view


def test_an_older_event_does_not_undo_a_newer_answer(seen):
    seen.saw_pod(pod(5, "a", "Failed"))
    seen.saw_pod(pod(9, "b", "Pending"), answer=True)  # its replacement is created
    seen.saw_pod(pod(7, "a", "Failed"))
    seen.saw_pod(pod(8, "a", "Failed"), gone=True)
    assert (view(seen).uid, view(seen).phase) == ("b", "Pending")


def test_a_late_answer_does_not_bring_back_what_has_vanished(seen):
    seen.saw_map(config_map(1))
    seen.saw_map(config_map(2, "bert-etcompile-hosts", hostfile="a\n"))
    seen.saw_pod(pod(5))
    seen.saw_pod(pod(6), gone=True)
    seen.saw_pod(pod(5, deletionTimestamp="2026-01-01T00:00:00Z"), answer=True)
    assert seen.job(KEY).pods == {}
    seen.saw_map(config_map(7, "bert-etcompile-hosts"), gone=True)
    seen.saw_map(config_map(4, "bert-etcompile-hosts", hostfile="b\n"), answer=True)
    assert seen.job(KEY).hosts is None


def test_a_late_answer_does_not_bring_back_what_a_list_did_not_have(seen):
    seen.saw_map(config_map(1))
    seen.saw_pod(pod(5))
    for place in ("ml", None):
        seen.left("Pod", place, set(), 10)
        seen.saw_pod(pod(9, "b"), answer=True)
        assert seen.job(KEY).pods == {}
    seen.saw_pod(pod(11, "b"), answer=True)
    assert view(seen).uid == "b"


def test_a_pod_of_no_job_that_had_the_name_is_not_kept(seen):
    stranger = pod(5)
    del stranger["metadata"]["labels"]
    seen.saw_pod(stranger, answer=True)
    assert seen.known() == []


def test_a_pod_that_was_asked_to_go_stays_so_until_it_has(seen):
    seen.saw_pod(pod(5))
    seen.leaves(KEY, "bert-worker-0", "a")
    seen.saw_pod(pod(6))  # on its way since before
    assert view(seen).deleting
    seen.saw_pod(pod(8, "b"))
    assert not view(seen).deleting


def test_a_pod_that_vanished_is_remembered_as_it_was_until_its_place_is_taken(seen):
    seen.saw_pod(pod(5))
    gone = pod(6, phase="Failed", deletionTimestamp="2026-01-01T00:00:00Z")
    seen.saw_pod(gone, gone=True)
    assert seen.job(KEY) is None  # nothing else is known of it
    seen.saw_map(config_map(1))
    seen.saw_pod(pod(7, "b"))
    seen.saw_pod(pod(8, "b"), gone=True)
    assert seen.job(KEY).gone["bert-worker-0"].pod.uid == "b"
    assert seen.job(KEY).gone["bert-worker-0"].pod.phase == "Running"
    seen.saw_pod(pod(9, "c"))
    assert seen.job(KEY).gone == {}


def test_a_list_forgets_what_it_does_not_have_but_not_what_came_after_it(seen):
    seen.saw_map(config_map(1))
    for name, version in (("old", 3), ("new", 12), ("there", 4)):
        value = pod(version)
        value["metadata"]["name"] = name
        seen.saw_pod(value)
    there = pod(4)
    there["metadata"]["name"] = "there"
    seen.saw_pod(there)
    seen.left("Pod", "ml", {("ml", "there")}, 10)
    assert set(seen.job(KEY).pods) == {"new", "there"}


def test_a_list_of_one_namespace_says_nothing_of_another(seen):
    seen.saw_pod(pod(3))
    seen.left("Pod", "other", set(), 10)
    assert view(seen).uid == "a"


def test_what_changes_nothing_for_the_rules_wakes_nobody(seen, told):
    seen.saw_pod(pod(5))
    seen.saw_map(config_map(6, done="x"))
    del told[:]
    seen.saw_pod(pod(7, managedFields=[{"manager": "kubelet"}]))
    seen.saw_map(config_map(6, done="x"))  # the watcher's own write, coming back
    assert told == []
    seen.saw_pod(pod(8, phase="Failed"))
    assert told == [KEY]


def test_the_job_s_three_config_maps_are_told_apart(seen):
    seen.saw_map(config_map(1, "bert-config", **{"job.yaml": "x", "worker.sh": "long"}))
    seen.saw_map(config_map(2, "bert-etcompile-hosts", hostfile="a\n"))
    seen.saw_map(config_map(3, "bert-etcompile-status", done=""))
    seen.saw_map(config_map(4, "bert-anything"))
    job = seen.job(KEY)
    assert job.config.data == {"job.yaml": "x"}
    assert job.hosts.data == {"hostfile": "a\n"}
    assert job.status.data == {"done": ""}


def test_a_pod_is_kept_in_a_few_hundred_bytes(seen):
    import tracemalloc

    count = 2000
    tracemalloc.start()
    for number in range(count):
        value = pod(number + 1, f"{number:08}-0000-0000-0000-000000000000")
        value["metadata"]["name"] = f"bert-worker-{number}"
        value["spec"] = {"containers": [{"name": "c", "env": [{"name": "A", "value": "x" * 5000}]}]}
        seen.saw_pod(value)
    del value
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 1000


def test_a_key_of_a_newer_watcher_is_left_as_it_is(seen):
    seen.saw_map(config_map(1, phase="Pending", invention="of a later version"))
    known = seen.job(KEY).status
    wanted = config_map(1, phase="Running", timeline="{}")
    wanted["metadata"]["annotations"] = {}
    changed = change(wanted, known)["data"]
    assert changed == {"phase": "Running", "timeline": "{}"}
