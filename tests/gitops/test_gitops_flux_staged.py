"""`render --config layout=staged` and `etcompile flux kustomization` with the real Flux."""

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gitops_nodes import SCHEDULER
from gitops_place import eventually
from gitops_tools import TOOL_NAMESPACES, Flux

from commandline import etcompile
from etcompile.kubeapi import Cluster
from specs import kubeflow_job

pytestmark = pytest.mark.gitops

GATE = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "Bucket",
    "metadata": {"name": "gate"},
    "spec": {"bucketName": "b", "endpoint": "example.com", "interval": "1h", "suspend": True},
}
"""What is ready only when somebody says so: here the test, elsewhere a vault. No controller looks
at it, because it is suspended."""
Object = dict[str, Any]


class Staged:
    """A job with a gate, rendered in two stages, and Flux told of both."""

    def __init__(
        self, flux: Flux, cluster: Cluster, kubectl: Callable[..., str], folder: Path, source: str
    ) -> None:
        self.name = f"etcompile-e2e-staged-{secrets.token_hex(3)}"
        self._flux = flux
        self._cluster = cluster
        self._kubectl = kubectl
        self._folder = folder
        self._source = source
        kubectl("create", "namespace", self.name)

    def commit(self, workers: int, *, suspended: bool = False) -> None:
        """Renders, and hands the folder to Flux."""
        document = kubeflow_job("PyTorchJob", {"Worker": workers}, runPolicy={"suspend": suspended})
        template = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        template["spec"]["schedulerName"] = SCHEDULER
        jobs, out = self._folder / "jobs.yaml", self._folder / "out"
        jobs.write_text(yaml.safe_dump_all([document, self._gate()]))
        words = ("--config=profile=flux", "--config=layout=staged", "-n", self.name, "--replace")
        etcompile("render", jobs, "-d", out, *words, code=0)
        self._flux.push(out, self.name)
        self._request_sync()

    def tell(self) -> None:
        words = ("--path", ".", "--layout", "staged", "--source", f"{self._source}/{self.name}")
        printed = etcompile("flux", "kustomization", self.name, *words, code=0).stdout
        self._kubectl("apply", "-f", "-", stdin=printed)

    def gate(self, *, ready: bool) -> None:
        """Says of the gate whether it is ready; makes it, if it is not there."""
        self._kubectl("apply", "-f", "-", stdin=json.dumps(self._gate()))
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"status": {"observedGeneration": 1, "conditions": [condition]}}
        words = ("patch", "bucket.source.toolkit.fluxcd.io", "gate", "--subresource=status")
        patch = ("--type=merge", "-p", json.dumps(status))
        self._kubectl("-n", self.name, *words, *patch)

    def _gate(self) -> Object:
        return {**GATE, "metadata": {"name": "gate", "namespace": self.name}}

    def there(self, kind: str) -> list[str]:
        objects = self._cluster.list(self._cluster.resource("v1", kind), self.name).items
        return sorted(one["metadata"]["name"] for one in objects)

    def ready(self, name: str) -> str:
        """What Flux says of a Kustomization: True, False, Unknown."""
        status = self._kustomization(name).get("status") or {}
        ready = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
        return ready[0]["status"] if ready else ""

    def close(self) -> None:
        names = [f"{self.name}-prereqs", self.name]
        self._kubectl(
            "-n", TOOL_NAMESPACES["flux"], "delete", "kustomization", *names, "--wait=false"
        )
        self._kubectl("delete", "namespace", self.name, "--wait=false")

    def _kustomization(self, name: str) -> Object:
        resource = self._cluster.resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        return self._cluster.get(resource, name, TOOL_NAMESPACES["flux"]) or {}

    def _request_sync(self) -> None:
        for name in (f"{self.name}-prereqs", self.name):
            if self._kustomization(name):
                words = ("-n", TOOL_NAMESPACES["flux"], "annotate", "kustomization", name)
                now = f"reconcile.fluxcd.io/requestedAt={time.time()}"
                self._kubectl(*words, now, "--overwrite")


@pytest.fixture
def staged(flux, gitops_cluster, gitops_kubectl, tmp_path) -> Iterator[Staged]:
    source = os.environ.get("ETCOMPILE_E2E_FLUX_SOURCE", "OCIRepository")
    running = Staged(flux, gitops_cluster, gitops_kubectl, tmp_path, source)
    yield running
    running.close()


def test_pods_come_when_what_they_need_is_ready_and_go_with_a_suspended_job(staged):
    workers = [f"mnist-worker-{number}" for number in range(3)]
    staged.gate(ready=False)
    staged.commit(2)
    staged.tell()
    eventually(lambda: "mnist-etcompile" in staged.there("ConfigMap"))
    time.sleep(8)
    assert staged.there("Pod") == []
    assert staged.ready(f"{staged.name}-prereqs") != "True"
    staged.gate(ready=True)
    eventually(lambda: staged.there("Pod") == workers[:2], why=lambda: staged.there("Pod"))
    eventually(lambda: staged.ready(staged.name) == "True", why=lambda: staged.ready(staged.name))
    staged.commit(2, suspended=True)
    eventually(lambda: staged.there("Pod") == [], why=lambda: staged.ready(staged.name))
    assert "mnist-etcompile" in staged.there("ConfigMap")
    staged.commit(3)
    eventually(lambda: staged.there("Pod") == workers, why=lambda: staged.there("Pod"))
