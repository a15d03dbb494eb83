"""The launcher of an MPIJob v2 is a Job: whatever follows it waits until its Pod has ended."""

import signal

import pytest

from specs import mpi_job
from waiting import eventually

COMMANDS = {
    "restart": ("restart", "mnist"),
    "replace": ("apply", "jobs", "--replace"),
    "delete by name": ("delete", "--job", "mnist"),
    "delete by file": ("delete", "jobs"),
}


def with_command(command: str, namespace: str) -> dict:
    document = mpi_job("v2beta1")
    document["metadata"]["namespace"] = namespace
    document["spec"]["slotsPerWorker"] = 1
    launcher = document["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = ["mpirun", "-np", "2", command]
    return document


class Launcher:
    """The Pod that the Job controller creates for a launcher, on a node that takes its time."""

    name = "mnist-launcher-x7k2p"

    def __init__(self, plane, namespace: str, objects) -> None:
        self._plane, self._objects = plane, objects
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        job = objects()["Job/mnist-launcher"]
        template = job["spec"]["template"]
        self.job = job["metadata"]["uid"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "mnist-launcher",
            "uid": self.job,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {"name": self.name, "ownerReferences": [owner]}
        spec = {**template["spec"], "nodeName": "node-a", "serviceAccountName": "default"}
        pod = {"metadata": {**template["metadata"], **metadata}, "spec": spec}
        manager = "?fieldManager=kube-controller-manager"
        plane.ask("POST", self._pods + manager, pod)

    def is_ending(self) -> bool:
        return "deletionTimestamp" in self._objects()[f"Pod/{self.name}"]["metadata"]

    def end(self) -> None:
        self._plane.ask("DELETE", f"{self._pods}/{self.name}", {"gracePeriodSeconds": 0})


@pytest.fixture
def launcher(run, write, kubelet, control_plane, namespace, objects) -> Launcher:
    write(with_command("train", namespace))
    run("apply", "jobs", code=0)
    return Launcher(control_plane, namespace, objects)


def uid(objects, name: str) -> str:
    there = objects()
    return there[name]["metadata"]["uid"] if name in there else ""


@pytest.mark.parametrize("how", COMMANDS)
def test_no_launcher_follows_before_the_pod_of_the_old_one_has_ended(
    start, write, objects, launcher, namespace, how
):
    if how == "replace":
        write(with_command("train-more", namespace))
    workers = {name: uid(objects, name) for name in ("Pod/mnist-worker-0", "Pod/mnist-worker-1")}
    started = start(*COMMANDS[how])
    eventually(launcher.is_ending, 30, lambda: "the launcher is not deleted")
    eventually(lambda: "deletionTimestamp" in objects()["Job/mnist-launcher"]["metadata"], 5, str)
    assert uid(objects, "Job/mnist-launcher") == launcher.job
    assert started.poll() is None
    assert {name: uid(objects, name) for name in workers} == workers
    launcher.end()
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert "kept" not in out + err
    if how.startswith("delete"):
        assert objects() == {}
    else:
        assert uid(objects, "Job/mnist-launcher") not in ("", launcher.job)


@pytest.mark.parametrize("how", ["restart", "replace", "delete by name"])
def test_a_command_that_was_killed_still_waits_for_the_launcher_s_pod(
    run, start, write, objects, launcher, namespace, how
):
    if how == "replace":
        write(with_command("train-more", namespace))
    started = start(*COMMANDS[how])
    eventually(launcher.is_ending, 30, lambda: "the launcher is not deleted")
    started.send_signal(signal.SIGKILL)
    started.wait()
    again = start(*COMMANDS[how], "--timeout", "3s")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 3, out + err
    assert uid(objects, "Job/mnist-launcher") == launcher.job
    assert "its Pods have ended" in out
    launcher.end()
    done = run(*COMMANDS[how], code=0)
    assert "kept" not in done.stdout + done.stderr
    assert uid(objects, "Job/mnist-launcher") != launcher.job


@pytest.mark.parametrize("how", ["restart", "delete by name"])
def test_a_pod_whose_job_somebody_deleted_is_waited_for(
    run, start, objects, launcher, control_plane, namespace, how
):
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/mnist-launcher"
    control_plane.ask("DELETE", path, {"propagationPolicy": "Background"})
    eventually(launcher.is_ending, 30, lambda: "the launcher is not deleted")
    started = start(*COMMANDS[how], "--timeout", "3s")
    out, err = started.communicate(timeout=60)
    assert started.returncode == 3, out + err
    assert "Job/mnist-launcher" not in objects()
    assert "kept" not in out + err
    launcher.end()
    run(*COMMANDS[how], code=0)
