"""Jobs in queues of the real Kueue come back from whatever takes their Pods away.

No replacement may be one that Kueue deletes as one too many, and at the end the queue is free.
ETCOMPILE_DISTURBANCES=N disturbs N times instead of each job once a kind of disturbance.
"""

import copy
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbed import QueuedJob, until
from queueing import Queues

from specs import kubeflow_job, replicas

KINDS = (
    "kill",
    "delete",
    "exit 0 on TERM",
    "preemption",
    "preemption, exit 0",
    "drained queue",
    "dead node",
)


def asking(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a CPU for each of its containers."""
    document = copy.deepcopy(document)

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for container in value.get("containers", ()):
                container.setdefault("resources", {})["requests"] = {"cpu": "1"}
            for child in value.values():
                visit(child)
        elif isinstance(value, list):
            for child in value:
                visit(child)

    visit(document)
    return document


def kubeflow(kind: str, **types: int) -> dict[str, Any]:
    """A job of the Training Operator whose replicas come back after a failure."""
    policy = {"restartPolicy": "ExitCode"}
    return kubeflow_job(kind, {name: {**replicas(kind, n), **policy} for name, n in types.items()})


WITH_LEADER = {
    "PyTorchJob": kubeflow("PyTorchJob", Master=1, Worker=2),
    "TFJob": kubeflow("TFJob", Chief=1, Worker=2),
    "XGBoostJob": kubeflow("XGBoostJob", Master=1, Worker=2),
}
WITHOUT_LEADER = {
    "PyTorchJob, workers only": kubeflow("PyTorchJob", Worker=3),
    "TFJob, workers only": kubeflow("TFJob", Worker=3),
    "PaddleJob": kubeflow("PaddleJob", Worker=3),
    "JAXJob": kubeflow("JAXJob", Worker=3),
}
JOBS = WITH_LEADER | WITHOUT_LEADER


@pytest.fixture
def queued(queues: Queues, tmp_path: Path) -> Iterator[Callable[[str], QueuedJob]]:
    jobs: list[QueuedJob] = []

    def start(name: str) -> QueuedJob:
        jobs.append(QueuedJob(queues, asking(JOBS[name]), tmp_path))
        jobs[-1].wait_until_whole()
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()


@pytest.mark.parametrize("name", JOBS)
def test_a_disturbed_job_comes_back_and_completes(
    queued: Callable[[str], QueuedJob], name: str
) -> None:
    job = queued(name)
    chance = random.Random(name)
    count = int(os.environ.get("ETCOMPILE_DISTURBANCES", "0")) // len(JOBS) or len(KINDS)
    for number in range(count):
        job.disturb(chance, KINDS[number % len(KINDS)])
        job.sync()
    job.complete()
    until(lambda: job.phase() == "Succeeded", job.describe)
    until(job.is_finished, job.describe)
