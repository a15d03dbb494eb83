"""The races that the real operators lose, run against the watcher on a real API server.

The numbers are those of reference/et-operator.md 6 and reference/training-operator.md 7. Nearly all
come from decisions on a cache that does not yet hold the operator's own last writes: here every
watch tells what happens half a second late.
"""

import contextlib
import json
import time
from typing import Any

import pytest
from watched import eventually, made, pods, training_job

from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi import ClusterError
from specs import kubeflow_job, replicas, scale_in

LAG = 0.5
WATCHES = r"watch=true"
QUIET = 1.5
"""Seconds in which whatever would still go wrong does: longer than each wait of these watchers."""


@pytest.fixture
def late(watching, proxy):
    """`late()`: a watcher that hears of everything half a second late, or of some even later."""

    def start(path: str = WATCHES, seconds: float = LAG):
        proxy.add("lag", path=path, seconds=seconds, times=10_000)
        return watching(server=proxy.url)

    return start


def begun(place, *documents: dict, workers: int) -> list[dict]:
    place.kubelets()
    objects = place.submit(*documents)
    eventually(lambda: len(place.pods()) - len(documents) == workers)
    eventually(lambda: all(is_running(pod) for pod in place.pods().values()))
    return objects


def is_running(pod: dict) -> bool:
    return pod["status"]["phase"] == "Running"


def apply_config(place, *documents: dict) -> None:
    """What a commit changes of a job whose Pods stay as they are."""
    for value in place.compiled(*documents):
        if value["kind"] == "ConfigMap":
            place.cluster.server_side_apply(value, force=True)


def conflicts(place) -> list[tuple[str, str]]:
    """Verb and name of writes by watchers that conflicted with what was there."""
    return [
        (event["verb"], event["objectRef"]["name"])
        for event in place.plane.audit(place.namespace)
        if event["responseStatus"]["code"] == 409
        and NAME in event["user"]["username"]
        and event["objectRef"]["resource"] != "leases"
    ]


def hold(place, name: str) -> None:
    """Lets a Pod stay, once it is deleted, as one does whose processes take their time."""
    place.cluster.patch(pods(place), name, {"metadata": {"finalizers": ["test.example/hold"]}})


# answers ----------------------------------------------------------------------------------------


def test_a_late_answer_hides_no_pod_that_has_vanished_since(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, training_job(workers=2), workers=2)
    eventually(lambda: place.whole(2))
    hold(place, "bert-worker-1")
    # Its name is still taken, and the answer to who has it comes after it is gone.
    proxy.add("lag", method="GET", path="/pods/bert-worker-1", seconds=1.0)
    place.fails("bert-worker-1")
    eventually(lambda: any(seen.fault for seen in proxy.seen))
    time.sleep(0.2)
    place.let_go("bert-worker-1")
    eventually(lambda: place.whole(2))


# et-operator ------------------------------------------------------------------------------------


def test_et_operator_48_what_is_there_already_fails_no_job(place, late):
    late()
    worker = {"restartPolicy": "Always", "replicas": 3}
    objects = begun(place, training_job(workers=3, worker=worker), workers=3)
    eventually(lambda: place.whole(3))
    for _ in range(3):
        uid = place.uid("bert-worker-1")
        place.cluster.delete(pods(place), "bert-worker-1")
        # The watcher makes it again 0.3 s after it has heard, which is when Git's tool has.
        time.sleep(LAG + 0.25)
        with contextlib.suppress(ClusterError):
            place.cluster.create(
                next(v for v in objects if v["metadata"]["name"] == "bert-worker-1")
            )
        eventually(lambda uid=uid: place.uid("bert-worker-1") not in ("", uid))
        eventually(lambda: place.whole(3))
    assert place.record()["phase"] == "Running"
    assert not [one for one in place.writes(NAME) if one[:2] == ("delete", "pods")]


def test_et_operator_49_an_old_status_does_not_overwrite_a_newer_one(place, late):
    late("configmaps.*watch=true", 3.0)
    begun(place, training_job(workers=3), workers=3)
    eventually(lambda: place.whole(3))
    run = place.record()["run"]
    uid = place.uid("bert-worker-1")
    # Somebody ends the run, and the watcher has not heard of that when a worker fails.
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"done": run}})
    place.fails("bert-worker-1")
    eventually(lambda: ("patch", "bert-etcompile-status") in conflicts(place))
    time.sleep(QUIET + 3.0)
    assert place.data("bert-etcompile-status")["done"] == run
    assert place.uid("bert-worker-1") == uid


def test_et_operator_49_no_worker_is_forgotten_or_kept_for_ever(place, late, proxy):
    late()
    job = training_job(workers=4)
    begun(place, job, workers=4)
    eventually(lambda: place.whole(4))
    # The answers to what it writes get lost as well.
    proxy.add("lost", path="configmaps/bert-etcompile-status", method="PATCH", status=500, times=2)
    apply_config(place, job, scale_in("less", 1, job="bert"))
    eventually(lambda: "bert-worker-3" not in place.pods(), 30)
    place.fails("bert-worker-1")
    eventually(lambda: place.whole(3), 30)
    time.sleep(QUIET)
    assert place.record().get("leaving", {}) == {}
    assert made(place) == ["bert-worker-1"]
    assert sorted(place.pods()) == ["bert-launcher", *(f"bert-worker-{n}" for n in range(3))]


@pytest.mark.parametrize("wish", [1, ["JOB-worker-3"]], ids=["count", "name"])
def test_et_operator_50_a_scale_in_is_carried_out_once(place, late, wish):
    late()
    names = [f"job-{number}" for number in range(5)]
    jobs = [training_job(name, 5) for name in names]
    begun(place, *jobs, workers=25)
    wishes = [
        scale_in(f"less-{name}", [f"{name}-worker-3"] if isinstance(wish, list) else 1, job=name)
        for name in names
    ]
    apply_config(place, *jobs, *wishes)
    gone = 3 if isinstance(wish, list) else 4
    left = {f"{name}-worker-{n}" for name in names for n in range(5) if n != gone}
    eventually(lambda: not {f"{name}-worker-{gone}" for name in names} & place.pods().keys(), 30)
    time.sleep(QUIET)
    assert place.pods().keys() == {f"{name}-launcher" for name in names} | left
    assert made(place) == []


def test_et_operator_51_a_job_that_cannot_be_helped_slows_no_other(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, training_job("broken"), training_job("sound"), workers=4)
    proxy.add("status", path="broken-", method="DELETE", status=500, times=10_000)
    broken = place.uid("broken-worker-0")
    place.fails("broken-worker-0")
    for _ in range(6):
        uid = place.uid("sound-worker-1")
        place.fails("sound-worker-1")
        eventually(lambda uid=uid: place.uid("sound-worker-1") not in ("", uid))
        eventually(lambda: is_running(place.pod("sound-worker-1")))
    assert place.uid("broken-worker-0") == broken
    # It is tried again and again, and less and less often.
    assert 2 < sum(seen.fault == "status" for seen in proxy.seen) < 60


# Training Operator --------------------------------------------------------------------------


def elastic(workers: int, policy: str = "OnFailure") -> dict[str, Any]:
    types = {"Worker": {**replicas("PyTorchJob", workers), "restartPolicy": policy}}
    return kubeflow_job("PyTorchJob", types, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})


def test_training_operator_47_gaps_below_a_worker_that_leaves_are_not_filled(place, late):
    late()
    place.kubelets()
    place.submit(elastic(4))
    eventually(lambda: place.record("mnist").get("phase") == "Running")
    hold(place, "mnist-worker-3")
    apply_config(place, elastic(1))
    for number in (3, 2, 1):
        place.cluster.delete(pods(place), f"mnist-worker-{number}")
        time.sleep(0.3)
    time.sleep(QUIET)
    place.let_go("mnist-worker-3")
    time.sleep(QUIET)
    assert [*place.pods()] == ["mnist-worker-0"]
    assert made(place) == []


@pytest.mark.parametrize("how", ["scaled in", "drained"])
def test_training_operator_48_how_a_pod_ends_that_was_asked_to_go_fails_no_job(place, late, how):
    late()
    place.kubelets()
    place.submit(elastic(3, "ExitCode"))
    eventually(lambda: place.record("mnist").get("phase") == "Running")
    hold(place, "mnist-worker-2")
    if how == "scaled in":
        apply_config(place, elastic(2, "ExitCode"))
    place.cluster.delete(pods(place), "mnist-worker-2")
    place.fails("mnist-worker-2", 1)
    time.sleep(QUIET)
    place.let_go("mnist-worker-2")
    count = 2 if how == "scaled in" else 3
    eventually(lambda: len(place.ready()) == count)
    time.sleep(QUIET)
    assert sorted(place.pods()) == [f"mnist-worker-{n}" for n in range(count)]
    assert place.record("mnist")["phase"] == "Running"
    assert place.record("mnist").get("replaced", {}) == {}


def test_training_operator_49_a_pod_that_is_refused_is_told_of_and_made_once_it_may(
    place, watching, proxy
):
    watching(server=proxy.url)
    begun(place, training_job(workers=2), workers=2)
    refusal = {
        "kind": "Status",
        "status": "Failure",
        "reason": "Forbidden",
        "message": "exceeded quota: gpus",
        "code": 403,
    }
    proxy.add(
        "status", path=r"/pods\?", method="POST", status=403, body=json.dumps(refusal), times=7
    )
    place.fails("bert-worker-1")
    eventually(lambda: place.hosts() == ["bert-worker-0"])
    eventually(lambda: place.whole(2) and "bert-worker-1" in made(place), 30)
    [event] = eventually(lambda: place.told("Refused"))
    assert "exceeded quota: gpus" in event["message"]
    assert place.record()["phase"] == "Running"


def test_training_operator_50_no_status_write_conflicts_with_the_watchers_own(place, late):
    late()
    begun(place, training_job(workers=8), workers=8)
    eventually(lambda: place.whole(8))
    for number in range(8):
        place.fails(f"bert-worker-{number}")
        time.sleep(0.1)
    eventually(lambda: sorted(made(place)) == [f"bert-worker-{n}" for n in range(8)], 30)
    eventually(lambda: place.whole(8), 30)
    assert conflicts(place) == []
