"""docs/tutorial.md from its first line to its last: Git, a cluster and Argo CD, all of them real.

The walk needs an empty repository of its own that Argo CD may read: `ETCOMPILE_E2E_TUTORIAL_REPO`,
or one is made beside `ETCOMPILE_E2E_ARGOCD_REPO` if that is a folder (`file://`). Three things are
not as on the page: the repository's URL, the cluster as Argo CD knows it, and who runs the Pods
(the test's nodes, see gitops_nodes.py, which have no image to pull).
"""

import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from gitops_nodes import SCHEDULER, Nodes
from msgspec import structs

from walking import Shell, Walked, blocks

pytestmark = pytest.mark.gitops

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
NAMESPACE = "training"
_IN_CLUSTER = "https://kubernetes.default.svc"


@pytest.fixture
def repository() -> str:
    if address := os.environ.get("ETCOMPILE_E2E_TUTORIAL_REPO"):
        return address
    other = os.environ.get("ETCOMPILE_E2E_ARGOCD_REPO", "")
    if not other.startswith("file://"):
        pytest.skip(f"needs ETCOMPILE_E2E_TUTORIAL_REPO: see the head of {__file__}")
    folder = Path(other.removeprefix("file://")).parent / f"tutorial-{secrets.token_hex(3)}.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder], check=True)
    return f"file://{folder}"


@pytest.fixture
def nodes(gitops_cluster, gitops_kubectl) -> Iterator[Nodes]:
    """Nodes for the tutorial's namespace, which has to be free."""
    existing = gitops_kubectl("get", "namespace", NAMESPACE, "--ignore-not-found")
    assert not existing, f"there is a namespace {NAMESPACE} already: the tutorial makes its own"
    playing = Nodes(gitops_cluster)
    playing.start(f"etcompile-e2e-tutorial-{secrets.token_hex(2)}", NAMESPACE)
    yield playing
    try:
        gitops_kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
    finally:
        playing.close()


@pytest.fixture
def shell(tmp_path) -> Iterator[Shell]:
    kubectl = Path(os.environ.get("ETCOMPILE_E2E_KUBECTL", "kubectl"))
    path = os.environ["PATH"]
    variables = {
        "KUBECONFIG": os.environ["ETCOMPILE_E2E_KUBECONFIG"],
        "PATH": f"{kubectl.parent}:{path}" if kubectl.parent != Path() else path,
    }
    started = Shell(tmp_path, variables)
    yield started
    started.close()


def with_nodes_of_the_test(repository: Path) -> None:
    """Has the Pods run on the test's nodes, and Argo CD know the cluster."""
    overlay = repository / "overlays/prod/overlay.yaml"
    patch = {"target": {"kind": "Pod"}, "patch": {"spec": {"schedulerName": SCHEDULER}}}
    overlay.write_text(overlay.read_text() + "\n" + yaml.safe_dump({"patches": [patch]}))
    shutil.rmtree(repository / "out")  # nothing runs yet that would refuse this
    destination = os.environ.get("ETCOMPILE_E2E_ARGOCD_DESTINATION", _IN_CLUSTER)
    if destination != _IN_CLUSTER:
        application = repository / "argocd/application.yaml"
        where = "server" if "://" in destination else "name"
        text = application.read_text()
        application.write_text(text.replace(f"server: {_IN_CLUSTER}", f"{where}: {destination}"))


def test_the_tutorial_goes_as_it_says(
    repository: str, nodes: Nodes, shell: Shell, argocd, tmp_path, gitops_kubectl
) -> None:
    outputs: dict[str, list[Walked]] = {}
    begun = time.monotonic()
    try:
        for block in blocks(PAGE.read_text("utf-8")):
            if block.heading == "Render, and commit":
                with_nodes_of_the_test(tmp_path / "home" / "training")
            text = re.sub(r"(?<=REPOSITORY=).*", repository, block.text)
            ending = _ends_while(nodes, "--watch" in block.text)
            done = shell.run(structs.replace(block, text=text), seconds=400)
            ending()
            done.check()
            outputs.setdefault(block.heading, []).append(done)
            print(f"+{time.monotonic() - begun:.0f} s {block.heading}\n{done.output}")
    finally:
        words = ("-n", "argocd", "delete", "application", "training", "--ignore-not-found")
        gitops_kubectl(*words, "--wait=false")
    said = {heading: "".join(one.output for one in walks) for heading, walks in outputs.items()}
    assert "hello-worker-1" in said["Sync it"]
    assert "hello-worker-2" in said["One worker more"]
    assert "it is another one" in said["A failure"]
    assert "PodReplaced" in said["A failure"]
    assert "Succeeded" in said["The end"]
    assert "No resources found" in said["The end"]
    assert "ERROR" not in (tmp_path / "home" / "watcher.log").read_text()


def _ends_while(nodes: Nodes, wanted: bool) -> Callable[[], None]:
    """Has the training end a moment after a command began that waits for it."""
    if not wanted:
        return lambda: None
    timer = threading.Timer(5, nodes.finish, (NAMESPACE,))
    timer.start()
    return timer.join
