"""Gang schedulers start all Pods of a job that must fit, or none.

The real schedulers, beside the one of Kubernetes; the Pods' nodes have four CPUs each.
"""

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gang_schedulers
import pytest
from disturbed import QueuedJob, asking, kubeflow, until
from gang_jobs import (
    ELASTIC,
    AppliedJob,
    check_worker_comes_back_after_another_completed,
    fixed,
    preempt,
    roles,
)
from queueing import NODES, Queues

from controlplane.fixtures import teller
from etcompile import Settings
from gobuilds import NoProgramError

KINDS = (*fixed(1),)
Start = Callable[[dict[str, Any]], QueuedJob]


@pytest.fixture(scope="module", params=gang_schedulers.MODULES)
def gang_scheduler(queues, require, request) -> str:
    """A gang scheduler that runs; skips where it cannot be built."""
    name: str = request.param
    try:
        gang_schedulers.start(queues, name, teller(request.config))
    except NoProgramError as error:
        require(name, present=False, why=str(error))
    return name


@pytest.fixture
def start(gang_scheduler: str, queues: Queues, tmp_path: Path) -> Iterator[Start]:
    jobs: list[QueuedJob] = []

    def begin(document: dict[str, Any]) -> QueuedJob:
        jobs.append(QueuedJob(queues, document, tmp_path, gang=gang_scheduler))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


def is_refused(pod: dict[str, Any]) -> bool:
    """Whether the scheduler has tried to place a Pod and has not."""
    conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
    return conditions.get("PodScheduled", {}).get("status") == "False"


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_starts_when_all_of_it_fits(start: Start, queues: Queues, kind: str) -> None:
    job = start(asking(fixed(NODES + 1)[kind], cpus=3))
    until(lambda: len(job.pods()) == NODES + 1 and all(map(is_refused, job.pods())), job.describe)
    time.sleep(3)
    assert [pod for pod in job.pods() if pod["spec"].get("nodeName")] == [], job.describe()
    queues.add_node("spare")
    try:
        job.wait_until_whole()
    finally:
        job.close()
        queues.remove_node("spare")


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_running_gang_loses_is_scheduled_again(start: Start, kind: str) -> None:
    job = start(asking(fixed(3)[kind]))
    job.wait_until_supervised()
    others = sorted(job.running(), key=lambda pod: str(pod["metadata"]["name"]))
    victim = next(pod for pod in others if roles([pod]) <= {"worker", "node"})
    others.remove(victim)
    job.exit(victim, 137)
    until(lambda: not job.runs(victim), job.describe)
    job.wait_until_whole()
    assert all(map(job.runs, others)), job.describe()
    job.complete()
    until(lambda: job.phase() == "Succeeded", job.describe)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preempted_worker_comes_back_when_a_node_is_free(start: Start, kind: str) -> None:
    job = start(asking(fixed(3)[kind], cpus=3))
    job.wait_until_supervised()
    victim = next(pod for pod in job.running() if roles([pod]) <= {"worker", "node"})
    preempt(job, victim)
    until(lambda: not job.runs(victim), job.describe)
    job.plane.ask("DELETE", job.path("Pod", name="urgent"))
    job.wait_until_whole()


@pytest.mark.parametrize("kind", ELASTIC)
def test_an_elastic_gang_scales_out_and_in(
    gang_scheduler: str, queues: Queues, tmp_path: Path, kind: str
) -> None:
    settings = Settings(gang=gang_scheduler, run="one")
    document = asking(copy.deepcopy(ELASTIC[kind]))
    job = AppliedJob(queues, queues.namespace(), document, tmp_path, settings)
    try:
        job.wait_until_supervised()
        before = job.running()
        job.scale(1)
        job.wait_until_whole()
        job.scale(-1)
        job.wait_until_whole()
        assert all(map(job.runs, before)), job.describe()
    finally:
        job.close()


def test_a_worker_comes_back_when_another_one_has_completed(start: Start) -> None:
    job = start(asking(kubeflow("PyTorchJob", Master=1, Worker=2)))
    check_worker_comes_back_after_another_completed(job)
