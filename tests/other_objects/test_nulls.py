"""A null in a map of texts, which the API server reads as empty and which looks like `key:`."""

from typing import Any

import pytest

from etcompile.kubeapi import Cluster, connect
from specs import by_name, compiled, training_job

METADATA = {"name": "a", "namespace": "default", "labels": {"l": None}, "annotations": {"n": None}}
OBJECTS: list[dict[str, Any]] = [
    {"kind": "ConfigMap", "data": {"a": None, "b": "x"}, "binaryData": {"c": None}},
    {"kind": "ConfigMap", "data": None, "binaryData": {}},
    {"kind": "Secret", "stringData": {"a": None}, "data": {"c": None}, "type": None},
    {
        "kind": "Secret",
        "type": "kubernetes.io/basic-auth",
        "stringData": {"username": None, "password": "x"},
    },
    {"kind": "Service", "spec": {"selector": {"a": None}, "ports": [{"port": 80, "name": None}]}},
    {
        "kind": "PodTemplate",
        "template": {
            "metadata": {"labels": {"t": None}},
            "spec": {
                "nodeSelector": {"example.com/gpu": None},
                "tolerations": None,
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"a": None}, "matchExpressions": None},
                    }
                ],
                "containers": [
                    {"name": "a", "image": "b:1", "env": [{"name": "X", "value": None}]}
                ],
            },
        },
    },
]


def written(fields: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "metadata": METADATA, **fields}


def test_a_node_selector_without_a_value_asks_for_an_empty_one() -> None:
    job = training_job()
    worker = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    worker["nodeSelector"] = {"example.com/gpu": None}
    pod = by_name(compiled(job))["Pod", "mnist-worker-0"]
    assert pod["spec"]["nodeSelector"] == {"example.com/gpu": ""}


@pytest.mark.cluster
@pytest.mark.parametrize("fields", OBJECTS)
def test_an_object_comes_to_the_same_as_what_was_written(control_plane, fields) -> None:
    (rendered,) = compiled(written(fields), allow_plain_secrets=True).objects
    with connect(kubeconfig=control_plane.kubeconfig()) as cluster:
        assert stored(cluster, rendered) == stored(cluster, written(fields))


def stored(cluster: Cluster, value: Any) -> dict[str, Any]:
    """What the API server makes of an object, without what differs every time."""
    created = cluster.create(value, dry_run=True)
    for field in ("uid", "creationTimestamp", "managedFields"):
        created["metadata"].pop(field, None)
    if value["kind"] == "Service":
        created["spec"].pop("clusterIP"), created["spec"].pop("clusterIPs")
    return created
