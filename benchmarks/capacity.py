"""How much longer a check takes that looks whether a job fits: 1,000 replicas, 10,000 nodes.

Whole processes, in turns (A, B, A, B), so that a busy machine slows both.

    python benchmarks/capacity.py [--runs N] [--nodes N] [--replicas N]
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from etcompile import emit
from etcompile.capacity import snapshot

ROOT = Path(__file__).parents[1]
JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{ name: large, namespace: ml }}
spec:
  pytorchReplicaSpecs:
    Master: {{ replicas: 1, template: {{ spec: {{ containers: [{master}] }} }} }}
    Worker: {{ replicas: {workers}, template: {{ spec: {{ containers: [{worker}] }} }} }}
"""
CONTAINER = (
    "{{ name: pytorch, image: 'example.com/trainer:1', command: [train], "
    "resources: {{ requests: {{ cpu: {cpu} }}, limits: {{ nvidia.com/gpu: {gpus} }} }} }}"
)


def snapshot_file(folder: Path, count: int) -> Path:
    """Nodes of forty kinds, each with Pods of its own on it."""
    chance = random.Random(1)
    nodes, pods = [], []
    for number in range(count):
        pool = number % 40
        labels = {"pool": f"pool-{pool}", "topology.kubernetes.io/zone": f"z{pool % 3}"}
        name = f"node-{number}"
        amounts = {
            "cpu": "96",
            "memory": "768Gi",
            "nvidia.com/gpu": str(pool % 2 * 8),
            "pods": "110",
        }
        metadata = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
        nodes.append({"metadata": metadata, "status": {"allocatable": amounts}, "spec": {}})
        requests = {"cpu": f"{chance.randint(1, 90_000)}m", "nvidia.com/gpu": str(pool % 2)}
        spec = {"nodeName": name, "containers": [{"resources": {"requests": requests}}]}
        pods.append({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": {}})
    file = folder / "capacity.yaml"
    file.write_text(emit.to_yaml(snapshot.to_document(snapshot.of_objects(nodes, pods))), "utf-8")
    return file


def seconds(*words: object) -> tuple[float, float]:
    """The wall time of a check, and its CPU time."""
    command = [sys.executable, "-m", "etcompile", "check", *map(str, words)]
    begin, before = time.perf_counter(), os.times()
    subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return time.perf_counter() - begin, cpu


def main() -> None:
    """Prints the median of both, and of the differences of each pair of runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--replicas", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shot, job = snapshot_file(folder, options.nodes), folder / "job.yaml"
        master, worker = (CONTAINER.format(cpu=cpu, gpus=gpus) for cpu, gpus in ((1, 1), (8, 2)))
        text = JOB.format(master=master, worker=worker, workers=options.replicas - 1)
        job.write_text(text, "utf-8")
        seconds(job, "--capacity", shot)
        pairs = [(seconds(job, "--capacity", shot), seconds(job)) for _ in range(options.runs)]
    print(f"{options.nodes} nodes, {options.replicas} replicas, {options.runs} pairs of runs")
    for name, at in (("wall", 0), ("CPU", 1)):
        more = sorted(one[at] - other[at] for one, other in pairs)
        print(
            f"{name} time of a check: {statistics.median(other[at] for _, other in pairs):.2f} s;"
            f" with a snapshot {statistics.median(more):.2f} s more"
            f" ({more[0]:.2f} to {more[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
