"""Jobs of four kinds for gang schedulers, how they are scaled, and what preempts their Pods."""

import contextlib
import urllib.error
from typing import Any

import yaml
from disturbed import WatchedJob, kubeflow, until

import specs
from specs import HOROVOD, mpi_job, training_job

MPIRUN = ["mpirun", "-np", "3", "train"]


def elastic(document: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    document["spec"] |= policy
    return document


def mpi(version: str, workers: int, command: list[str]) -> dict[str, Any]:
    job = mpi_job(version)
    types = job["spec"]["mpiReplicaSpecs"]
    types["Launcher"]["template"]["spec"]["containers"][0]["command"] = command
    types["Worker"] |= {"replicas": workers, "restartPolicy": "OnFailure"}
    if version == "v1":
        types["Launcher"]["restartPolicy"] = "OnFailure"
    return job


def train_job(nodes: int, **annotations: str) -> dict[str, Any]:
    job = specs.train_job(nodes)
    job["metadata"]["annotations"] = {
        f"etcompile.dev/{key}": text for key, text in annotations.items()
    }
    return job


def et_job(command: list[str], workers: int = 3, **bounds: int) -> dict[str, Any]:
    job = training_job(replicas=workers)
    types = job["spec"]["etReplicaSpecs"]
    types["launcher"]["restartPolicy"] = "OnFailure"
    types["worker"] |= {"restartPolicy": "OnFailure", **bounds}
    [launcher] = types["launcher"]["template"]["spec"]["containers"]
    launcher["command"] = command
    return job


def roles(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["labels"]["etcompile.dev/role"] for pod in pods}


def fixed(pods: int) -> dict[str, dict[str, Any]]:
    """A job of each kind, of so many Pods that must all fit."""
    return {
        "PyTorchJob": kubeflow("PyTorchJob", Master=1, Worker=pods - 1),
        "MPIJob": mpi("v2beta1", pods - 1, MPIRUN),
        "TrainJob": train_job(pods),
        "TrainingJob": et_job(MPIRUN, pods - 1),
    }


def check_worker_comes_back_after_another_completed(job: WatchedJob) -> None:
    """A scheduler that does not count who has completed would find the gang too small."""
    job.wait_until_supervised()
    _, first, second = sorted(job.running(), key=lambda pod: str(pod["metadata"]["name"]))
    for pod, code in ((second, 0), (first, 137)):
        job.exit(pod, code)
        until(lambda pod=pod: not job.runs(pod), job.describe)
    until(lambda: len(job.running()) == 2, job.describe)
    job.complete()
    until(lambda: job.phase() == "Succeeded", job.describe)


_HOROVOD = [word if word != "1" else "2" for word in HOROVOD]
_HOROVOD_MPI = [word.replace("/etc/edl", "/etc/mpi") for word in _HOROVOD]
_BOUNDS = {"rdzvBackend": "c10d", "minReplicas": 3, "maxReplicas": 5}
ELASTIC = {
    "PyTorchJob": elastic(kubeflow("PyTorchJob", Worker=4), {"elasticPolicy": _BOUNDS}),
    "MPIJob": mpi("v1", 3, _HOROVOD_MPI),
    "TrainJob": train_job(4, nnodes="3:5"),
    "TrainingJob": et_job(_HOROVOD, minReplicas=2, maxReplicas=5),
}
"""A job of each kind, of four Pods, of which three must fit."""


class AppliedJob(WatchedJob):
    """A job that `etcompile apply` brings, with the settings of `WatchedJob`."""

    def etcompile(self, *words: str) -> None:
        its = self.settings
        settings = (
            f"kubernetes-version={its.kubernetes_version}",
            f"gang={its.gang}",
            f"run={its.run}",
        )
        super().etcompile(*words, *(word for one in settings for word in ("--config", one)))

    def sync(self) -> None:
        file = self.folder / "job.yaml"
        if not file.exists():
            file.write_text(yaml.safe_dump(self.document))
        self.etcompile("apply", ".", "--prune", "--yes", "--wait=none", "--config=drain=1s")

    def scale(self, count: int) -> None:
        """Adds so many workers, or removes them."""
        self.etcompile(
            "scale", self.name, ".", "--add" if count > 0 else "--remove", str(abs(count))
        )
        self.size += count
        self.sync()


def preempt(job: WatchedJob, victim: dict[str, Any]) -> None:
    with contextlib.suppress(urllib.error.HTTPError):  # it is there already
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        job.plane.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    place = {"kubernetes.io/hostname": victim["spec"]["nodeName"]}
    spec = {"priorityClassName": "urgent", "containers": [container], "nodeSelector": place}
    job.plane.ask("POST", job.path("Pod"), {"metadata": {"name": "urgent"}, "spec": spec})
    path = job.path("Pod", name="urgent")
    until(lambda: job.plane.ask("GET", path)["spec"].get("nodeName"), job.describe)
