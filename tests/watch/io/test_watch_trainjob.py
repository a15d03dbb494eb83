"""A TrainJob on a real API server: nodes that fail and succeed, and what is told of them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from watched import eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "trainjob" / "torch" / "job.yaml"
ELASTIC = EXAMPLE.parents[1] / "elastic" / "job.yaml"
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
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Running")
    status = told("status")
    assert "(TrainJob)" in status
    assert "mnist-node-0-1  ended with exit code 3: recreating it" in status
    assert "mnist-node-0-1: container train ended with exit code 3" in told("why")
    for name in NODES:
        place.becomes(name, "Succeeded", 0)
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Succeeded")
    assert "Succeeded" in told("status")


def test_a_launcher_of_mpi_is_told_which_nodes_are_there(place, watching, namespace):
    watching()
    place.kubelets()
    job = yaml.safe_load((EXAMPLE.parents[1] / "mpi" / "job.yaml").read_text())
    job["metadata"] |= {"namespace": namespace, "annotations": {"etcompile.dev/nnodes": "2:4"}}
    script = ["--host-discovery-script", "/etc/mpi/discover_hosts.sh"]
    job["spec"]["trainer"]["command"] = ["horovodrun", "-np", "2", *script, "python"]
    place.submit(job)

    def listed() -> list[str]:
        return place.data("t5-etcompile-hosts").get("hosts", "").split()

    three = ["t5-node-0-0.t5:2", "t5-node-0-1.t5:2", "t5-launcher-0-0.t5:2"]
    eventually(lambda: listed() == three)
    job["spec"]["trainer"]["numNodes"] = 4
    for value in place.compiled(job):
        if value["kind"] in ("ConfigMap", "Pod"):
            place.cluster.server_side_apply(value, force=True)
    eventually(lambda: listed() == [*three[:2], "t5-node-0-2.t5:2", three[2]])


def test_elastic_nodes_come_and_go_and_those_that_stay_are_left_alone(
    place, watching, namespace, tmp_path
):
    watching()
    place.kubelets()
    file = tmp_path / "job.yaml"
    file.write_text(ELASTIC.read_text().replace("namespace: ml", f"namespace: {namespace}"))
    kubeconfig = str(place.plane.kubeconfig(namespace=namespace))

    def etcompile(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def nodes(count: int) -> dict[str, str]:
        names = [f"bert-node-0-{number}" for number in range(count)]
        etcompile("apply", str(file), "--prune", "--kubeconfig", kubeconfig)
        eventually(lambda: place.ready("node") == names and [*place.pods()] == names)
        # What is applied is what is there.
        etcompile("diff", str(file), "--kubeconfig", kubeconfig)
        return {name: place.uid(name) for name in names}

    two = nodes(2)
    etcompile("scale", "bert", "--to", "4", "--in-place", str(file))
    assert "numNodes: 4" in file.read_text()
    four = nodes(4)
    assert two.items() <= four.items()
    place.fails("bert-node-0-2", 3)
    eventually(lambda: place.uid("bert-node-0-2") not in ("", four["bert-node-0-2"]))
    etcompile("scale", "bert", "--to", "3", "--in-place", str(file))
    three = nodes(3)
    assert two.items() <= three.items()
    # Of nodes that meet anew whenever one comes or goes, the first that is done ends the run.
    place.becomes("bert-node-0-1", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Succeeded")
