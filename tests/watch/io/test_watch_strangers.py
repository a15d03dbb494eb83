"""Pods that look like those of a job and are not: by somebody who may only create Pods."""

import json

import pytest
from msgspec import structs
from watched import QUICK, eventually, training_job

from etcompile.kubeapi import connect
from world import mpi_job

CREATE = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]


@pytest.fixture
def attacker(control_plane, place):
    """The connection of somebody who may create Pods in the namespace, and nothing else."""
    control_plane.grant(place.namespace, "mallory", CREATE)
    kubeconfig = control_plane.kubeconfig(user="mallory", groups=())
    with connect(kubeconfig=kubeconfig, namespace=place.namespace) as connected:
        connected.resource("v1", "Pod")
        yield connected


def launcher_pod(job: dict, **metadata) -> dict:
    """A Pod as the Job of Kubernetes makes it."""
    template = json.loads(json.dumps(job["spec"]["template"]))
    identity = {
        "name": f"{job['metadata']['name']}-x7k2p",
        "namespace": job["metadata"]["namespace"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **identity, **metadata},
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }


def test_copy_of_a_launcher_that_no_job_created_ends_no_run(place, watching, attacker):
    place.kubelets()
    objects = place.submit(mpi_job(version="v2beta1"))
    watching()
    eventually(lambda: len(place.ready()) == 2)
    job = next(v for v in objects if v["kind"] == "Job")
    fake = attacker.create(launcher_pod(job))["metadata"]["name"]
    eventually(lambda: place.becomes(fake, "Succeeded", 0))
    place.replaces("mnist-worker-0")
    eventually(lambda: len(place.ready()) == 2)
    assert place.record("mnist").get("phase", "Pending") in ("Pending", "Running")
    # The one that the Job controller makes counts.
    live = place.cluster.get(place.cluster.resource("batch/v1", "Job"), job["metadata"]["name"])
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": live["metadata"]["name"]}
    reference = {**owner, "uid": live["metadata"]["uid"], "controller": True}
    name = f"{job['metadata']['name']}-real"
    place.cluster.create(launcher_pod(job, name=name, ownerReferences=[reference]))
    eventually(lambda: place.becomes(name, "Succeeded", 0))
    eventually(lambda: place.record("mnist").get("phase") == "Succeeded")


def test_pod_of_another_controller_is_reported_once_and_ends_no_run(place, watching, attacker):
    watching(timeouts=structs.replace(QUICK, start=1.0))
    launcher: dict = {}
    for value in place.compiled(training_job()):
        if (value["kind"], value["metadata"]["name"]) == ("Pod", "bert-launcher"):
            launcher = value
        else:
            place.cluster.create(value)
    eventually(lambda: len(place.pods()) == 2)
    fake = json.loads(json.dumps(launcher))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "u"}
    fake["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    attacker.create(fake)
    for name in ("bert-worker-0", "bert-worker-1"):
        place.becomes(name, "Running")
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.events_of("NameTaken", "bert-launcher"))
    assert "done" not in place.data("bert-etcompile-status")
    assert place.record().get("phase", "Pending") != "Succeeded"
    assert len(place.events_of("NameTaken", "bert-launcher")) == 1
