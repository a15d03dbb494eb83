"""Jobs that are suspended, deleted, applied again or scaled: nothing of the past comes back."""

import time

import pytest
from watched import created_pods, eventually, maps, pods, training_job

from specs import kubeflow_job

QUIET = 1.5
"""Seconds in which whatever would still go wrong does: longer than each wait of these watchers."""
JOB = "etcompile.dev/job"


def torch(*, suspend: bool) -> dict:
    return kubeflow_job("PyTorchJob", {"Worker": 3}, runPolicy={"suspend": suspend})


def apply(place, *documents: dict, kinds: tuple[str, ...] = ("ConfigMap",)) -> None:
    for value in place.compiled(*documents):
        if value["kind"] in kinds:
            place.cluster.server_side_apply(value, force=True)


def phase(place, job: str = "mnist") -> str:
    return place.data(f"{job}-etcompile-status").get("phase", "")


# resumed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["with another watcher", "while its Pods still go"])
def test_pods_of_a_resumed_job_are_left_to_whoever_applies_it(place, watching, how):
    running = watching(leads=False)
    place.kubelets()
    place.submit(torch(suspend=False))
    eventually(lambda: phase(place) == "Running")
    if how == "while its Pods still go":
        for name in place.pods():
            hold = {"metadata": {"finalizers": ["test.example/hold"]}}
            place.cluster.patch(pods(place), name, hold)
    apply(place, torch(suspend=True))
    eventually(lambda: all("deletionTimestamp" in v["metadata"] for v in place.pods().values()))
    eventually(lambda: phase(place) == "Suspended")
    if how == "with another watcher":
        running.stop()
        watching(leads=False)
    apply(place, torch(suspend=False))
    for name in place.pods():
        place.let_go(name)
    eventually(lambda: not place.pods() and phase(place) == "Pending")
    time.sleep(QUIET)
    assert created_pods(place) == []
    for value in place.compiled(torch(suspend=False)):
        if value["kind"] == "Pod":
            place.cluster.create(value)  # refused if the watcher had been faster
    eventually(lambda: phase(place) == "Running")
    uid = place.uid("mnist-worker-1")
    place.cluster.delete(pods(place), "mnist-worker-1", grace=0)
    eventually(lambda: place.uid("mnist-worker-1") not in ("", uid))


# deleted ----------------------------------------------------------------------------------------


def test_pods_recreated_during_a_deletion_of_the_job_are_deleted_too(place, watching):
    watching()
    place.kubelets()
    place.submit(training_job(workers=9, worker={"restartPolicy": "Always", "replicas": 9}))
    eventually(lambda: place.whole(9))
    for name in place.pods():
        place.cluster.delete(pods(place), name, grace=0)
    eventually(lambda: len(created_pods(place)) >= 9, 60, "nothing came back, so nothing is shown")
    place.cluster.delete(maps(place), "bert-config")
    eventually(lambda: not [one for one in place.pods().values() if not going(one)])


def going(value: dict) -> bool:
    return "deletionTimestamp" in value["metadata"]


def test_pods_of_others_stay_when_the_config_map_of_their_job_goes(place, watching):
    watching()
    place.kubelets()
    place.submit(training_job(workers=2))
    eventually(lambda: place.whole(2))
    place.cluster.delete(maps(place), "bert-config")
    time.sleep(QUIET)
    assert not [name for name, one in place.pods().items() if going(one)]


def test_pods_of_a_job_applied_again_are_left_to_whoever_applies_it(place, watching):
    watching()
    place.kubelets()
    place.submit(training_job(workers=3))
    eventually(lambda: place.whole(3))
    time.sleep(1.1)  # times in objects are whole seconds
    for name in place.pods():
        place.cluster.delete(pods(place), name, grace=0)
    for name in ("bert-config", "bert-etcompile-status"):
        place.cluster.delete(maps(place), name)
    apply(place, training_job(workers=3))
    time.sleep(QUIET)
    assert created_pods(place) == []


# scaled in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["none", "flux"])
def test_worker_scaled_in_while_it_is_replaced_leaves(place, watching, tool):
    def synced(value: dict) -> None:
        if tool == "flux":
            labels = value["metadata"].setdefault("labels", {})
            labels["kustomize.toolkit.fluxcd.io/name"] = "jobs"

    watching()
    place.kubelets()
    place.submit(training_job(workers=3), marks=synced)
    eventually(lambda: place.whole(3))
    place.fails("bert-worker-2")
    eventually(lambda: place.whole(3) and "bert-worker-2" in created_pods(place))
    time.sleep(1.1)
    for value in place.compiled(training_job(workers=2), marks=synced):
        if value["kind"] == "ConfigMap":
            place.cluster.server_side_apply(value, force=True)
    place.fails("bert-worker-1")
    eventually(lambda: "bert-worker-2" not in place.pods())


# relabelled -------------------------------------------------------------------------------------


def test_pod_that_lost_the_label_of_its_job_is_reported_and_not_deleted(place, watching):
    watching()
    place.kubelets()
    place.submit(training_job(workers=2, worker={"restartPolicy": "Always", "replicas": 2}))
    eventually(lambda: place.whole(2))
    uid = place.uid("bert-worker-1")
    place.cluster.patch(pods(place), "bert-worker-1", {"metadata": {"labels": {JOB: None}}})
    eventually(lambda: place.hosts() == ["bert-worker-0"])
    events = eventually(lambda: place.events_of("NameTaken"))
    assert "bert-worker-1 no longer has the label etcompile.dev/job=bert" in events[0]["message"]
    assert place.uid("bert-worker-1") == uid, "what somebody took out is theirs"
    place.cluster.delete(pods(place), "bert-worker-1", grace=0)
    eventually(lambda: place.whole(2), 40)
