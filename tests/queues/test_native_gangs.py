"""Gangs of Kubernetes itself, by its real scheduler: held, started, disturbed, scaled, deleted.

Each Pod takes a node. ETCOMPILE_KUBERNETES chooses the version: 1.35 and later have such gangs.
"""

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbed import asking, kubeflow, until
from gang_jobs import (
    ELASTIC,
    AppliedJob,
    check_worker_comes_back_after_another_completed,
    fixed,
    preempt,
    roles,
)
from queueing import NODES, RACK, Cluster, Programs, on_separate_plane

import etcompile
from controlplane.fixtures import teller
from etcompile import Options, Settings
from gobuilds import NoProgramError

SPARE = (f"node-{NODES}", f"node-{NODES + 1}")
NATIVE = {
    35: ("v1alpha1", "GenericWorkload", "GangScheduling"),
    36: ("v1alpha2", "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"),
    37: ("v1beta1", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
}
"""By minor version of Kubernetes: the API of its own gangs, and its feature gates."""


JOBS = {
    **{kind: (document, 4) for kind, document in fixed(4).items()},
    **{f"{kind}, elastic": (document, 3) for kind, document in ELASTIC.items()},
}
"""Each job, of four Pods, and how many of them must fit."""
LEADERS = ("launcher", "master")
"""The roles without which no other can begin."""
Start = Callable[[dict[str, Any]], "GangJob"]


class Gangs(Cluster):
    """A cluster whose scheduler knows gangs."""

    def __init__(self, minor: int, *arguments: Any) -> None:
        self.minor = minor
        super().__init__(*arguments)
        for name in SPARE:
            self.add_node(name)

    def settings(self) -> Settings:
        return Settings(gang="native", run="one", kubernetes_version=f"1.{self.minor}")

    def leave(self, *nodes: int) -> None:
        for number in range(NODES + len(SPARE)):
            change = {"spec": {"unschedulable": number not in nodes}}
            path = f"/api/v1/nodes/node-{number}"
            self.plane.ask("PATCH", path, change)


class GangJob(AppliedJob):
    """A job in a gang of Kubernetes."""

    cluster: Gangs

    def bound(self) -> list[dict[str, Any]]:
        """Its Pods that have a node and are to go on."""
        return [
            pod
            for pod in self.pods()
            if pod["spec"].get("nodeName")
            and pod["metadata"].get("labels", {}).get("etcompile.dev/job") == self.name
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def held(self) -> bool:
        """Whether all of its Pods are there, and the scheduler has found that they do not fit.

        In 1.35 it says so of one Pod; the others wait, with a place, until that one has one.
        """
        conditions = [
            {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
            for pod in self.pods()
        ]
        refused = [each.get("PodScheduled") == "False" for each in conditions]
        enough = any if self.cluster.minor == 35 else all
        return len(refused) == self.size and enough(refused)

    def groups(self) -> list[dict[str, Any]]:
        [path] = {
            self.path(value["kind"], value["apiVersion"])
            for value in self.declared
            if value["kind"] in ("PodGroup", "Workload")
        }
        groups: list[dict[str, Any]] = self.plane.ask("GET", path)["items"]
        return groups


@pytest.fixture(scope="module")
def gangs(control_plane, require, request, tmp_path_factory) -> Iterator[Gangs]:
    """Skips where Kubernetes has no gangs, or its programs cannot be built."""
    minor = int(control_plane.ask("GET", "/version")["minor"])
    require("native", present=minor in NATIVE, why=f"Kubernetes 1.{minor} has no gangs of its own")
    try:
        programs = Programs(control_plane, teller(request.config))
    except NoProgramError as error:
        require("kueue", present=False, why=str(error))
        raise
    folder = tmp_path_factory.mktemp("gangs")
    api, *names = NATIVE[minor]
    gates = ",".join(f"{name}=true" for name in names)
    flags = (f"--feature-gates={gates}", f"--runtime-config=scheduling.k8s.io/{api}=true")
    with on_separate_plane(
        control_plane, folder, flags, lambda plane: Gangs(minor, plane, programs, folder, gates)
    ) as running:
        yield running


@pytest.fixture
def start(gangs: Gangs, tmp_path: Path) -> Iterator[Start]:
    jobs: list[GangJob] = []

    def begin(document: dict[str, Any]) -> GangJob:
        document = asking(document, cpus=3)
        jobs.append(GangJob(gangs, gangs.namespace(), document, tmp_path, gangs.settings()))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


@pytest.mark.parametrize("name", JOBS)
def test_a_gang_is_held_started_replaced_scaled_preempted_and_deleted(
    gangs: Gangs, start: Start, name: str
) -> None:
    document, minimum = JOBS[name]
    rigid = minimum == 4
    gangs.leave(*range(minimum - 1))
    job = start(document)
    until(job.held, job.describe)
    time.sleep(3)
    assert job.bound() == [], job.describe()
    gangs.leave(*range(minimum))
    until(lambda: len(job.running()) == minimum, job.describe)
    assert set(LEADERS) & roles(job.pods()) <= roles(job.running()), job.describe()
    gangs.leave(*range(job.size))
    job.wait_until_supervised()

    victim = job.running()[-1]
    others = [pod for pod in job.running() if pod != victim]
    job.exit(victim, 137)
    until(lambda: not job.runs(victim), job.describe)
    job.wait_until_whole()
    assert all(map(job.runs, others)), job.describe()
    assert len({membership(pod) for pod in job.running()}) == 1

    if not rigid:
        gangs.leave(*range(job.size + 1))
        job.scale(1)
        job.wait_until_whole()
        job.scale(-1)
        job.wait_until_whole()
        gangs.leave(*range(job.size))

    before = job.running()
    preempt(job, before[-1])
    until(lambda: len(job.bound()) < job.size, job.describe)
    left = [pod for pod in before if job.runs(pod)]
    assert len(left) == (0 if rigid and gangs.minor >= 37 else job.size - 1), job.describe()
    time.sleep(3)
    gangs.plane.ask("DELETE", job.path("Pod", name="urgent"))
    job.wait_until_whole()

    job.etcompile("delete", "--job", job.name, "--yes")
    until(lambda: not job.pods() and not job.groups(), job.describe)


def membership(pod: dict[str, Any]) -> str:
    """What the API server has stored of a Pod's gang."""
    return str(pod["spec"].get("schedulingGroup") or pod["spec"]["workloadRef"])


@pytest.mark.parametrize("name", ["MPIJob, elastic", "TrainingJob, elastic"])
def test_a_preempted_launcher_comes_back(gangs: Gangs, start: Start, name: str) -> None:
    gangs.leave(*range(4))
    job = start(JOBS[name][0])
    job.wait_until_supervised()
    launcher = next(pod for pod in job.running() if roles([pod]) == {"launcher"})
    preempt(job, launcher)
    until(lambda: not job.runs(launcher), job.describe)
    time.sleep(3)
    gangs.plane.ask("DELETE", job.path("Pod", name="urgent"))
    job.wait_until_whole()


def test_a_gang_that_restarts_as_a_whole_begins_with_its_launcher(
    gangs: Gangs, start: Start
) -> None:
    """Only the minimum fits: it is the Pods that were created first."""
    gangs.leave(*range(4))
    document = copy.deepcopy(JOBS["MPIJob, elastic"][0])
    document["metadata"]["annotations"] = {"etcompile.dev/restart-together": "true"}
    job = start(document)
    job.wait_until_supervised()
    gangs.leave(*range(3))
    for _ in range(2):
        before = job.running()
        job.exit(before[-1], 137)
        until(lambda: not any(map(job.runs, before)), job.describe)  # noqa: B023
        until(lambda: len(job.running()) == 3, job.describe)
        assert "launcher" in roles(job.running()), job.describe()


def test_a_gang_is_placed_in_one_rack(gangs: Gangs, start: Start) -> None:
    gangs.leave(1, 2)
    document = kubeflow("PyTorchJob", Worker=2)
    document["metadata"]["annotations"] = {"etcompile.dev/gang-topology": RACK}
    if gangs.minor == 35:
        compilation = etcompile.compile([document], Options(settings=gangs.settings()))
        assert "ET2087" in {problem.code for problem in compilation.diagnostics}
        return
    job = start(document)
    until(job.held, job.describe)
    time.sleep(3)
    assert job.bound() == [], job.describe()
    gangs.leave(1, 2, 3)
    job.wait_until_whole()
    assert {pod["spec"]["nodeName"] for pod in job.running()} == {"node-2", "node-3"}


def test_a_worker_comes_back_when_another_one_has_completed(gangs: Gangs, start: Start) -> None:
    gangs.leave(*range(4))
    check_worker_comes_back_after_another_completed(
        start(kubeflow("PyTorchJob", Master=1, Worker=2))
    )
