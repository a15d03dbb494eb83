"""A watcher on a machine whose clock is wrong: the times in objects are the API server's."""

import time

import pytest
from watched import Place, eventually

from specs import dlrover_type, elastic_job, kubeflow_job

QUIET = 3.0
"""Seconds in which whatever would go wrong does."""


def named(index: int) -> str:
    return f"mnist-edljob-worker-{index}"


def elastic(place: Place) -> dict:
    command = ["dlrover-run", "--nnodes=2:4", "train.py"]
    value = elastic_job({"worker": dlrover_type(3, command=command)})
    value["metadata"]["namespace"] = place.namespace
    return value


@pytest.fixture
def clock_is_ahead(monkeypatch):
    """`clock_is_ahead(45)`: the clock of this machine, not the API server's, is wrong by that."""
    real = time.time

    def skew(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return skew


def on_a_node(value: dict) -> None:
    if value["kind"] == "Pod":
        value["spec"]["nodeName"] = "node-1"


def test_worker_with_grace_time_left_is_not_followed_by_a_fast_clock(
    place, watching, clock_is_ahead
):
    clock_is_ahead(45)
    watching()
    place.kubelets()
    place.submit(elastic(place), marks=on_a_node)
    eventually(lambda: len(place.ready()) == 3)
    # Its kubelet has 30 seconds, and by this machine's clock they are over.
    place.cluster.delete(place.cluster.resource("v1", "Pod"), named(1))
    assert place.pod(named(1))["metadata"]["deletionTimestamp"]
    time.sleep(QUIET)
    assert named(4) not in place.pods(), "two Pods of one rank"
    place.cluster.delete(place.cluster.resource("v1", "Pod"), named(1), grace=0)
    eventually(lambda: named(4) in place.ready())


def limited(name: str, seconds: int) -> dict:
    job = kubeflow_job("PyTorchJob", {"Worker": 2}, runPolicy={"activeDeadlineSeconds": seconds})
    return {**job, "metadata": {"name": name}}


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_deadline_is_counted_in_the_time_of_the_api_server(
    place, watching, clock_is_ahead, seconds
):
    clock_is_ahead(seconds)
    watching()
    place.kubelets()
    place.submit(limited("long", 600))
    place.submit(limited("short", 6))
    eventually(lambda: place.record("short").get("phase") == "Failed", 30)
    assert place.record("short")["reason"] == "DeadlineExceeded"
    assert place.record("long")["phase"] == "Running"
    finished, now = place.record("short")["finished"], time.time() - seconds
    assert abs(finished - now) < 60, "what is written down is in the API server's time"
    told = eventually(lambda: place.told("JobFailed"))
    assert told[0]["firstTimestamp"][:13] == time.strftime("%Y-%m-%dT%H", time.gmtime(finished))
