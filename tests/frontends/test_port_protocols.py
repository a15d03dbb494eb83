"""A port without a protocol, in any way of leaving it out, is one of TCP."""

import pytest

import etcompile

CONTAINER = {"name": "paddle", "image": "paddlepaddle/paddle:2.6.2"}


def services(port):
    container = {**CONTAINER, "ports": [{"name": "master", "containerPort": 37777}, port]}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "a"},
        "spec": {"paddleReplicaSpecs": {"Worker": worker}},
    }
    return [
        one["spec"]["ports"] for one in etcompile.compile([job]).objects if one["kind"] == "Service"
    ]


@pytest.mark.parametrize("absent", [{}, {"protocol": ""}, {"protocol": None}])
def test_an_empty_protocol_is_tcp(absent):
    plain, empty = (
        services({"containerPort": 22, "protocol": "TCP"}),
        services({"containerPort": 22, **absent}),
    )
    assert empty == plain
    assert {one["name"] for one in empty[0]} == {"master", "port-22"}
