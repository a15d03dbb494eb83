"""A cluster with Argo CD and Flux, for the tests that let them sync what etcompile renders.

    ETCOMPILE_E2E_KUBECONFIG=~/.kube/config \\
    ETCOMPILE_E2E_ARGOCD_REPO=https://git.example.com/e2e.git \\
    ETCOMPILE_E2E_FLUX_PUSH='./push {name} {folder}' pytest -m gitops tests/gitops -s

ETCOMPILE_E2E_KUBECONFIG        an administrator of a cluster of one's own; kind or minikube will do
ETCOMPILE_E2E_KUBECTL           kubectl, if it is not on PATH
ETCOMPILE_E2E_ARGOCD_REPO       a Git repository with a branch `main` that Argo CD may read, and
                                `git push` may write
ETCOMPILE_E2E_ARGOCD_DESTINATION  the cluster as Argo CD knows it, a URL or a name;
                                https://kubernetes.default.svc if unset
ETCOMPILE_E2E_ARGOCD_NAMESPACE  Argo CD's; argocd if unset
ETCOMPILE_E2E_FLUX_PUSH         a command that makes {folder} the content of the source {name} in
                                Flux's namespace, and makes that source if it is not there
ETCOMPILE_E2E_FLUX_SOURCE       the kind of that source; OCIRepository if unset
ETCOMPILE_E2E_FLUX_NAMESPACE    Flux's; flux-system if unset

Without Argo CD's or Flux's variable the tests with it are skipped, and say so;
ETCOMPILE_REQUIRE=gitops makes them fail instead. With kind, `flux install`, and a registry that
both the machine (localhost:5000) and the cluster (registry:5000) reach, the command is a script:

    flux push artifact oci://localhost:5000/$1:e2e --path=$2 --source=e2e --revision=e2e@$(date +%s)
    flux create source oci $1 --url=oci://registry:5000/$1 --tag=e2e --insecure --interval=10s

No image is pulled and no GPU is needed: the nodes that the Pods run on are played by the tests
(gitops_nodes.py). What the tests make is in namespaces `etcompile-e2e-…`, and removed at the end.
"""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gitops_changes import Changes
from gitops_nodes import Nodes
from gitops_place import Place, eventually
from gitops_tools import ArgoCD, Flux, Tool

from etcompile.kubeapi import Cluster, connect

KUBECONFIG = os.environ.get("ETCOMPILE_E2E_KUBECONFIG")
KUBECTL = os.environ.get("ETCOMPILE_E2E_KUBECTL", "kubectl")


def _need(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        say = pytest.fail if "gitops" in os.environ.get("ETCOMPILE_REQUIRE", "") else pytest.skip
        say(f"needs {name}: see the head of {__file__}")
    return value


@pytest.fixture(scope="session")
def gitops_cluster() -> Iterator[Cluster]:
    with connect(kubeconfig=_need("ETCOMPILE_E2E_KUBECONFIG"), timeout=30) as connected:
        yield connected


@pytest.fixture(scope="session")
def gitops_kubectl() -> Callable[..., str]:
    """`kubectl(*words, stdin=TEXT)`: what it prints."""

    def run(*words: str, stdin: str | None = None) -> str:
        command = [KUBECTL, "--kubeconfig", _need("ETCOMPILE_E2E_KUBECONFIG"), *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def argocd(gitops_cluster, tmp_path_factory) -> ArgoCD:
    repository = _need("ETCOMPILE_E2E_ARGOCD_REPO")
    default = "https://kubernetes.default.svc"
    destination = os.environ.get("ETCOMPILE_E2E_ARGOCD_DESTINATION", default)
    return ArgoCD(gitops_cluster, repository, tmp_path_factory.mktemp("argocd"), destination)


@pytest.fixture(scope="session")
def flux(gitops_cluster) -> Flux:
    push = _need("ETCOMPILE_E2E_FLUX_PUSH")
    return Flux(gitops_cluster, push, os.environ.get("ETCOMPILE_E2E_FLUX_SOURCE", "OCIRepository"))


@pytest.fixture(scope="module", params=["argocd", "flux"])
def tool(request: pytest.FixtureRequest) -> Tool:
    value: Tool = request.getfixturevalue(request.param)
    return value


@pytest.fixture(scope="session")
def changes(gitops_cluster) -> Changes:
    return Changes(gitops_cluster)


@pytest.fixture(scope="module")
def places(
    tool, changes, gitops_cluster, gitops_kubectl, tmp_path_factory
) -> Iterator[Callable[..., dict[str, Place]]]:
    """`places(*names)`: a namespace and an application each, nodes, and a watcher of them all.

    One whose name ends with `-profile` is rendered with the profile made for the tool.
    """
    nodes, built, watchers = Nodes(gitops_cluster), [], []
    run = secrets.token_hex(2)

    def make(*names: str) -> dict[str, Place]:
        folder = tmp_path_factory.mktemp("places")
        by_name = {}
        for name in names:
            number = len(built)
            short = re.sub(r"[^a-z0-9]+", "-", name.lower())[:28].strip("-")
            namespace = f"etcompile-e2e-{tool.name}-{run}-{number}-{short}"
            gitops_kubectl("create", "namespace", namespace)
            by_name[name] = Place(
                gitops_cluster,
                tool,
                nodes,
                changes,
                namespace,
                folder / str(number),
                gitops_kubectl,
                tool.name if name.endswith("-profile") else "plain",
            )
            built.append(by_name[name])
        namespaces = [place.namespace for place in by_name.values()]
        nodes.start(f"etcompile-e2e-{tool.name}-{run}", *namespaces)
        watchers.append(_Watcher(gitops_kubectl, namespaces, folder))
        return by_name

    yield make
    for place in built:
        place.close()
    nodes.close()
    for place in built:
        gitops_kubectl("delete", "namespace", place.namespace, "--wait=false")
    for watcher in watchers:
        watcher.stop()


class _Watcher:
    """`etcompile watch` as a user runs it, under the rights that its manifests give it."""

    def __init__(self, kubectl: Callable[..., str], namespaces: list[str], folder: Path) -> None:
        flags = [word for one in namespaces for word in ("-n", one)]
        command = [sys.executable, "-m", "etcompile", "watch", *flags]
        manifests = subprocess.run(
            [*command, "--manifests", "--image", "watcher:1"], check=True, capture_output=True
        )
        rights = [
            part
            for part in manifests.stdout.decode().split("---\n")
            if re.search(r"^kind: (ServiceAccount|Role|RoleBinding)$", part, re.MULTILINE)
        ]
        kubectl("apply", "-f", "-", stdin="---\n".join(rights))
        token = kubectl("-n", namespaces[0], "create", "token", "etcompile-watch", "--duration=2h")
        config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        config["users"][0]["user"] = {"token": token.strip()}
        path = folder / "watcher.kubeconfig"
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        self.log = folder / "watcher.log"
        options = ("--kubeconfig", str(path), "--listen", "", "--lease", "5", "-v")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen([*command, *options], stderr=log, stdout=log)
        eventually(lambda: "became leader" in self.log.read_text(), 30, self.log.read_text)

    def stop(self) -> None:
        """Tells it to stop; fails if it had trouble of its own making."""
        self._process.terminate()
        self._process.wait(20)
        lines = self.log.read_text().splitlines()
        assert not [line for line in lines if " ERROR " in line or "Traceback" in line], self.log
