"""Logs are read for what supervisors say of epochs: only what is new, and without waiting."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import pytest

from etcompile.kubeapi import ClusterError
from etcompile.model.supervision import UNSUPERVISED, epoch_line
from etcompile.watch.core.act import ActionExecutor, Case, Ledger
from etcompile.watch.core.observe import Store
from etcompile.watch.core.run import UNREAD, LogRead, ReadLog
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

    refused = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.requests: list[str] = []

    def now(self) -> float:
        return 1000.0

    def log(
        self, name: str, container: str, namespace: str, *, tail: None, since: str, limit: int
    ) -> Iterator[str]:
        self.requests.append(since)
        if self.refused:
            raise ClusterError("Forbidden", "it may not", status=403)
        yield from (line for line in self.lines if line >= since)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def read(logs: Logs) -> Any:
    """`read()`: what is known of the log after it was read again."""
    store = Store(lambda key: None)
    store.observe("Pod", POD)
    stub: Any = SimpleNamespace()
    executor = ActionExecutor(logs, store, lambda: True, stub, stub, AtOnce())
    ledger = Ledger()

    def read_again() -> LogRead:
        begin, since = ("etcompile: epoch ", UNSUPERVISED), known().until
        action = ReadLog("mnist-master-0", "u", "main", "epochs", since=since, begin=begin)
        executor.act(Case(KEY, stub, store.job(KEY), ledger), [action])
        return known()

    def known() -> LogRead:
        return store.job(KEY).pods["mnist-master-0"].logs.get("epochs", UNREAD)

    return read_again


def epochs(read: LogRead) -> list[int]:
    lines = (epoch_line(line.partition(" ")[2]) for line in read.lines or ())
    return [line.epoch for line in lines if line is not None]


def test_log_is_read_on_from_its_last_line(logs: Logs, read: Any) -> None:
    logs.lines = ["2026-01-01T00:00:01.5Z step 1", "2026-01-01T00:00:02.5Z step 2"]
    assert read() == LogRead("", 1000.0, (), "2026-01-01T00:00:02.5Z")
    line = begins(1, 1, failed("worker-0"))
    logs.lines += [f"2026-01-01T00:00:03.5Z etcompile: {line}", "2026-01-01T00:00:04Z step 1"]
    first = read()
    assert epochs(first) == [1]
    logs.lines += ["2026-01-01T00:00:05Z step 2"]
    assert read().lines == first.lines
    assert logs.requests == ["", "2026-01-01T00:00:02.5Z", "2026-01-01T00:00:04Z"]


def test_only_the_newest_lines_of_a_log_are_stored(logs: Logs, read: Any) -> None:
    logs.lines = [
        f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z etcompile: {begins(n, n, 'x')}"
        for n in range(1, 200)
    ]
    assert epochs(read()) == [*range(184, 200)]


def test_log_that_may_not_be_read_counts_as_failed(logs: Logs, read: Any) -> None:
    logs.refused = True
    assert read().failed
