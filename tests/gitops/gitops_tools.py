"""Argo CD and Flux as a test sees them: a folder is handed over, and what became of it is asked.

Both have the same five verbs, so that a test is written once for both. Nothing is faked: the tools
run in the cluster, or beside it, and read what was committed.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from etcompile.kubeapi import Cluster, ClusterError

TOOL_NAMESPACES = {
    "argocd": os.environ.get("ETCOMPILE_E2E_ARGOCD_NAMESPACE", "argocd"),
    "flux": os.environ.get("ETCOMPILE_E2E_FLUX_NAMESPACE", "flux-system"),
}
_WHO = ("-c", "user.name=etcompile", "-c", "user.email=etcompile@example.com")


class Status(Struct, frozen=True):
    """What a tool says of an application."""

    synced: bool  # the cluster has what was pushed last, and nothing differs
    health: str  # Argo CD's word; of Flux `Ready` or `NotReady`
    message: str = ""


class Tool(Protocol):
    name: str
    """Also the profile of etcompile that is made for it."""

    def push(self, folder: Path, path: str) -> None:
        """Makes a path of what the tool reads hold exactly this folder."""

    def application(self, name: str, path: str, namespace: str) -> None:
        """Tells the tool to sync a path: whatever drifts is set back, what is gone is pruned."""

    def refresh(self, name: str) -> None:
        """Has the tool look now, instead of within the minute."""

    def status(self, name: str) -> Status:
        """What the tool says of an application."""

    def remove(self, name: str) -> None:
        """Tells the tool to forget an application."""

    def tracks(self, name: str, value: Mapping[str, Any]) -> bool:
        """Whether a live object carries the marks by which the tool knows it for its own."""


class ArgoCD:
    """Argo CD with `selfHeal` and `prune`.

    Args:
        repository: The Git repository that both the tests and Argo CD reach.
        destination: The cluster as Argo CD knows it: a URL, or a name.
    """

    name = "argocd"

    def __init__(self, cluster: Cluster, repository: str, folder: Path, destination: str) -> None:
        self._cluster = cluster
        self._repository = repository
        self._clone = folder / "clone"
        self._destination = destination
        self._lock = threading.Lock()
        self._revisions: list[str] = []
        self._pushed: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._applications = cluster.resource("argoproj.io/v1alpha1", "Application")
        _run("git", "clone", "--quiet", repository, str(self._clone))

    def push(self, folder: Path, path: str) -> None:
        with self._lock:
            place = self._clone / path
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder, place)
            self._git("add", "--all", path)
            self._git(*_WHO, "commit", "--quiet", "--allow-empty", "-m", f"change {path}")
            for attempt in range(5):  # somebody else may have pushed: then on top of that
                try:
                    self._git("push", "--quiet", "origin", "HEAD:main")
                    break
                except AssertionError:
                    if attempt == 4:
                        raise
                    self._git(*_WHO, "pull", "--quiet", "--rebase", "origin", "main")
            revision = self._git("rev-parse", "HEAD").strip()
            self._revisions.append(revision)
            self._pushed[path] = revision

    def application(self, name: str, path: str, namespace: str) -> None:
        """Creates an Application as docs/argocd.md recommends it, with `selfHeal`."""
        self._paths[name] = path
        self._cluster.server_side_apply(
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Application",
                "metadata": {"name": name, "namespace": TOOL_NAMESPACES["argocd"]},
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": self._repository,
                        "path": path,
                        "targetRevision": "main",
                    },
                    "destination": self.destination(namespace),
                    "syncPolicy": {
                        "automated": {"prune": True, "selfHeal": True},
                        "syncOptions": ["ApplyOutOfSyncOnly=true"],
                    },
                },
            }
        )

    def destination(self, namespace: str) -> dict[str, str]:
        """A namespace of the cluster, as Applications name it."""
        where = "server" if "://" in self._destination else "name"
        return {where: self._destination, "namespace": namespace}

    def get(self, name: str) -> dict[str, Any]:
        """An Application as it is; empty if there is none."""
        return self._cluster.get(self._applications, name, TOOL_NAMESPACES["argocd"]) or {}

    def refresh(self, name: str) -> None:
        self.annotate(name, "argocd.argoproj.io/refresh", "normal")

    def status(self, name: str) -> Status:
        """Its sync and health status, as of the commit pushed last or a later one."""
        status = self.get(name).get("status") or {}
        sync = status.get("sync") or {}
        operation = status.get("operationState") or {}
        wanted = self._pushed[next(p for p in _prefixes(self._paths[name]) if p in self._pushed)]
        known = self._revisions[self._revisions.index(wanted) :]
        messages = [one["message"] for one in status.get("conditions") or ()]
        return Status(
            sync.get("status") == "Synced"
            and sync.get("revision") in known
            and operation.get("phase") in (None, "Succeeded"),
            (status.get("health") or {}).get("status", ""),
            "; ".join([sync.get("status", "?"), operation.get("message", ""), *messages]),
        )

    def remove(self, name: str) -> None:
        self._cluster.delete(self._applications, name, TOOL_NAMESPACES["argocd"])

    def tracks(self, name: str, value: Mapping[str, Any]) -> bool:
        """Whether its tracking id names the application and the very object."""
        metadata = value["metadata"]
        group = value["apiVersion"].rpartition("/")[0]
        expected = f"{name}:{group}/{value['kind']}:{metadata['namespace']}/{metadata['name']}"
        notes = metadata.get("annotations") or {}
        return notes.get("argocd.argoproj.io/tracking-id") == expected

    def annotate(self, name: str, key: str, text: str) -> None:
        change = {"metadata": {"annotations": {key: text}}}
        self._cluster.patch(self._applications, name, change, TOOL_NAMESPACES["argocd"])

    def _git(self, *words: str) -> str:
        return _run("git", "-C", str(self._clone), *words)


class Flux:
    """Flux's kustomize-controller, with `prune` and a short interval.

    Args:
        push: A command that hands a folder to Flux; `{name}` and `{folder}` are replaced. It
            makes, or renews, the source of that name in Flux's namespace.
        source: The kind of that source: OCIRepository, GitRepository, Bucket, ExternalArtifact.
    """

    name = "flux"

    def __init__(self, cluster: Cluster, push: str, source: str, interval: str = "10s") -> None:
        self._cluster = cluster
        self._push = push
        self._source = source
        self._interval = interval
        self._paths: dict[str, str] = {}
        self._folders: dict[str, Path] = {}
        self._stages: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._kustomizations = cluster.resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        self._sources = cluster.resource("source.toolkit.fluxcd.io/v1", source)

    def push(self, folder: Path, path: str) -> None:
        values = {"name": path, "folder": str(folder)}
        with self._lock:
            _run(*(word.format(**values) for word in shlex.split(self._push)))
        self._folders[path] = folder

    def application(self, name: str, path: str, namespace: str) -> None:
        """Creates a Kustomization as docs/flux.md recommends it, or two for a staged folder."""
        source, _, inner = path.partition("/")
        self._paths[name] = path
        if (self._folders[source] / inner / "prereqs").is_dir():
            self._stages[name] = (f"{name}-prereqs", name)
            self._kustomization(f"{name}-prereqs", source, f"./{inner}/prereqs")
            self._kustomization(name, source, f"./{inner}/pods", f"{name}-prereqs")
        else:
            self._stages[name] = (name,)
            self._kustomization(name, source, f"./{inner}")

    def _kustomization(self, name: str, source: str, path: str, after: str = "") -> None:
        self._cluster.server_side_apply(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": name, "namespace": TOOL_NAMESPACES["flux"]},
                "spec": {
                    "interval": self._interval,
                    "retryInterval": "5s",
                    "prune": True,
                    "wait": False,
                    "timeout": "1m",
                    "path": path,
                    "sourceRef": {"kind": self._source, "name": source},
                    **({"dependsOn": [{"name": after}]} if after else {}),
                },
            }
        )

    def refresh(self, name: str) -> None:
        now = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": repr(time.time())}}}
        source = self._paths[name].partition("/")[0]
        objects = [(self._sources, source)]
        objects += [(self._kustomizations, stage) for stage in self._stages[name]]
        for resource, one in objects:
            with contextlib.suppress(ClusterError):
                self._cluster.patch(resource, one, now, TOOL_NAMESPACES["flux"])

    def status(self, name: str) -> Status:
        """Whether the newest content of the source was applied without complaint."""
        source = self._cluster.get(
            self._sources, self._paths[name].partition("/")[0], TOOL_NAMESPACES["flux"]
        )
        newest = ((source or {}).get("status") or {}).get("artifact", {}).get("revision")
        ready, messages = True, []
        for stage in self._stages[name]:
            kustomization = (
                self._cluster.get(self._kustomizations, stage, TOOL_NAMESPACES["flux"]) or {}
            )
            status = kustomization.get("status") or {}
            conditions = {one["type"]: one for one in status.get("conditions") or ()}
            condition = conditions.get("Ready") or {}
            applied = newest is not None and status.get("lastAppliedRevision") == newest
            ready = ready and applied and condition.get("status") == "True"
            messages.append(condition.get("message", ""))
        return Status(ready, "Ready" if ready else "NotReady", "; ".join(messages))

    def remove(self, name: str) -> None:
        for stage in reversed(self._stages[name]):
            self._cluster.delete(self._kustomizations, stage, TOOL_NAMESPACES["flux"])

    def tracks(self, name: str, value: Mapping[str, Any]) -> bool:
        """Whether its labels name a Kustomization of the application."""
        labels = value["metadata"].get("labels") or {}
        return (
            labels.get("kustomize.toolkit.fluxcd.io/name") in self._stages[name]
            and labels.get("kustomize.toolkit.fluxcd.io/namespace") == TOOL_NAMESPACES["flux"]
        )


def _prefixes(path: str) -> list[str]:
    """`a/b/c`, `a/b`, `a`."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout
