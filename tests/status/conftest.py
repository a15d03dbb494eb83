"""What the tests of `etcompile status` share: jobs in a real cluster, whose kubelet is the test."""

import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from commandline import etcompile
from etcompile.kubeapi import Cluster, connect
from specs import compiled
from status.explained import warning


@pytest.fixture
def cluster(control_plane, namespace) -> Iterator[Cluster]:
    """The administrator's connection, in a namespace of this test."""
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as connected:
        yield connected


@pytest.fixture
def deployed(cluster) -> Callable[..., None]:
    """`deployed(document...)` compiles jobs and creates all their objects."""

    def deploy(*documents: dict[str, Any], **options: Any) -> None:
        for value in compiled(*documents, namespace=cluster.namespace, **options).objects:
            cluster.create(value)

    return deploy


@pytest.fixture
def pod_is(control_plane, namespace) -> Callable[..., None]:
    """`pod_is(name, phase, ready=False, **status)` writes the status of a Pod, as a kubelet."""

    def write(name: str, phase: str, *, ready: bool = False, **status: Any) -> None:
        state = str(ready)
        conditions = [{"type": kind, "status": state} for kind in ("Ready", "ContainersReady")]
        value = {"phase": phase, "conditions": conditions, **status}
        control_plane.set_status(f"/api/v1/namespaces/{namespace}/pods/{name}", value)

    return write


@pytest.fixture
def report_event(cluster) -> Callable[..., None]:
    """`told(pod, reason, message, ago=0, count=1)` records a warning about a Pod."""
    number = iter(range(1000))

    def tell(pod: str, reason: str, message: str, *, ago: int = 0, count: int = 1) -> None:
        at = (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"namespace": cluster.namespace, "apiVersion": "v1"}
        event = warning(pod, reason, message, at, **about)
        metadata = {"name": f"{pod}.{next(number)}"}
        more = {"apiVersion": "v1", "metadata": metadata, "count": count, "firstTimestamp": at}
        cluster.create({**event, **more})

    return tell


@pytest.fixture
def kubeconfig(control_plane, namespace) -> Path:
    return control_plane.kubeconfig(namespace=namespace)


@pytest.fixture
def status(kubeconfig) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`status(argument...)` runs `etcompile status`."""
    return lambda *more: etcompile("status", "--kubeconfig", kubeconfig, *more)
