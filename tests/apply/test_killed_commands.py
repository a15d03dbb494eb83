"""Commands that are killed while a watcher runs: the same command finishes what they began.

ETCOMPILE_KILLS says how many are killed (12; 60 before a release), ETCOMPILE_KILLS_SEED when.
"""

import difflib
import json
import os
import random
import re
import time
from datetime import datetime
from typing import Any

import pytest

from apply.kubelet import Kubelet
from specs import kubeflow_job, mpi_job, training_job
from waiting import eventually

KILLS = int(os.environ.get("ETCOMPILE_KILLS", "12"))
SEED = int(os.environ.get("ETCOMPILE_KILLS_SEED", "0"))
DRAIN = 4
COMMANDS = {
    "apply": (3, 9, ("apply", "jobs")),
    "restart": (3, 8, ("restart", "mnist")),
    "scale-in": (2, 4, ("apply", "jobs", "--prune", "--config", f"drain={DRAIN}s")),
    "delete": (0, 8, ("delete", "jobs")),
}
"""In this order: how many workers are declared, how many writes there are at least, the command."""


def _mpi_job(workers: int) -> dict[str, Any]:
    document = mpi_job("v2beta1")
    document["spec"]["slotsPerWorker"] = 1
    document["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return document


_ELASTIC = {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d"}
JOBS = {
    "TrainingJob": lambda workers: training_job(replicas=workers),
    "PyTorchJob": lambda workers: kubeflow_job(
        "PyTorchJob", {"Worker": workers}, elasticPolicy=_ELASTIC
    ),
    "MPIJob": _mpi_job,
}


SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def state(objects: dict[str, Any]) -> dict[str, Any]:
    """What a namespace holds, without what differs from run to run."""
    states: dict[str, Any] = {}
    for name, value in objects.items():
        if name.startswith("Secret/"):
            states[name] = sorted(value["data"])
            continue
        metadata = {key: one for key, one in value["metadata"].items() if key not in SERVER_FIELDS}
        metadata.pop("namespace")
        rest = {key: one for key, one in value.items() if key not in ("metadata", "status")}
        if name.startswith("Service/"):
            rest["spec"] = {
                key: one for key, one in rest["spec"].items() if not key.startswith("clusterIP")
            }
        states[name] = [metadata, rest]
    return states


class Node(Kubelet):
    """Runs the Pods of a namespace, which take a second to end, and creates the Pods of Jobs."""

    def __init__(self, plane: Any, namespace: str) -> None:
        self._ends: dict[str, float] = {}
        self.launchers: set[tuple[str, ...]] = set()
        """The names of the launchers that were there at once."""
        super().__init__(plane, namespace)

    def _poll(self) -> None:
        root, ask = f"/api/v1/namespaces/{self._namespace}/pods", self._plane.ask
        pods = ask("GET", root)["items"]
        roles = [pod["metadata"]["labels"].get("etcompile.dev/role") for pod in pods]
        names = [pod["metadata"]["name"] for pod in pods]
        self.launchers.add(
            tuple(name for name, role in zip(names, roles, strict=True) if role == "launcher")
        )
        for pod in pods:
            metadata = pod["metadata"]
            path, uid = f"{root}/{metadata['name']}", metadata["uid"]
            if not pod["spec"].get("nodeName"):
                target = {"kind": "Node", "name": "node-a"}
                binding = {"metadata": {"name": metadata["name"]}, "target": target}
                ask("POST", f"{path}/binding", binding)
            elif "deletionTimestamp" in metadata:
                end = self._ends.setdefault(uid, time.monotonic() + 1)
                if time.monotonic() >= end:
                    ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
        super()._poll()
        owners = {
            owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences", ())
        }
        for job in ask("GET", f"/apis/batch/v1/namespaces/{self._namespace}/jobs")["items"]:
            metadata, template = job["metadata"], job["spec"]["template"]
            if "deletionTimestamp" in metadata or metadata["uid"] in owners:
                continue
            owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
            owner |= {"name": metadata["name"], "uid": metadata["uid"]}
            pod_metadata = {"generateName": f"{metadata['name']}-", "ownerReferences": [owner]}
            spec = {"serviceAccountName": "default", **template["spec"]}
            ask("POST", root, {"metadata": {**template["metadata"], **pod_metadata}, "spec": spec})


@pytest.fixture
def node(control_plane, namespace):
    running = Node(control_plane, namespace)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def undisturbed() -> dict[tuple[str, int], Any]:
    """By kind and number of workers, the state in which commands end that nobody kills."""
    return {}


@pytest.fixture
def comparable(objects, namespace, tmp_path):
    """Return the state of the namespace without what differs between two runs of one job."""

    def read() -> Any:
        there = objects()
        for name, value in [*there.items()]:
            metadata = value["metadata"]
            for key in ("etcompile.dev/anchor", "etcompile.dev/touched"):
                metadata.get("annotations", {}).pop(key, None)
            if not name.startswith("Pod/"):
                continue
            value["spec"].pop("nodeName", None)
            if "deletionTimestamp" in metadata:
                return f"{name} is going"
            if "generateName" in metadata:
                there["Pod/of-a-Job"] = there.pop(name)
        for name, key in (("status", "phase"), ("hosts", "hostfile")):
            if (value := there.get(f"ConfigMap/mnist-etcompile-{name}")) is not None:
                value["data"] = sorted((value.get("data") or {}).get(key, "").split())
        text = json.dumps(state(there), sort_keys=True)
        for pattern, word in (
            (re.escape(namespace), "NAMESPACE"),
            (re.escape(str(tmp_path)), "FOLDER"),
            (r"kube-api-access-\w{5}", "TOKEN"),
            (r'"etcompile.dev/set": "[^"]*"', '"SET": ""'),
            (r"applyset-[\w-]{43}-v1", "APPLYSET"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
            (r"mnist-launcher-\w{5}\b", "of-a-Job"),
        ):
            text = re.sub(pattern, word, text)
        return json.loads(text)

    return read


def _differences(*states: Any) -> str:
    lines = [json.dumps(state, indent=1, sort_keys=True).splitlines() for state in states]
    return "\n".join(difflib.unified_diff(*lines, "found", "undisturbed", lineterm="", n=3))


@pytest.mark.parametrize("number", range(KILLS // len(COMMANDS)))
def test_command_killed_under_a_watcher_is_finished_by_the_same_command(
    run, start, write, node, comparable, undisturbed, slow, kubeconfig, control_plane, namespace,
    number,
):  # fmt: skip
    dice = random.Random(SEED * 1000 + number)
    kind = [*JOBS][number % len(JOBS)]
    watcher = start("watch", "-n", namespace, "--listen", "")
    assert any("watching" in line for line in watcher.stderr)

    def declare(workers: int) -> None:
        if not workers:
            return
        document = JOBS[kind](workers)
        document["metadata"]["namespace"] = namespace
        write(document)

    def finish(workers: int, words: tuple[str, ...], what: str) -> None:
        done = run(*words, KUBECONFIG=str(kubeconfig), code=0)
        if not workers:
            time.sleep(3)  # longer than a watcher waits before it creates what is missing
            assert comparable() == {}, f"{what}\n{done.stdout}\n{done.stderr}"
            return
        if (kind, workers) not in undisturbed:
            phase = "ConfigMap/mnist-etcompile-status"
            eventually(lambda: "Running" in str(comparable().get(phase)), 60, lambda: what)
            undisturbed[kind, workers] = comparable()
        expected = undisturbed[kind, workers]
        eventually(
            lambda: comparable() == expected,
            60,
            lambda: f"{what}\n{done.stdout}\n{_differences(comparable(), expected)}",
        )
        run("diff", "jobs", KUBECONFIG=str(kubeconfig), code=0)

    def kill(words: tuple[str, ...], writes: int) -> str:
        seconds = dice.uniform(0.5, 3)
        before, by_time = slow.count(), dice.random() < 0.3
        started = start(*words, KUBECONFIG=str(slow.kubeconfig))
        if by_time:
            time.sleep(seconds)
        else:
            eventually(
                lambda: slow.count() - before >= writes or started.poll() is not None,
                60,
                str,
                pause=0.005,
            )
        started.kill()
        out, err = started.communicate()
        assert started.returncode in (0, -9), out + err
        when = f"{seconds:.1f} s" if by_time else f"{writes} writes"
        print(f"{kind} {words}: exit {started.returncode} after {when}")
        return f"seed {SEED}, {number}: {kind} {words} killed after {when}:\n{out}\n{err}\nagain:"

    if (kind, 2) not in undisturbed:
        for workers, _, words in (COMMANDS[one] for one in ("apply", "scale-in", "delete")):
            declare(workers)
            finish(workers, words, "undisturbed")
    for how, (workers, writes, words) in COMMANDS.items():
        declare(workers)
        before = len(control_plane.writes(namespace))
        finish(workers, words, kill(words, dice.randint(1, writes)))
        if how == "scale-in" and kind != "PyTorchJob":  # which has no host list
            assert drained(control_plane.writes(namespace)[before:]) >= DRAIN
    assert max(map(len, node.launchers)) < 2, node.launchers


def drained(events: list[dict[str, Any]]) -> float:
    """Return the seconds from the declared host list to the deletion of the worker it lacks."""

    def times(verb: str, name: str) -> list[datetime]:
        return [
            datetime.fromisoformat(event["requestReceivedTimestamp"])
            for event in events
            if (event["verb"], event["objectRef"].get("name")) == (verb, name)
        ]

    deleted = min(times("delete", "mnist-worker-2"))
    return (deleted - max(times("patch", "mnist-config"))).total_seconds()
