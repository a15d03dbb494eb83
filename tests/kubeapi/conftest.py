"""What the tests of the cluster package share."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.server import kubeconfig
from etcompile.kubeapi import Cluster, Retries, connect

QUICK = Retries(attempts=5, first=0.02, longest=0.1)
"""As many attempts as matter, without the waits."""


@pytest.fixture
def cluster(control_plane, namespace) -> Iterator[Cluster]:
    """The administrator's connection, in a namespace of this test."""
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as connected:
        yield connected


@pytest.fixture
def config_maps(cluster):
    return cluster.resource("v1", "ConfigMap")


@pytest.fixture
def notices() -> list[str]:
    """What the connection through the proxy said about requests it sent again."""
    return []


@pytest.fixture
def faulty(control_plane, proxy, namespace, notices) -> Iterator[Cluster]:
    """A connection through the proxy, to the namespace of this test."""
    kubeconfig = control_plane.kubeconfig(token="admin-token", server=proxy.url)
    with connect(
        kubeconfig=kubeconfig, namespace=namespace, retries=QUICK, timeout=5, notice=notices.append
    ) as connected:
        connected.resource("v1", "ConfigMap")  # so that tests count their own requests only
        connected.resource("v1", "Pod")
        proxy.seen.clear()
        yield connected


@pytest.fixture
def plugin(tmp_path) -> Callable[..., dict[str, Any]]:
    """`plugin(python_source)`: the `exec` entry of a user whose plugin runs that source."""

    def write(source: str, **more: Any) -> dict[str, Any]:
        program = tmp_path / "plugin"
        program.write_text(f"#!{sys.executable}\nimport json, os, sys, pathlib\n{source}\n")
        program.chmod(0o755)
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "command": str(program),
            **more,
        }

    return write


@pytest.fixture
def written(tmp_path, control_plane) -> Callable[..., Path]:
    """`written(user, name=..., **cluster)`: a kubeconfig file of one context."""

    def write(
        user: dict[str, Any], name: str = "test", namespace: str = "default", **cluster
    ) -> Path:
        value = kubeconfig(
            control_plane.server, control_plane.authority.file, user, namespace, name
        )
        settings = value["clusters"][0]["cluster"]
        settings.update({key.replace("_", "-"): entry for key, entry in cluster.items()})
        value["clusters"][0]["cluster"] = {k: v for k, v in settings.items() if v is not None}
        path = tmp_path / f"{name}.kubeconfig"
        path.write_text(json.dumps(value))
        return path

    return write
