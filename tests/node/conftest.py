"""A namespace of a real cluster, for the tests whose Pods really run.

    ETCOMPILE_E2E_KUBECONFIG=~/.kube/config ETCOMPILE_E2E_MPI_IMAGE=… \\
    ETCOMPILE_E2E_KUBECTL_IMAGE=… ETCOMPILE_E2E_TORCH_IMAGE=… pytest -m node tests/node -s

Any cluster will do, kind or minikube too. The MPI image needs sshd and Open MPI 4, the kubectl
image a shell and kubectl, the torch image torchrun; all must be on the nodes or pullable.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import etcompile
from etcompile import Options, Settings, emit

KUBECONFIG = os.environ.get("ETCOMPILE_E2E_KUBECONFIG")
KUBECTL = os.environ.get("ETCOMPILE_E2E_KUBECTL", "kubectl")


class Cluster:
    """kubectl in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kubectl(self, *words: str, given: str | None = None) -> str:
        command = [KUBECTL, "--kubeconfig", str(KUBECONFIG), "-n", self.namespace, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def phases(self) -> dict[str, str]:
        return {p["metadata"]["name"]: p["status"]["phase"] for p in self.get("pods")["items"]}

    def apply(self, *documents: Any, **settings: Any) -> None:
        """Renders documents and applies what comes of it."""
        self.kubectl("apply", "-f", "-", given=self.rendered(*documents, **settings))

    def rendered(self, *documents: Any, **settings: Any) -> str:
        options = Options(namespace=self.namespace, settings=Settings(**settings))
        compilation = etcompile.compile(list(documents), options)
        assert compilation.ok, compilation.diagnostics
        return emit.stream(compilation.objects, ["job.yaml"])

    def log(self, *words: str) -> str:
        return self.kubectl("logs", *words)

    def until(self, holds: Callable[[dict[str, str]], bool], seconds: int = 120) -> dict[str, str]:
        end = time.monotonic() + seconds
        while not holds(phases := self.phases()):
            assert time.monotonic() < end, f"{phases}\n{self.kubectl('describe', 'pods')}"
            time.sleep(0.5)
        return phases


@pytest.fixture
def image() -> Callable[[str], str]:
    """`image("MPI")` is the image in ETCOMPILE_E2E_MPI_IMAGE; without one the test is skipped."""

    def named(what: str) -> str:
        name = f"ETCOMPILE_E2E_{what}_IMAGE"
        return os.environ.get(name) or pytest.skip(f"{name} names no image")

    return named


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if not KUBECONFIG:
        pytest.skip("ETCOMPILE_E2E_KUBECONFIG names no cluster")
    name = re.sub(r"\W+|_", "-", f"etcompile-{request.node.name}").rstrip("-")[:63]
    one = Cluster(name)
    one.kubectl("delete", "namespace", name, "--ignore-not-found")
    one.kubectl("create", "namespace", name)
    yield one
    one.kubectl("delete", "namespace", name, "--wait=false")
