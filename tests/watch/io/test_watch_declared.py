"""Jobs that are suspended, deleted, applied again or scaled: nothing of the past comes back."""

import time

import pytest
from watched import ALWAYS, created_pods, eventually, maps, pods, training_job

from specs import kubeflow_job

QUIET = 1.5
"""Seconds in which whatever would still go wrong does: longer than each wait of these watchers."""
JOB = "etcompile.dev/job"


def torch(*, suspend: bool) -> dict:
    return kubeflow_job("PyTorchJob", {"Worker": 3}, runPolicy={"suspend": suspend})


def apply(place, *documents: dict, marks=None) -> None:
    """What a commit changes of a job whose Pods stay as they are."""
    for value in place.compiled(*documents, marks=marks):
        if value["kind"] == "ConfigMap":
            place.cluster.server_side_apply(value, force=True)


# resumed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["with another watcher", "while its Pods still go"])
def test_pods_of_a_resumed_job_are_left_to_whoever_applies_it(place, watching, how):
    running = watching(leads=False)
    place.kubelets()
    place.submit(torch(suspend=False))
    eventually(lambda: place.phase("mnist") == "Running")
    if how == "while its Pods still go":
        for name in place.pods():
            hold = {"metadata": {"finalizers": ["test.example/hold"]}}
            place.cluster.patch(pods(place), name, hold)
    apply(place, torch(suspend=True))
    eventually(lambda: all("deletionTimestamp" in v["metadata"] for v in place.pods().values()))
    eventually(lambda: place.phase("mnist") == "Suspended")
    if how == "with another watcher":
        running.stop()
        watching(leads=False)
    apply(place, torch(suspend=False))
    for name in place.pods():
        place.let_go(name)
    eventually(lambda: not place.pods() and place.phase("mnist") == "Pending")
    time.sleep(QUIET)
    assert created_pods(place) == []
    for value in place.compiled(torch(suspend=False)):
        if value["kind"] == "Pod":
            place.cluster.create(value)  # refused if the watcher had been faster
    eventually(lambda: place.phase("mnist") == "Running")
    uid = place.uid("mnist-worker-1")
    place.cluster.delete(pods(place), "mnist-worker-1", grace=0)
    eventually(lambda: place.uid("mnist-worker-1") not in ("", uid))


# deleted ----------------------------------------------------------------------------------------


def test_pods_recreated_during_a_deletion_of_the_job_are_deleted_too(place, watching):
    watching()
    place.begin(9, ALWAYS)
    for name in place.pods():
        place.cluster.delete(pods(place), name, grace=0)
    eventually(lambda: len(created_pods(place)) >= 9, 60, "nothing came back, so nothing is shown")
    place.cluster.delete(maps(place), "bert-config")
    eventually(lambda: not [one for one in place.pods().values() if not going(one)])


def going(value: dict) -> bool:
    return "deletionTimestamp" in value["metadata"]


def test_pods_of_others_stay_when_the_config_map_of_their_job_goes(place, watching):
    watching()
    place.begin()
    place.cluster.delete(maps(place), "bert-config")
    time.sleep(QUIET)
    assert not [name for name, one in place.pods().items() if going(one)]


def test_pods_of_a_job_applied_again_are_left_to_whoever_applies_it(place, watching):
    watching()
    place.begin(3)
    time.sleep(1.1)  # times in objects are whole seconds
    for name in place.pods():
        place.cluster.delete(pods(place), name, grace=0)
    for name in ("bert-config", "bert-etcompile-status"):
        place.cluster.delete(maps(place), name)
    apply(place, training_job(workers=3))
    time.sleep(QUIET)
    assert created_pods(place) == []


# relabelled -------------------------------------------------------------------------------------


def test_pod_that_lost_the_label_of_its_job_is_reported_and_not_deleted(place, watching):
    watching()
    place.begin(2, ALWAYS)
    uid = place.uid("bert-worker-1")
    place.cluster.patch(pods(place), "bert-worker-1", {"metadata": {"labels": {JOB: None}}})
    eventually(lambda: place.hosts() == ["bert-worker-0"])
    events = eventually(lambda: place.events_of("NameTaken"))
    assert "bert-worker-1 no longer has the label etcompile.dev/job=bert" in events[0]["message"]
    assert place.uid("bert-worker-1") == uid, "what somebody took out is theirs"
    place.cluster.delete(pods(place), "bert-worker-1", grace=0)
    eventually(lambda: place.whole(2), 40)
