"""A port without a protocol, in any way of leaving it out, is one of TCP."""

import pytest

from specs import compiled, kubeflow_job, replicas


def services(port):
    ports = [{"name": "master", "containerPort": 37777}, port]
    job = kubeflow_job("PaddleJob", {"Worker": replicas("PaddleJob", 1, ports=ports)})
    return [one["spec"]["ports"] for one in compiled(job).objects if one["kind"] == "Service"]


@pytest.mark.parametrize("absent", [{}, {"protocol": ""}, {"protocol": None}])
def test_an_empty_protocol_is_tcp(absent):
    plain, empty = (
        services({"containerPort": 22, "protocol": "TCP"}),
        services({"containerPort": 22, **absent}),
    )
    assert empty == plain
    assert {one["name"] for one in empty[0]} == {"master", "port-22"}
