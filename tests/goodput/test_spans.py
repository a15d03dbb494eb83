"""When the containers of a Pod ran, from what its kubelet says of it."""

from typing import Any

import pytest

from etcompile.causes.goodput import Span, spans_of
from etcompile.k8s.objects import seconds
from specs import manifest

T0 = seconds("2026-11-23T10:00:00Z") or 0.0


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-23T10:{minute:02}:{second:02}Z"


def pod(*states: dict[str, Any], ready: bool = True, since: str = at(0)) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    containers = [{"name": "main", **state} for state in states]
    status = {"conditions": [condition], "containerStatuses": containers}
    return manifest("Pod", "mnist-worker-0", metadata={"uid": "u"}, spec={}, status=status)


def supervised(*states: dict[str, Any], ready: bool = True, since: str) -> dict[str, Any]:
    return pod(*states, ready=ready, since=since) | {
        "spec": {"volumes": [{"name": "etcompile-run"}]}
    }


def running(since: str) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": since}}}


def ended(since: str, until: str) -> dict[str, Any]:
    return {"terminated": {"startedAt": since, "finishedAt": until, "exitCode": 1}}


def minutes(spans: tuple[Span, ...]) -> list[tuple[float, float | None]]:
    return [((s.begin - T0) / 60, (s.end - T0) / 60 if s.end else None) for s in spans]


SPANS = {
    "it runs": (pod(running(at(1)), since=at(1)), [(1, None)]),
    "its node does not answer": (pod(running(at(1)), ready=False, since=at(5)), [(1, 5)]),
    "it has never been ready": (pod(running(at(1)), ready=False, since=at(0)), []),
    "it ended": (pod({"state": ended(at(1), at(7))}, ready=False, since=at(7)), [(1, 7)]),
    "its kubelet has started it again": (
        pod({"lastState": ended(at(1), at(3)), **running(at(4))}, since=at(4)),
        [(1, 3), (4, None)],
    ),
    "it waits": (pod({"state": {"waiting": {}}}, ready=False), []),
    "it says nothing that is a time": (pod({"state": ended("", "soon")}, ready=False), []),
    "the first epoch": (supervised(running(at(1)), since=at(1)), [(1, None)]),
    "a later epoch begins when the Pod is ready": (
        supervised(running(at(1)), since=at(10)),
        [(10, None)],
    ),
    "its command has ended, and its container waits": (
        supervised(running(at(1)), ready=False, since=at(12)),
        [(1, 12)],
    ),
    "a command that ended a minute before its container": (
        supervised({"state": ended(at(1), at(9))}, ready=False, since=at(8)),
        [(1, 8)],
    ),
}


@pytest.mark.parametrize("case", SPANS)
def test_spans(case: str) -> None:
    value, expected = SPANS[case]
    assert minutes(spans_of(value)) == expected


def test_spans_of_a_command_accumulate_over_observations() -> None:
    spans: tuple[Span, ...] = ()
    for ready, since in ((True, 1), (False, 5), (True, 6), (False, 9), (False, 9), (True, 12)):
        seen = supervised(running(at(1)), ready=ready, since=at(since))
        spans = spans_of(seen, spans)
    assert minutes(spans) == [(1, 5), (6, 9), (12, None)]


def test_a_command_that_was_ready_again_before_anybody_looked_has_two_spans() -> None:
    spans = spans_of(supervised(running(at(1)), since=at(1)))
    spans = spans_of(supervised(running(at(1)), since=at(6)), spans)
    assert minutes(spans) == [(1, 6), (6, None)]
