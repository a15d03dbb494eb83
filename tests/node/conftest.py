"""A namespace of a real cluster, for the tests whose Pods really run.

    ETCOMPILE_E2E_KUBECONFIG=~/.kube/config ETCOMPILE_E2E_MPI_IMAGE=… \\
    ETCOMPILE_E2E_KUBECTL_IMAGE=… ETCOMPILE_E2E_TORCH_IMAGE=… ETCOMPILE_E2E_MPI5_IMAGE=… \\
    pytest -m node tests/node -s

Any cluster will do, kind or minikube too. The MPI image needs sshd, Open MPI 4 and Python, the
kubectl image a shell and kubectl, the torch image torchrun, the MPI5 image sshd and Open MPI 5 with
its programs on ssh's PATH; all must be on the nodes or pullable.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.real_cluster import KUBECONFIG, Cluster
from node.real_gang import Watcher
from waiting import eventually


@pytest.fixture
def image() -> Callable[[str], str]:
    """`image("MPI")` is the image in ETCOMPILE_E2E_MPI_IMAGE; without one the test is skipped."""

    def named(what: str) -> str:
        name = f"ETCOMPILE_E2E_{what}_IMAGE"
        return os.environ.get(name) or pytest.skip(f"{name} names no image")

    return named


@pytest.fixture
def torch(image: Callable[[str], str]) -> str:
    return image("TORCH")


@pytest.fixture
def mpi(image: Callable[[str], str]) -> str:
    return image("MPI")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if not KUBECONFIG:
        pytest.skip("ETCOMPILE_E2E_KUBECONFIG names no cluster")
    # The long names of parametrized tests differ at their ends only.
    digest = hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    words = re.sub(r"\W+|_", "-", f"etcompile-{request.node.name}")[:50].rstrip("-")
    name = f"{words}-{digest}".lower()
    one = Cluster(name)
    one.kubectl("delete", "namespace", name, "--ignore-not-found")
    one.kubectl("create", "namespace", name)
    yield one
    one.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def watched(cluster: Cluster, tmp_path: Path) -> Iterator[Watcher]:
    """The watcher of the namespace."""
    watcher = Watcher(cluster.namespace, tmp_path / "watcher.log")
    eventually(watcher.log.read_text, 60, lambda: "the watcher has not started")
    yield watcher
    watcher.stop()
