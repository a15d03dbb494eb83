"""How many lines people read of a rollout, and which."""

import io
import re
from collections.abc import Callable

import pytest

from etcompile.cli import progress
from etcompile.cli.progress import Lines
from etcompile.plan.step import Action, ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import Outcome, Status, StepEvent, Unready
from waiting import eventually

WORKERS = range(500)


def pod(number: int) -> ObjectRef:
    return ObjectRef("v1", "Pod", "ml", f"bert-worker-{number}")


def service(number: int) -> ObjectRef:
    return ObjectRef("v1", "Service", "ml", f"bert-worker-{number}")


@pytest.fixture
def output() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@pytest.fixture
def written(output: io.TextIOWrapper) -> Callable[[], list[str]]:
    def lines() -> list[str]:
        buffer = output.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode().splitlines()

    return lines


def begun(output: io.TextIOWrapper, *refs: ObjectRef, action: Action = "create") -> Lines:
    lines = Lines(output, quiet=False, color=False)
    lines.begin(Plan(tuple(Step(action, ref) for ref in refs), context="prod"))
    return lines


def said(lines: Lines, ref: ObjectRef, status: Status, reason: str = "") -> None:
    action = "create" if status == "created" else "wait"
    lines.tell(StepEvent(ref, action, status, reason))


def test_1001_new_objects_are_a_line_for_each_kind_and_state(output, written) -> None:
    config = ObjectRef("v1", "ConfigMap", "ml", "bert-config")
    refs = [config, *map(service, WORKERS), *map(pod, WORKERS)]
    lines = begun(output, *refs)
    for ref in refs:
        said(lines, ref, "created")
    for number in WORKERS:
        said(lines, pod(number), "ready")
    assert written() == [
        "cluster prod: 1001 to create",
        "ConfigMap ml/bert-config  created",
        "Service ml/bert-worker-0 … 499 (500 Services)  created",
        "Pod ml/bert-worker-0 … 499 (500 Pods)  created",
        "Pod ml/bert-worker-0 … 499 (500 Pods)  ready",
    ]


def test_pods_with_a_shared_reason_are_one_line_and_others_a_separate_one(output, written) -> None:
    lines = begun(output, *map(pod, range(6)))
    for number in range(5):
        said(lines, pod(number), "waiting", f"no node for bert-worker-{number}")
    said(lines, pod(5), "failed", "container main: cannot pull the image")
    lines.end(Outcome())
    assert written()[1:3] == [
        "Pod ml/bert-worker-0 … 4 (5 Pods)  waiting: no node for *",
        "Pod ml/bert-worker-5  failed: container main: cannot pull the image",
    ]


def test_last_lines_repeat_what_failed(output, written) -> None:
    lines = begun(output, *map(pod, range(3)))
    for number in range(3):
        said(lines, pod(number), "failed", "cannot pull the image")
    unready = tuple(Unready(pod(number), "cannot pull the image", True) for number in range(3))
    lines.end(Outcome(unready=unready))
    assert written()[-2:] == [
        "not ready:",
        "  Pod ml/bert-worker-0 … 2 (3 Pods): cannot pull the image",
    ]


def test_repeated_requests_are_one_line_with_their_count(output, written) -> None:
    lines = begun(output, *map(pod, WORKERS))
    for number in range(37):
        path = f"/api/v1/namespaces/ml/pods/bert-worker-{number}"
        lines.repeat(f"PATCH {path}: 503 ServiceUnavailable, trying again in 0.{number} s")
    lines.end(Outcome())
    [line] = [line for line in written() if "503" in line]
    assert line.startswith("503 ServiceUnavailable: 37 requests are sent again, the last: PATCH ")


def test_heartbeat_says_what_is_waited_for_and_how_long(output, written, monkeypatch) -> None:
    monkeypatch.setattr(progress, "_BEAT", 0.0)
    lines = begun(output, *map(pod, range(4)))
    for number in range(4):
        said(lines, pod(number), "created")
    for number in (1, 2):
        said(lines, pod(number), "waiting", "cannot be scheduled")
    heartbeat = re.compile(
        r"4 of 4 done, waiting [\d:]+ for Pod ml/bert-worker-1, 2 \(2 Pods\): cannot be scheduled"
    )
    eventually(lambda: any(map(heartbeat.fullmatch, written())), 60, lambda: f"{written()}")
    lines.end(Outcome())


def test_quiet_lines_are_failures_only(output, written) -> None:
    lines = Lines(output, quiet=True, color=False)
    lines.begin(Plan((Step("create", pod(0)),)))
    lines.repeat("GET /: 503 ServiceUnavailable, trying again in 1 s")
    said(lines, pod(0), "created")
    said(lines, pod(0), "failed", "cannot pull the image")
    lines.end(Outcome())
    assert written() == ["Pod ml/bert-worker-0  failed: cannot pull the image"]


def test_replaced_objects_count_once(output, written, monkeypatch) -> None:
    lines = begun(output, *map(pod, range(2)), action="replace")
    for status in ("deleting", "deleted", "created"):
        for number in range(2):
            lines.tell(StepEvent(pod(number), "replace", status))
    monkeypatch.setattr(progress, "_BEAT", 0.0)
    eventually(lambda: any("2 of 2 done after" in line for line in written()), 60, str)
    lines.end(Outcome())


def test_pods_of_an_earlier_apply_that_become_ready_share_lines(output, written) -> None:
    lines = begun(output, ObjectRef("v1", "ConfigMap", "ml", "bert-config"))
    for number in range(5):
        said(lines, pod(number), "ready")
    lines.end(Outcome())
    assert "Pod ml/bert-worker-0 … 4 (5 Pods)  ready" in written()
