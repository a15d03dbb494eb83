"""The races that the real operators lose, run against the watcher on a real API server.

The numbers are those of reference/et-operator.md 6 and reference/training-operator.md 7. Nearly all
come from decisions on a cache that does not yet hold the operator's own last writes: here every
watch tells what happens half a second late.
"""

import json
import time

import pytest
from watched import created_pods, eventually, training_job

from etcompile.integrations.watcher_manifests import NAME

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


def conflicts(place) -> list[tuple[str, str]]:
    """Verb and name of writes by watchers that conflicted with what was there."""
    return [
        (event["verb"], event["objectRef"]["name"])
        for event in place.plane.audit(place.namespace)
        if event["responseStatus"]["code"] == 409
        and NAME in event["user"]["username"]
        and event["objectRef"]["resource"] != "leases"
    ]


# answers ----------------------------------------------------------------------------------------


# et-operator ------------------------------------------------------------------------------------


def test_et_operator_49_old_status_does_not_overwrite_a_newer_one(place, late):
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


def test_et_operator_51_job_whose_requests_fail_does_not_slow_others(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, training_job("broken"), training_job("sound"), workers=4)
    proxy.add("status", path="broken-", method="DELETE", status=500, times=10_000)
    broken = place.uid("broken-worker-0")
    place.fails("broken-worker-0")
    for _ in range(6):
        place.replaces("sound-worker-1")
        eventually(lambda: is_running(place.pod("sound-worker-1")))
    assert place.uid("broken-worker-0") == broken
    # It is tried again and again, and less and less often.
    assert 2 < sum(seen.fault == "status" for seen in proxy.seen) < 60


# Training Operator --------------------------------------------------------------------------


def test_training_operator_49_refused_pod_is_reported_and_created_later(place, watching, proxy):
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
    eventually(lambda: place.whole(2) and "bert-worker-1" in created_pods(place), 30)
    [event] = eventually(lambda: place.events_of("Refused"))
    assert "exceeded quota: gpus" in event["message"]
    assert place.record()["phase"] == "Running"


def test_training_operator_50_status_writes_do_not_conflict_with_each_other(place, late):
    late()
    begun(place, training_job(workers=8), workers=8)
    eventually(lambda: place.whole(8))
    for number in range(8):
        place.fails(f"bert-worker-{number}")
        time.sleep(0.1)
    eventually(lambda: sorted(created_pods(place)) == [f"bert-worker-{n}" for n in range(8)], 30)
    eventually(lambda: place.whole(8), 30)
    assert conflicts(place) == []
