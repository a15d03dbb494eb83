"""Jobs in queues of the real Kueue come back from whatever takes their Pods away.

No replacement may be one that Kueue deletes as one too many, and at the end the queue is free.
Every second job is declared to Argo CD, whose self-healing creates again what is missing.
ETCOMPILE_DISTURBANCES=200 disturbs so often instead of twenty times.
"""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbed import QueuedJob, asking, kubeflow, until
from queueing import Queues

from specs import elastic_job, mpi_job, training_job

DISTURBANCES = (
    *("kill", "delete", "exit 0 on TERM", "preemption", "preemption, exit 0", "drained queue") * 3,
    "dead node",
)


def elastic_training_job() -> dict[str, Any]:
    job = training_job()
    job["spec"]["etReplicaSpecs"]["worker"]["restartPolicy"] = "OnFailure"
    return job


JOBS = {
    "PyTorchJob": kubeflow("PyTorchJob", Master=1, Worker=2),
    "PyTorchJob, workers only": kubeflow("PyTorchJob", Worker=3),
    "TFJob": kubeflow("TFJob", Chief=1, Worker=2),
    "TFJob, workers only": kubeflow("TFJob", Worker=3),
    "XGBoostJob": kubeflow("XGBoostJob", Master=1, Worker=2),
    "PaddleJob": kubeflow("PaddleJob", Worker=3),
    "JAXJob": kubeflow("JAXJob", Worker=3),
    "MPIJob": mpi_job("v2beta1"),
    "TrainingJob": elastic_training_job(),
    "ElasticJob": elastic_job({"worker": 3}),
}
LAUNCHED = ("MPIJob", "TrainingJob")
"""Jobs that fail when their launcher does: only their workers are disturbed one by one."""


@pytest.fixture
def queued(queues: Queues, tmp_path: Path) -> Iterator[Callable[[str], QueuedJob]]:
    jobs: list[QueuedJob] = []

    def start(name: str, *, heals: bool) -> QueuedJob:
        jobs.append(QueuedJob(queues, asking(JOBS[name]), tmp_path, heals=heals))
        jobs[-1].wait_until_supervised()
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()


@pytest.mark.parametrize("name", JOBS)
def test_a_disturbed_job_comes_back_and_completes(
    queued: Callable[..., QueuedJob], name: str
) -> None:
    number = list(JOBS).index(name)
    job = queued(name, heals=number % 2 == 1)
    chance = random.Random(name)
    count = int(os.environ.get("ETCOMPILE_DISTURBANCES", "20")) // len(JOBS)
    for turn in range(count):
        disturbance = DISTURBANCES[(number * count + turn) % len(DISTURBANCES)]
        if name == "ElasticJob" and disturbance == "kill":
            continue  # it counts failures, and gives up after a few
        job.disturb(chance, disturbance, "worker" if name in LAUNCHED else None)
    job.complete()
    until(lambda: job.phase() == "Succeeded", job.describe)
    until(job.is_finished, job.describe)


def test_a_job_that_is_not_admitted_can_be_deleted(queues: Queues, tmp_path: Path) -> None:
    job = QueuedJob(queues, asking(JOBS["PyTorchJob"]), tmp_path, cpus=1)
    try:
        until(lambda: len(queues.workloads(job.namespace)) == 1, job.describe)
        with contextlib.suppress(AssertionError):  # Kueue may keep some Pods
            job.etcompile("delete", "--job", job.name, "--adopt", "--yes", "--timeout", "10s")
        queues.kubectl("delete", "workload", "mnist-one", "-n", job.namespace, "--ignore-not-found")
        until(lambda: not (job.pods() or queues.workloads(job.namespace)), job.describe)
    finally:
        job.close()


def test_a_drained_node_gives_its_pods_to_others(
    queued: Callable[..., QueuedJob], queues: Queues
) -> None:
    job = queued("PyTorchJob", heals=False)
    victim = job.running()[0]
    node = victim["spec"]["nodeName"]
    refused = queues.kubectl("drain", node, "--timeout=60s")
    assert refused.returncode == 1
    assert "use --force to override" in refused.stderr
    assert job.runs(victim)
    try:
        drained = queues.kubectl(
            "drain", node, "--force", "--delete-emptydir-data", "--timeout=60s"
        )
        assert drained.returncode == 0, drained.stderr
        job.wait_until_whole()
        assert not [pod for pod in job.running() if pod["spec"]["nodeName"] == node]
        assert job.failures() == {}
    finally:
        queues.kubectl("uncordon", node)
