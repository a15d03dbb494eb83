"""A namespace, the application that syncs it, and what a user does there: edit, render, commit."""

import json
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from gitops_changes import Changes
from gitops_nodes import SCHEDULER, Nodes
from gitops_tools import ArgoCD, Status, Tool

import etcompile
import waiting
from etcompile import Options
from etcompile.kubeapi import Cluster

Object = dict[str, Any]

ABOUT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "about"},
    "data": {"about": "what is left when the job is gone: render refuses to render nothing"},
}
_SCHEDULER = {"schedulerName": SCHEDULER}


def eventually(
    check: Callable[[], Any], seconds: float = 150.0, why: Callable[[], Any] = str
) -> Any:
    """What `check` returns once it is true; GitOps tools take their time."""
    return waiting.eventually(check, seconds, lambda: f"not within {seconds} s: {why()}", pause=0.2)


def bert(workers: int = 2, run: str = "") -> list[str]:
    first = f"bert-{run}-" if run else "bert-"
    return [f"{first}launcher", *(f"{first}worker-{number}" for number in range(workers))]


class Source:
    """A folder of jobs in Git, the Application of the same name, and its namespace."""

    def __init__(
        self, argocd: ArgoCD, cluster: Cluster, kubectl: Callable[..., str], folder: Path
    ) -> None:
        self.name = f"etcompile-e2e-{secrets.token_hex(3)}"
        self.jobs = folder / "jobs"
        self.jobs.mkdir(parents=True)
        self.argocd = argocd
        self.cluster = cluster
        self.kubectl = kubectl
        kubectl("create", "namespace", self.name)

    def push(self, document: Object, file: str) -> None:
        """Commits a job. No node takes its Pods, which are there all the same."""
        for role in document["spec"]["etReplicaSpecs"].values():
            role["template"]["spec"] |= _SCHEDULER
        (self.jobs / file).write_text(yaml.safe_dump(document))
        self.argocd.push(self.jobs.parent, self.name)

    def application(self) -> Object:
        return self.argocd.get(self.name)

    def pods(self) -> list[str]:
        listed = self.cluster.list(self.cluster.resource("v1", "Pod"), self.name).items
        return sorted(one["metadata"]["name"] for one in listed)

    def close(self) -> None:
        self.argocd.remove(self.name)
        self.kubectl("delete", "namespace", self.name, "--wait=false")


class Place:
    """A namespace with an application and a path in Git of the same name.

    Attributes:
        rendered_pods: How many Pods there are to be, by what was rendered last.
    """

    def __init__(
        self,
        cluster: Cluster,
        tool: Tool,
        nodes: Nodes,
        changes: Changes,
        namespace: str,
        folder: Path,
        kubectl: Callable[..., str],
        profile: str = "plain",
    ) -> None:
        self.cluster = cluster
        self.tool = tool
        self.nodes = nodes
        self.changes = changes
        self.namespace = namespace
        self.kubectl = kubectl
        self._folder = folder
        self._inputs = folder / "jobs"
        self.rendered_pods = 0
        self._profile = profile
        self._layout = "jobs"
        self._known = False
        self._pods = cluster.resource("v1", "Pod")
        self._maps = cluster.resource("v1", "ConfigMap")

    # ---- what a user does ----------------------------------------------------------------------

    def copy(self, example: Path) -> None:
        shutil.rmtree(self._inputs, ignore_errors=True)
        shutil.copytree(example, self._inputs)
        (self._inputs / "about.yaml").write_text(yaml.safe_dump(ABOUT))

    def render(self, *flags: str) -> Path:
        """Renders the inputs for this namespace, as a user does; the folder that comes of it."""
        objects = etcompile.compile([self._inputs], Options()).objects
        kinds = [one["kind"] for one in objects]
        self.rendered_pods = kinds.count("Pod") + kinds.count("Job")
        if self.tool.name == "flux" and "ServiceAccount" in kinds:
            self._layout = "staged"  # for good: docs/flux.md
        overlay = self._folder / "overlay.yaml"
        overlay.write_text(json.dumps(_overlay(self.namespace, kinds)))
        out = self._folder / "out"
        command = [sys.executable, "-m", "etcompile", "render", str(self._inputs), "-d", str(out)]
        command += ["--overlay", str(overlay), "--config", f"profile={self._profile}"]
        command += ["--config", f"layout={self._layout}", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out

    def commit(self, *documents: Object, flags: tuple[str, ...] = ()) -> None:
        """Renders documents, with one beside them, and pushes what comes of it."""
        shutil.rmtree(self._inputs, ignore_errors=True)
        self._inputs.mkdir(parents=True)
        for number, document in enumerate((*documents, ABOUT)):
            (self._inputs / f"{number}.yaml").write_text(yaml.safe_dump(document))
        self.push(self.render(*flags))

    def push(self, folder: Path) -> None:
        self.tool.push(folder, self.namespace)
        if not self._known:
            self.tool.application(self.namespace, self.namespace, self.namespace)
            self._known = True
        self.tool.refresh(self.namespace)

    def delete(self, name: str) -> None:
        self.kubectl("-n", self.namespace, "delete", "pod", name, "--wait=false")

    def close(self) -> None:
        if self._known:
            self.tool.remove(self.namespace)

    # ---- what is there -------------------------------------------------------------------------

    def status(self) -> Status:
        return self.tool.status(self.namespace)

    def synced(self, *healths: str, seconds: float = 150.0) -> Status:
        """Waits until the tool says that all is synced, and well."""
        wanted = healths or ("Healthy", "Progressing", "Ready")
        again = time.monotonic() + 15

        def is_synced() -> Status | None:
            nonlocal again
            if time.monotonic() > again:
                again = time.monotonic() + 15
                self.tool.refresh(self.namespace)
            status = self.status()
            return status if status.synced and status.health in wanted else None

        status: Status = eventually(is_synced, seconds, lambda: (self.status(), self.phases()))
        return status

    def pods(self) -> dict[str, Object]:
        listed = self.cluster.list(self._pods, self.namespace).items
        return {one["metadata"]["name"]: one for one in listed}

    def uids(self) -> dict[str, str]:
        """The UIDs of the live Pods that stay, by name."""
        return {
            name: pod["metadata"]["uid"]
            for name, pod in self.pods().items()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def phases(self) -> dict[str, str]:
        return {name: pod["status"].get("phase", "") for name, pod in self.pods().items()}

    def run(self, *names: str) -> bool:
        return self.phases() == dict.fromkeys(names, "Running")

    def data(self, name: str) -> dict[str, str]:
        config_map = self.cluster.get(self._maps, name, self.namespace)
        return (config_map or {}).get("data") or {}

    def hosts(self, job: str) -> list[str]:
        """The Pods in the live host list, whatever form of their names it has."""
        lines = next(iter(self.data(f"{job}-etcompile-hosts").values()), "").splitlines()
        return [re.split("[.: ]", line)[0] for line in lines]

    def creators(self, name: str, since: float) -> list[str]:
        """Who made a Pod of this name, as often as one was made."""
        return [
            one.manager
            for one in self.changes.of(self.namespace, since)
            if one.kind == "Pod" and one.name == name and one.verb == "ADDED"
        ]

    def untracked(self) -> list[str]:
        return [
            name
            for name, pod in self.pods().items()
            if not self.tool.tracks(self.namespace, pod)
            and not pod["metadata"].get("ownerReferences")
        ]

    def records(self) -> list[str]:
        records = self.cluster.list(self._maps, self.namespace, labels="etcompile.dev/job").items
        names = [one["metadata"]["name"] for one in records]
        return sorted(name for name in names if name.endswith("-status"))

    def finished(self) -> bool:
        return all("done" in self.data(name) for name in self.records())

    def left(self) -> list[str]:
        """What is there of jobs, `Kind/name`."""
        kinds = "pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,jobs,pvc"
        objects = json.loads(
            self.kubectl(
                "-n", self.namespace, "get", kinds, "-o", "json", "-l", "etcompile.dev/job"
            )
        )
        return sorted(f"{one['kind']}/{one['metadata']['name']}" for one in objects["items"])


def _overlay(namespace: str, kinds: list[str]) -> Object:
    """What makes jobs ones of this namespace, whose Pods the test's nodes run."""
    patches = {"Pod": _SCHEDULER, "Job": {"template": {"spec": _SCHEDULER}}}
    return {
        "apiVersion": "etcompile.dev/v1alpha1",
        "kind": "Overlay",
        "namespace": namespace,
        "patches": [
            {"target": {"kind": kind}, "patch": {"spec": spec}}
            for kind, spec in patches.items()
            if kind in kinds  # a patch for a kind that is not there is refused
        ],
    }
