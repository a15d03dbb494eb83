"""A watcher on a machine whose clock is wrong: the times in objects are the API server's."""

import time

import pytest
from watched import eventually

from specs import kubeflow_job


@pytest.fixture
def clock_is_ahead(monkeypatch):
    """`clock_is_ahead(45)`: the clock of this machine, not the API server's, is wrong by that."""
    real = time.time

    def skew(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return skew


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
    events = eventually(lambda: place.events_of("JobFailed"))
    assert events[0]["firstTimestamp"][:13] == time.strftime("%Y-%m-%dT%H", time.gmtime(finished))
