"""When the containers of a Pod ran, from what its kubelet says of it."""

from typing import Any

import pytest

from etcompile.causes.goodput import Span, spans_of
from etcompile.k8s.objects import seconds

T0 = seconds("2026-11-23T10:00:00Z") or 0.0


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-23T10:{minute:02}:{second:02}Z"


def pod(
    *states: dict[str, Any], ready: bool = True, since: str = at(0), supervised: bool = False
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "metadata": {"name": "mnist-worker-0", "uid": "u"},
        "spec": {},
        "status": {
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": since},
            ],
            "containerStatuses": [{"name": "main", **state} for state in states],
        },
    }
    if supervised:
        value["spec"]["volumes"] = [{"name": "etcompile-run"}]
    return value


def running(since: str) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": since}}}


def ended(since: str, until: str) -> dict[str, Any]:
    return {"terminated": {"startedAt": since, "finishedAt": until, "exitCode": 1}}


def minutes(spans: tuple[Span, ...]) -> list[tuple[float, float | None]]:
    return [((s.begin - T0) / 60, (s.end - T0) / 60 if s.end else None) for s in spans]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(pod(running(at(1)), since=at(1)), [(1, None)], id="it runs"),
        pytest.param(
            pod(running(at(1)), ready=False, since=at(5)), [(1, 5)], id="its node does not answer"
        ),
        pytest.param(
            pod(running(at(1)), ready=False, since=at(0)), [], id="it has never been ready"
        ),
        pytest.param(
            pod({"state": ended(at(1), at(7))}, ready=False, since=at(7)), [(1, 7)], id="it ended"
        ),
        pytest.param(
            pod({"lastState": ended(at(1), at(3)), **running(at(4))}, since=at(4)),
            [(1, 3), (4, None)],
            id="its kubelet has started it again",
        ),
        pytest.param(pod({"state": {"waiting": {}}}, ready=False), [], id="it waits"),
        pytest.param(
            pod({"state": ended("", "soon")}, ready=False), [], id="it says nothing that is a time"
        ),
        pytest.param(
            pod(running(at(1)), supervised=True, since=at(1)), [(1, None)], id="the first epoch"
        ),
        pytest.param(
            pod(running(at(1)), supervised=True, since=at(10)),
            [(10, None)],
            id="a later epoch begins when the Pod is ready",
        ),
        pytest.param(
            pod(running(at(1)), supervised=True, ready=False, since=at(12)),
            [(1, 12)],
            id="its command has ended, and its container waits",
        ),
        pytest.param(
            pod({"state": ended(at(1), at(9))}, supervised=True, ready=False, since=at(8)),
            [(1, 8)],
            id="a command that ended a minute before its container",
        ),
    ],
)
def test_spans(value: dict[str, Any], expected: list[tuple[float, float | None]]) -> None:
    assert minutes(spans_of(value)) == expected


def test_spans_of_a_command_accumulate_over_observations() -> None:
    spans: tuple[Span, ...] = ()
    for ready, since in ((True, 1), (False, 5), (True, 6), (False, 9), (False, 9), (True, 12)):
        seen = pod(running(at(1)), supervised=True, ready=ready, since=at(since))
        spans = spans_of(seen, spans)
    assert minutes(spans) == [(1, 5), (6, 9), (12, None)]


def test_a_command_that_was_ready_again_before_anybody_looked_has_two_spans() -> None:
    spans = spans_of(pod(running(at(1)), supervised=True, since=at(1)))
    spans = spans_of(pod(running(at(1)), supervised=True, since=at(6)), spans)
    assert minutes(spans) == [(1, 6), (6, None)]
