"""`etcompile scale --apply` against a real API server, whose kubelet is a thread of the test."""

import contextlib
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from specs import training_job

_READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
}


@pytest.fixture
def kubelet(control_plane, namespace) -> Iterator[None]:
    """Every Pod of the namespace runs and is ready soon after it was created."""
    path, ended = f"/api/v1/namespaces/{namespace}/pods", threading.Event()

    def run() -> None:
        while not ended.wait(0.1):
            for pod in control_plane.ask("GET", path)["items"]:
                with contextlib.suppress(urllib.error.HTTPError):
                    if pod["metadata"].get("deletionTimestamp"):
                        name = pod["metadata"]["name"]
                        control_plane.ask(
                            "DELETE",
                            f"{path}/{name}",
                            {"kind": "DeleteOptions", "gracePeriodSeconds": 0},
                        )
                    elif pod["status"]["phase"] == "Pending":
                        control_plane.set_status(f"{path}/{pod['metadata']['name']}", _READY)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.fixture
def etcompile(control_plane, namespace, tmp_path) -> Callable[..., subprocess.CompletedProcess]:
    kubeconfig = control_plane.kubeconfig(namespace=namespace)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments), "-n", namespace, "--kubeconfig", str(kubeconfig)]
        command = [sys.executable, "-m", "etcompile", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
        )

    return run


def test_workers_come_and_go_in_the_cluster(
    etcompile, kubelet, control_plane, namespace, tmp_path: Path
):
    def workers() -> list[str]:
        found = control_plane.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        names = [pod["metadata"]["name"] for pod in found]
        return sorted(name for name in names if "-worker-" in name)

    (tmp_path / "mnist.yaml").write_text(yaml.safe_dump(training_job()))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(training_job("other")))
    done = etcompile("apply", "mnist.yaml")
    assert done.returncode == 0, done.stderr
    done = etcompile("scale", "mnist", "--add", 2, "--apply")
    assert done.returncode == 0, done.stderr
    assert "wrote scale-001-out.yaml" in done.stderr
    # Of the other job, whose file is beside it, nothing is applied.
    assert workers() == [f"mnist-worker-{index}" for index in range(4)]
    done = etcompile("scale", "mnist", "--pods", "mnist-worker-1", "--apply", "--drain", "1s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert workers() == ["mnist-worker-0", "mnist-worker-2", "mnist-worker-3"]


def test_the_exit_code_is_that_of_apply_and_the_file_stays(etcompile, tmp_path: Path):
    (tmp_path / "mnist.yaml").write_text(yaml.safe_dump(training_job()))
    done = etcompile("scale", "mnist", "--add", 1, "--apply", "--context", "nowhere")
    assert done.returncode == 6
    assert (tmp_path / "scale-001-out.yaml").exists()


def test_a_wrong_option_of_apply_is_refused_before_anything_is_written(etcompile, tmp_path: Path):
    (tmp_path / "mnist.yaml").write_text(yaml.safe_dump(training_job()))
    done = etcompile("scale", "mnist", "--add", 1, "--apply", "--drain", "soon")
    assert done.returncode == 2
    assert "'soon' is not a duration" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mnist.yaml"]
