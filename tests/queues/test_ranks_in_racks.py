"""Kueue places ranks that follow each other in one rack, as with the operators' integrations.

The real Kueue and scheduler. Three racks have two nodes each, and a job of twelve Pods
takes them all.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbed import QueuedJob, asking, kubeflow, until
from queueing import NODES, RACK, Queues

from specs import mpi_job, train_job


def mpi(workers: int) -> dict[str, Any]:
    job = mpi_job("v2beta1")
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return job


JOBS = {
    "workers": (kubeflow("PyTorchJob", Worker=12), False),
    "master and workers": (kubeflow("PyTorchJob", Master=1, Worker=11), True),
    "launcher and workers": (mpi(11), True),
    "nodes": (train_job(12), False),
}
"""Each job, and whether its two roles are placed as one."""


@pytest.fixture
def racks(queues: Queues) -> Iterator[Callable[[QueuedJob], list[str]]]:
    spare = [f"node-{NODES}", f"node-{NODES + 1}"]
    for name in spare:
        queues.add_node(name)
    nodes = {
        node["metadata"]["name"]: node["metadata"]["labels"][RACK]
        for node in queues.plane.ask("GET", "/api/v1/nodes")["items"]
    }

    def of_job(job: QueuedJob) -> list[str]:
        def rank(pod: dict[str, Any]) -> int:
            labels = pod["metadata"]["labels"]
            leads = labels["etcompile.dev/role"] in ("master", "launcher")
            return -1 if leads else int(labels["etcompile.dev/index"])

        return [nodes[pod["spec"]["nodeName"]] for pod in sorted(job.running(), key=rank)]

    yield of_job
    for name in spare:
        queues.remove_node(name)


@pytest.mark.parametrize("name", JOBS)
def test_ranks_of_one_rack_follow_each_other_also_after_a_failure(
    queues: Queues, racks: Callable[[QueuedJob], list[str]], tmp_path: Path, name: str
) -> None:
    document, as_one = JOBS[name]
    document = asking(document, cpus=2)
    notes = {"kueue.x-k8s.io/podset-preferred-topology": RACK}
    notes |= {"kueue.x-k8s.io/podset-group-name": "all"} if as_one else {}
    document["metadata"]["annotations"] = notes
    job = QueuedJob(queues, document, tmp_path, cpus=24, flavor="racks")
    try:
        job.wait_until_supervised()
        placed = racks(job)
        assert placed == sorted(placed, key=placed.index), placed
        assert {placed.count(rack) for rack in placed} == {4}
        lost = job.running()[-2]
        job.exit(lost, 137)
        until(lambda: not job.runs(lost), job.describe)
        job.wait_until_whole()
        assert racks(job) == placed
    finally:
        job.close()
    # Kueue does not look at a job again when one of another queue frees nodes.
    until(lambda: not (job.pods() or queues.workloads(job.namespace)), job.describe)
