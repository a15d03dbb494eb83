"""A TrainJob on a real API server: nodes that fail and succeed, and what is told of them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from watched import eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "trainjob" / "torch" / "job.yaml"
NODES = ["mnist-node-0-0", "mnist-node-0-1"]


@pytest.fixture
def told(control_plane, namespace):
    """`told("status")`: what a command of etcompile says of the job."""
    kubeconfig = control_plane.kubeconfig(namespace=namespace)

    def run(command: str) -> str:
        words = [command, "mnist", "-n", namespace, "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout + done.stderr

    return run


def test_a_node_that_fails_is_replaced_alone_and_why_names_it(place, watching, namespace, told):
    watching()
    place.kubelets()
    job = yaml.safe_load(EXAMPLE.read_text())
    job["metadata"]["namespace"] = namespace
    place.submit(job)
    eventually(lambda: place.ready("node") == NODES)
    stays, goes = map(place.uid, NODES)
    place.fails("mnist-node-0-1", 3)
    eventually(lambda: place.uid("mnist-node-0-1") not in ("", goes))
    eventually(lambda: place.ready("node") == NODES)
    assert place.uid("mnist-node-0-0") == stays
    eventually(lambda: place.data("mnist-status").get("phase") == "Running")
    status = told("status")
    assert "(TrainJob)" in status
    assert "mnist-node-0-1  ended with exit code 3: recreating it" in status
    assert "mnist-node-0-1: it ended with exit code 3" in told("why")
    for name in NODES:
        place.becomes(name, "Succeeded", 0)
    eventually(lambda: place.data("mnist-status").get("phase") == "Succeeded")
    assert "Succeeded" in told("status")
