"""Argo CD's Source Hydrator has our plugin compile jobs, and commits what comes of it.

Needs the plugin (docs/argocd.md) and the hydrator, which may push to the repository:
`ETCOMPILE_E2E_ARGOCD_HYDRATOR=1` says so. The branches `etcompile-e2e-…` stay.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gitops_place import Source, bert, eventually
from gitops_tools import TOOL_NAMESPACES, ArgoCD

import etcompile
from etcompile.kubeapi import Cluster
from specs import training_job, worker

pytestmark = pytest.mark.gitops

Object = dict[str, Any]


class Hydrated(Source):
    """Jobs on `main`, their objects on the branch `NAME-next`, and `NAME`, which is synced."""

    def __init__(
        self, argocd: ArgoCD, cluster: Cluster, kubectl: Callable[..., str], folder: Path
    ) -> None:
        super().__init__(argocd, cluster, kubectl, folder / "source")
        self._clone = folder / "clone"
        self._repository = os.environ["ETCOMPILE_E2E_ARGOCD_REPO"]
        self._git("clone", "--quiet", self._repository, self._clone)

    def commit(self, document: Object) -> None:
        """Commits a job, whose file name says that the plugin compiles it."""
        self.push(document, "bert.etjob.yaml")
        if self.application():
            self.argocd.annotate(self.name, "argocd.argoproj.io/hydrate", "normal")

    def create(self) -> None:
        dry = {"repoURL": self._repository, "path": f"{self.name}/jobs", "targetRevision": "main"}
        self.cluster.server_side_apply(
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Application",
                "metadata": {"name": self.name, "namespace": TOOL_NAMESPACES["argocd"]},
                "spec": {
                    "project": "default",
                    "sourceHydrator": {
                        "drySource": dry,
                        "syncSource": {"targetBranch": self.name, "path": "bert"},
                        "hydrateTo": {"targetBranch": f"{self.name}-next"},
                    },
                    "destination": self.argocd.destination(self.name),
                    "syncPolicy": {
                        "automated": {"prune": True},
                        "syncOptions": ["ApplyOutOfSyncOnly=true"],
                    },
                },
            }
        )

    def merge(self) -> None:
        """Merges what was hydrated, as a reviewed pull request would be."""
        self._fetch()
        self._git("push", "--quiet", "origin", f"origin/{self.name}-next:refs/heads/{self.name}")
        self.argocd.refresh(self.name)

    def hydrated(self) -> list[Object]:
        self._fetch()
        if f"{self.name}-next" not in self._git("branch", "--remotes"):
            return []
        text = self._git("show", f"origin/{self.name}-next:bert/manifest.yaml")
        return [*yaml.safe_load_all(text)]

    def hydration(self) -> Object:
        """What the hydrator says of its last attempt."""
        status = self.application().get("status") or {}
        last: Object = (status.get("sourceHydrator") or {}).get("currentOperation") or {}
        return last

    def _fetch(self) -> None:
        self._git("fetch", "--quiet", "origin")

    def _git(self, *words: str | Path) -> str:
        at = ["-C", str(self._clone)] if self._clone.is_dir() else []
        command = ["git", *at, *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def hydrated(argocd, gitops_cluster, gitops_kubectl, tmp_path) -> Iterator[Hydrated]:
    name = "ETCOMPILE_E2E_ARGOCD_HYDRATOR"
    if not os.environ.get(name):
        pytest.skip(f"needs {name}: see the head of {__file__}")
    running = Hydrated(argocd, gitops_cluster, gitops_kubectl, tmp_path)
    yield running
    running.close()


def names(objects: list[Object]) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in objects}


def test_jobs_are_hydrated_reviewed_and_synced(hydrated: Hydrated) -> None:
    hydrated.commit(training_job("bert"))
    hydrated.create()
    eventually(lambda: hydrated.hydration().get("phase") == "Hydrated", why=hydrated.hydration)
    settings = etcompile.Settings(profiles=("argocd",))
    options = etcompile.Options(namespace=hydrated.name, settings=settings)
    rendered = etcompile.compile([hydrated.jobs], options)
    assert names(hydrated.hydrated()) == names(list(rendered.objects))
    assert hydrated.pods() == []
    hydrated.merge()
    eventually(lambda: hydrated.pods() == bert(2), why=hydrated.application)

    before = hydrated.hydrated()
    hydrated.commit(training_job("bert", replicas=3))
    eventually(lambda: names(hydrated.hydrated()) > names(before), why=hydrated.hydration)
    assert ("Pod", "bert-worker-2") in names(hydrated.hydrated())
    assert [one for one in before if one["kind"] == "Pod" and one not in hydrated.hydrated()] == []
    assert hydrated.pods() == bert(2)
    hydrated.merge()
    eventually(lambda: hydrated.pods() == bert(3), why=hydrated.application)


def test_a_mistake_is_shown_and_not_committed(hydrated: Hydrated) -> None:
    hydrated.commit(training_job("bert"))
    hydrated.create()
    eventually(lambda: hydrated.hydration().get("phase") == "Hydrated", why=hydrated.hydration)
    before = hydrated.hydrated()
    document = training_job("bert", replicas=12)
    worker(document)["maxReplicas"] = 8
    hydrated.commit(document)
    eventually(lambda: hydrated.hydration().get("phase") == "Failed", why=hydrated.hydration)
    assert "error[ET2003]" in hydrated.hydration()["message"]
    assert hydrated.hydrated() == before
