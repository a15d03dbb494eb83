"""A newcomer installs and removes the watcher by the commands of its page, on a real API server."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile.kubeapi import connect
from installation.doors import ROOT, is_guarded
from installation.test_installation_on_api_server import WAYS
from specs import training_job
from waiting import eventually

PAGE = (ROOT / "docs" / "watcher.md").read_text("utf-8")


def commands(heading: str) -> str:
    below = PAGE.partition(f"{heading}\n")[2]
    match = re.search(r"```sh\n(.*?)```", below, re.DOTALL)
    assert match, heading
    return match[1]


@pytest.fixture
def shell(
    control_plane: Any, kubectl_program: Path, tmp_path: Path
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """`shell(script)` runs commands with etcompile and kubectl on PATH; the first failure ends."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl_program)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig())}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def test_watcher_is_installed_used_and_removed_by_its_page(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
    control_plane: Any,
    namespace: str,
    tmp_path: Path,
) -> None:
    other = control_plane.namespace()
    install, remove = commands("## In the cluster"), commands("### Remove it")
    assert "kubectl apply" in install
    assert "kubectl delete" in remove

    def here(script: str, where: str) -> str:
        assert "-n nlp" in script
        return script.replace("-n nlp", f"-n {where}")

    def objects(where: str) -> dict[str, set[str]]:
        """The names of what is installed there, or for it outside of namespaces, by kind."""
        by_kind = {}
        for kind, path in WAYS.items():
            selected = f"{path.format(where)}?labelSelector=app.kubernetes.io/part-of%3Detcompile"
            names = {v["metadata"]["name"] for v in control_plane.ask("GET", selected)["items"]}
            by_kind[kind] = {name for name in names if "{}" in path or where in name.split(".")}
        leases = control_plane.ask("GET", f"/apis/coordination.k8s.io/v1/namespaces/{where}/leases")
        by_kind["Lease"] = {value["metadata"]["name"] for value in leases["items"]}
        return {kind: names for kind, names in by_kind.items() if names}

    for where in (namespace, other):
        done = shell(here(install, where))
        assert done.returncode == 0, done.stderr
    before = objects(other)
    assert {"Deployment", "Role", "ValidatingAdmissionPolicy"} <= before.keys()

    # No kubelet runs here: the program runs with the arguments and the account of the Deployment.
    path = f"{WAYS['Deployment'].format(namespace)}/etcompile-watch"
    pod = control_plane.ask("GET", path)["spec"]["template"]["spec"]
    token = control_plane.service_account(namespace, pod["serviceAccountName"])
    arguments = pod["containers"][0]["args"]
    arguments[arguments.index(":8080")] = "127.0.0.1:0"
    watcher = subprocess.Popen(
        [sys.executable, "-m", "etcompile", *arguments],
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig(token=token))},
        stderr=subprocess.DEVNULL,
    )

    def status() -> str:
        return shell(f"etcompile status mnist -n {namespace}").stdout

    try:
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(training_job()))
        done = shell(f"etcompile apply job.yaml -n {namespace} --wait none")
        assert done.returncode == 0, done.stderr
        eventually(lambda: "reported by the watcher" in status(), 30, status)
        assert "Watcher:" not in status()
    finally:
        watcher.terminate()
        watcher.wait(30)

    done = shell(here(remove, namespace).replace("kubectl -n nlp", f"kubectl -n {namespace}"))
    assert done.returncode == 0, done.stderr
    assert objects(namespace) == {}
    assert "Watcher:   none: Pods that fail are not replaced" in status()
    # Who installed another one keeps all of it, and its policy is in force.
    assert objects(other) == before
    with connect(kubeconfig=control_plane.kubeconfig()) as cluster:
        eventually(lambda: is_guarded(cluster, other), 30, str)
        eventually(lambda: not is_guarded(cluster, namespace), 30, str)
    assert shell(here(remove.splitlines()[0], other)).returncode == 0
