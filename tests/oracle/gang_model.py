"""What each operator's PodGroup for Volcano looks like, and how ours differs from it.

A model beside the recordings, which have few gangs: reference/training-operator.md 2.5 and 2.6,
reference/mpi-operator-v2.md 3.8. Quantities of a job are whole numbers here.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import etcompile
from differences import Difference, compare
from etcompile import Options, Settings
from specs import kubeflow_job, mpi_job

TYPES = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def job(kind: str, version: str = "v1") -> dict[str, Any]:
    """A job of which everything differs: init containers, limits, classes, and annotations."""
    is_mpi = kind == "MPIJob"
    value = mpi_job(version) if is_mpi else kubeflow_job(kind, {"Master": 1, "Worker": 2})
    loading = {"requests": {"cpu": "9", "memory": "9"}}
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "4"}}
    for replicas in value["spec"][TYPES[kind]].values():
        pod = replicas["template"]["spec"]
        pod["priorityClassName"] = "urgent"
        pod["initContainers"] = [{"name": "load", "image": "a:1", "resources": loading}]
        pod["containers"][0]["resources"] = resources
    annotations = {
        "example.com/team": "vision",
        "argocd.argoproj.io/tracking-id": "a:b/c:d/e",
        "volcano.sh/preemptable": "true",
    }
    value["metadata"] = {"name": "spare", "namespace": "ml", "annotations": annotations}
    return value


def pod_group(value: Mapping[str, Any]) -> dict[str, Any]:
    mpi_operator = value["apiVersion"] == "kubeflow.org/v2beta1"
    types = value["spec"][TYPES[value["kind"]]]
    total: dict[str, int] = {}
    for replicas in types.values():
        for one in replicas["template"]["spec"]["containers"]:
            declared = one["resources"]
            requests = declared.get("requests") or declared["limits"]
            if mpi_operator:
                requests = {**declared["limits"], **declared["requests"]}
            for name, amount in requests.items():
                total[name] = total.get(name, 0) + int(amount) * replicas["replicas"]
    classes = [one["template"]["spec"].get("priorityClassName") for one in types.values()]
    policy = {"priorityClassName": classes[0]} if mpi_operator else {"queue": "default"}
    annotations = {} if mpi_operator else {"annotations": value["metadata"]["annotations"]}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": value["metadata"]["name"], "namespace": "ml", **annotations},
        "spec": {
            "minMember": sum(one["replicas"] for one in types.values()),
            "minResources": {name: str(amount) for name, amount in total.items()},
            **policy,
        },
    }


def differences(value: Mapping[str, Any]) -> Iterator[Difference]:
    options = Options(settings=Settings(gang="volcano"))
    compilation = etcompile.compile([copy.deepcopy(dict(value))], options)
    assert compilation.ok, compilation.diagnostics
    [ours] = [one for one in compilation.objects if one["kind"] == "PodGroup"]
    theirs = pod_group(value)
    # The API server fills in the queue that the MPI Operator leaves out.
    theirs["spec"].setdefault("queue", "default")
    yield from compare("PodGroup", theirs, ours)
