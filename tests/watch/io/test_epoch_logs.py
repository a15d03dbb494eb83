"""Logs are read for what supervisors say of epochs: only what is new, and without waiting."""

import re
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etcompile.kubeapi import ClusterError
from etcompile.model.supervision import UNSUPERVISED, UNSUPERVISED_EVENT, epoch_line
from etcompile.watch.core.act import ActionExecutor, Case
from etcompile.watch.core.actions import EmitEvent, ReadLines
from etcompile.watch.core.ledger import Memory
from etcompile.watch.core.logs import LogReader
from etcompile.watch.core.observe import SeenJob, Store
from etcompile.watch.core.view import PodLog
from watch.rules.supervised import begins, failed

KEY = ("ml", "mnist")
POD = {
    "metadata": {
        "name": "mnist-master-0",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {"etcompile.dev/job": "mnist", "etcompile.dev/role": "master"},
    }
}


class AtOnce(Executor):
    def submit(self, todo: Any, /, *args: Any, **more: Any) -> Future[Any]:
        todo(*args, **more)
        return Future()


class Logs:
    """A cluster of which only logs can be read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[str | None] = []
        self.refused = False

    def now(self) -> float:
        return 1000.0

    def log(
        self, name: str, container: str, namespace: str, *, since: str, limit: int
    ) -> Iterator[str]:
        self.asked.append(since)
        if self.refused:
            raise ClusterError("Forbidden", "it may not", status=403)
        yield from (line for line in self.lines if line >= since)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def store() -> Store:
    store = Store(lambda key: None)
    store.saw_pod(POD)
    return store


@pytest.fixture
def events() -> Any:
    """What people are told."""
    told: list[EmitEvent] = []

    def emit(about: Any, reason: str, message: str, *, warning: bool, once: str = "") -> None:
        if once not in [event.uid for event in told]:
            told.append(EmitEvent(reason, message, about.name, once, warning=warning))

    return SimpleNamespace(told=told, emit=emit)


@pytest.fixture
def read(logs: Logs, store: Store, events: Any) -> Any:
    """`read()`: what is known of the log after another look at it."""
    beside: Any = AtOnce()
    stub: Any = SimpleNamespace()
    reader = LogReader(logs, store, events, beside)
    executor = ActionExecutor(logs, store, lambda: True, stub, events, reader, beside, Memory())

    def look() -> PodLog:
        known = log()
        begin, warning = ("etcompile: epoch ", UNSUPERVISED), (UNSUPERVISED, UNSUPERVISED_EVENT)
        until = known.lines_until
        action = ReadLines("mnist-master-0", "u", "main", known, until, begin, warning)
        executor.act(Case(KEY, stub, SeenJob(), None), [action])
        return log()

    def log() -> PodLog:
        job = store.job(KEY)
        assert job is not None
        return job.pods["mnist-master-0"].log

    return look


def test_log_is_read_on_from_its_last_line(logs: Logs, read: Any) -> None:
    logs.lines = ["2026-01-01T00:00:01.5Z step 1", "2026-01-01T00:00:02.5Z step 2"]
    assert read() == PodLog(lines_until="2026-01-01T00:00:02.5Z")
    line = begins(1, 1, failed("worker-0"))
    logs.lines += [f"2026-01-01T00:00:03.5Z etcompile: {line}", "2026-01-01T00:00:04Z step 1"]
    first = read()
    assert [epoch_line(text).epoch for _, text in first.lines] == [1]
    logs.lines += ["2026-01-01T00:00:05Z step 2"]
    assert read().lines == first.lines
    assert logs.asked == ["", "2026-01-01T00:00:02.5Z", "2026-01-01T00:00:04Z"]


def test_only_the_newest_lines_of_a_log_are_stored(logs: Logs, read: Any) -> None:
    logs.lines = [
        f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z etcompile: {begins(n, n, 'x')}"
        for n in range(1, 200)
    ]
    assert [epoch_line(text).epoch for _, text in read().lines] == [*range(184, 200)]


def test_log_that_may_not_be_read_is_retried_after_minutes(logs: Logs, read: Any) -> None:
    logs.refused = True
    assert read() == PodLog(lines_due=1300.0)


def test_command_without_a_supervisor_is_reported_once(logs: Logs, read: Any, events: Any) -> None:
    script = (Path(__file__).parents[3] / "templates" / "supervise.sh.j2").read_text()
    [line] = re.findall("echo '(etcompile: unsupervised: .*)'", script)
    logs.lines = [f"2026-01-01T00:00:01Z {line}"]
    read()
    read()
    [event] = events.told
    assert (event.reason, event.pod) == ("Unsupervised", "mnist-master-0")
    assert event.message.startswith("this image has no Python 3.8")
