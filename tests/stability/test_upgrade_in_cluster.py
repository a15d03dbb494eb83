"""The version before applies jobs and looks after them; then somebody upgrades, while they run.

Against a real API server: `diff` of this version has nothing to say, `apply` changes no Pod, and
the watcher takes over the run that the other one wrote down.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from versions_before import ROOT

from apply.kubelet import Kubelet
from etcompile.model.protocol import JOB_LABEL

EXAMPLES = (
    "pytorchjob/torchrun",
    "mpijob/elastic-horovod",
    "trainingjob/elastic-mnist",
    "trainjob/torch",
)


@pytest.fixture
def kubelet(control_plane, namespace) -> Iterator[Kubelet]:
    found = Kubelet(control_plane, namespace)
    yield found
    found.stop()


class Upgrade:
    """A namespace in which both versions work on one folder of jobs."""

    def __init__(self, control_plane, namespace: str, tree: Path, folder: Path) -> None:
        self._plane, self._namespace = control_plane, namespace
        self._tree, self._folder = tree, folder
        self._kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=namespace)

    def before(self, *words: str) -> str:
        return self._run(self._tree, *words)

    def now(self, *words: str) -> str:
        return self._run(ROOT, *words)

    def _run(self, tree: Path, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", *words, *self._where(words[0])],
            cwd=self._folder,
            env={**os.environ, "KUBECONFIG": str(self._kubeconfig), "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def _where(self, command: str) -> list[str]:
        """Some kinds have the namespace in what is rendered, so it is named."""
        return [] if command == "--version" else ["-n", self._namespace]

    def objects(self, plural: str) -> dict[str, dict[str, Any]]:
        path = f"/api/v1/namespaces/{self._namespace}/{plural}"
        found = self._plane.ask("GET", path)["items"]
        own = [one for one in found if JOB_LABEL in (one["metadata"].get("labels") or {})]
        return {one["metadata"]["name"]: one for one in own}

    def pods(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.objects("pods").items()}

    def record(self) -> dict[str, Any]:
        [status] = [one for name, one in self.objects("configmaps").items() if "-status" in name]
        record: dict[str, Any] = json.loads(status["data"]["record"])
        return record


@pytest.mark.parametrize("example", EXAMPLES)
def test_jobs_go_on_through_an_upgrade(
    example: str, tree_before: Path, control_plane, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    folder = tmp_path / "jobs"
    shutil.copytree(tree_before / "examples" / example, folder)
    for file in folder.glob("*.yaml"):
        documents = [*yaml.safe_load_all(file.read_text("utf-8"))]
        for document in documents:
            document["metadata"].pop("namespace", None)
        file.write_text(yaml.safe_dump_all(documents), "utf-8")
    upgrade = Upgrade(control_plane, namespace, tree_before, tmp_path)

    assert upgrade.before("--version") != upgrade.now("--version")
    upgrade.before("apply", "jobs", "--timeout", "60s")
    upgrade.before("watch", "--once")
    pods, record = upgrade.pods(), upgrade.record()
    assert pods

    upgrade.now("diff", "jobs")  # its exit code is 0: there is no difference
    upgrade.now("watch", "--once")
    assert upgrade.pods() == pods
    assert {**upgrade.record(), "version": 0} == {**record, "version": 0}
    upgrade.now("apply", "jobs", "--timeout", "60s")
    assert upgrade.pods() == pods

    upgrade.now("delete", "jobs", "--yes")
    assert upgrade.pods() == {}
    assert [
        name for name in upgrade.objects("configmaps") if name.endswith(("-config", "-etcompile"))
    ] == []
