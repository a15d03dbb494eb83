"""What an epoch of a large gang costs: a restart in place, and a real kube-apiserver.

    python benchmarks/epochs.py [--pods 1000] [--no-docs]

Starts etcd and kube-apiserver (built once, as for the tests), makes a PyTorchJob of so many Pods
that restarts in place, runs the watcher as a process of its own, and plays the kubelets: commands
end, and begin again when their Pod says so. The API server's audit log tells which writes an epoch
took, and when each Pod was touched. It prints its figures and writes docs/benchmarks-epochs.md.
"""

import argparse
import collections
import contextlib
import os
import platform
import queue
import statistics
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from failing import ROOT, Bench, parsed

import etcompile
from controlplane.binaries import binaries
from controlplane.server import ControlPlane
from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.kubeapi import ClusterError
from specs import kubeflow_job

EPOCH = "etcompile.dev/epoch"
DELAY = 2.0
"""Seconds until a touched annotation has reached its container (one), its supervisor has looked,
and a probe has told the kubelet what came of it (another): about as on a real node."""


@dataclass(frozen=True)
class Cost:
    """What an epoch took.

    Args:
        title: What happened to the commands.
        writes: How often the watcher wrote what, by verb and kind.
        touched: Of each Pod, seconds from the write of `J-status`, or from the end of the last
            command if that came later, until it was told to run.
        told: How many times Pods were told anything.
    """

    title: str
    writes: dict[str, int]
    touched: list[float]
    told: int


class Gang(Bench):
    """A PyTorchJob that restarts in place, and kubelets that do what its Pods say."""

    def __init__(self, plane: ControlPlane, pods: int) -> None:
        super().__init__(plane, 1, pods)
        self.size = pods
        self.pods: dict[str, str] = {}
        self._at: dict[str, str] = {}
        self._running: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(16)
        self._kind = self.cluster.resource("v1", "Pod")

    def fill(self) -> None:
        """Creates the Pods, whose commands run."""
        container = {"name": "pytorch", "image": "i", "command": ["python", "train.py"]}
        replica = {"template": {"spec": {"containers": [container]}}, "restartPolicy": "OnFailure"}
        types = {"Master": {**replica, "replicas": 1}, "Worker": {**replica}}
        types["Worker"]["replicas"] = self.size - 1
        document = kubeflow_job("PyTorchJob", types)
        document["metadata"] = {"name": "job", "annotations": {"etcompile.dev/restart": "in-place"}}
        made = compile([document], Options(namespace=self.namespace))
        assert made.ok, made.diagnostics
        wanted = {"ConfigMap", "Pod", "ServiceAccount"}
        values = [value for value in made.objects if value["kind"] in wanted]
        self._map([value for value in values if value["kind"] != "Pod"], self.cluster.create)
        names = [value["metadata"]["name"] for value in values if value["kind"] == "Pod"]
        self._map([value for value in values if value["kind"] == "Pod"], self.cluster.create)
        self._map(names, self.begins)
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self._begin_on, daemon=True).start()

    def _map(self, values: Sequence[Any], function: Callable[[Any], Any]) -> None:
        for _ in self._pool.map(function, values):
            pass

    def begins(self, name: str) -> None:
        """The command of a Pod runs."""
        self._is(name, runs=True)

    def ends(self, name: str) -> None:
        """The command of a Pod ends, and its supervisor keeps the container."""
        self._is(name, runs=False)

    def ends_of(self, epoch: int, name: str) -> None:
        """The command of a Pod ends by itself, if it was not told to before."""
        if self._epochs.get(name, 0) <= epoch:
            self.ends(name)

    def _is(self, name: str, *, runs: bool) -> None:
        with self._lock:
            if (name in self._running) == runs:
                return
            (self._running.add if runs else self._running.discard)(name)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        since = self._at.setdefault(name, now)
        status, kinds = ("True" if runs else "False"), ("Ready", "ContainersReady")
        conditions = [{"type": one, "status": status, "lastTransitionTime": now} for one in kinds]
        container = {"name": "pytorch", "ready": runs, "restartCount": 0, "image": "i"}
        container |= {"imageID": "", "started": True, "state": {"running": {"startedAt": since}}}
        value = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
        with contextlib.suppress(ClusterError):
            self.cluster.patch(
                self._kind, name, {"status": value}, self.namespace, subresource="status"
            )

    def _follow(self) -> None:
        """Does what Pods are told to, as their supervisors and kubelets would."""
        listing = self.cluster.list(self._kind, self.namespace)
        done: dict[str, str] = {}
        with contextlib.suppress(ClusterError):  # the API server ends before we do
            for event in self.cluster.watch(self._kind, listing.resource_version, self.namespace):
                if event.type != "MODIFIED":
                    continue
                metadata = event.object["metadata"]
                name, told = metadata["name"], metadata.get("annotations", {}).get(EPOCH, "")
                words = " ".join(told.split()[:2])
                if words and done.get(name) != words:
                    done[name] = words
                    self._epochs[name] = int(words.split()[0])
                    if words != "0 run":
                        self._due.put((time.monotonic() + DELAY, f"{name} {words}"))

    def _begin_on(self) -> None:
        while True:
            due, told = self._due.get()
            time.sleep(max(0.0, due - time.monotonic()))
            name, _, verb = told.split()
            self._pool.submit(self.begins if verb == "run" else self.ends, name)

    def names(self, count: int, offset: int = 0) -> list[str]:
        """So many Pods of the gang."""
        every = ["job-master-0", *(f"job-worker-{index}" for index in range(self.size - 1))]
        return every[offset : offset + count]

    def epoch(self, title: str, names: Sequence[str]) -> Cost:
        """Lets commands end, waits until all run again, and asks the API server what that took."""
        marker = time.time()
        before = self.processor()
        self._map(names, partial(self.ends_of, max(self._epochs.values(), default=0)))
        self.quiet(6)
        self.say_spent(before, self.size)
        writes: collections.Counter[str] = collections.Counter()
        began, ended = 0.0, 0.0
        runs: dict[str, float] = {}
        told = 0
        for event in self.plane.audit(self.namespace):
            received = parsed(event["requestReceivedTimestamp"])
            about, verb = event["objectRef"], event["verb"]
            if received < marker or verb not in ("create", "patch", "delete", "update"):
                continue
            name, body = about.get("name") or "", event.get("requestObject") or {}
            if self.user not in event["user"]["username"]:
                containers = body.get("status", {}).get("containerStatuses", [])
                if about.get("subresource") == "status" and not any(c["ready"] for c in containers):
                    ended = max(ended, parsed(event["stageTimestamp"]))
            elif about["resource"] != "leases":
                what = "J-etcompile-status" if name.endswith("-status") else about["resource"]
                writes[f"{verb} {what}"] += 1
                if what == "J-etcompile-status":
                    began = began or received
                words = body.get("metadata", {}).get("annotations", {}).get(EPOCH, "").split()
                if words:
                    told += 1
                if words[1:2] == ["run"]:
                    runs.setdefault(name, parsed(event["stageTimestamp"]))
        assert len(runs) == self.size, f"{len(runs)} of {self.size} were told to run"
        start = max(began, ended)
        cost = Cost(title, dict(writes), [max(0.0, at - start) for at in runs.values()], told)
        print(line(cost), dict(writes), flush=True)
        return cost


def line(cost: Cost) -> str:
    """A row of the table."""
    touched = sorted(cost.touched)
    other = sum(count for what, count in cost.writes.items() if what == "create events")
    cells = (
        cost.title,
        str(cost.writes.get("patch J-etcompile-status", 0)),
        f"{cost.told / len(touched):.2f}",
        str(other),
        f"{statistics.median(touched):.1f} s",
        f"{touched[-1]:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def page(costs: Sequence[Cost], pods: int, load: float, megabytes: float) -> str:
    """The page of the documentation."""
    intro = f"""
A PyTorchJob of {pods:,} Pods that [restarts in place](recovery.md), on a real kube-apiserver
without kubelets, and the watcher as a process of its own on the same machine: `python
benchmarks/epochs.py`. From the audit log: what the watcher writes in an epoch, and how long it
takes from the write of `J-status`, or from the end of the last command if that comes later, until
a Pod is told to run. Measured on {time.strftime("%Y-%m-%d")}, on {os.cpu_count()} cores
({platform.system()}, {platform.machine()}) with a load average of {load:.1f} when it began: Python
{platform.python_version()}, etcompile {etcompile.__version__}. The watcher used {megabytes:.0f} MB
at most."""
    table = "\n".join(map(line, costs))
    return f"""\
# What an epoch of a thousand Pods costs the API server

{textwrap.fill(" ".join(intro.split()), 100, break_on_hyphens=False)}

| what happens | writes of `J-etcompile-status` | patches a Pod | Events | median Pod | last Pod |
|---|---:|---:|---:|---:|---:|
{table}

- Commands that end by themselves, as those of a gang do whose connections break, are told once: to
  run. Those that hang have to be told to stop first, and are told twice.
- Kubelets tell of each end and of each beginning: two writes a Pod that are not the watcher's, and
  that share the API server with it here.
"""


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Counts what an epoch costs the API server.")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--no-docs", action="store_true", help="print, and write no file")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder), binaries(print))
        gang = Gang(plane, given.pods)
        try:
            gang.fill()
            gang.watch()
            every = gang.names(given.pods)
            costs = [
                gang.epoch("all commands end", every),
                gang.epoch("all commands end, again", every),
                gang.epoch("one ends, the others hang", every[-1:]),
            ]
            megabytes = gang.rss()[1]
        finally:
            if gang.process:
                gang.process.terminate()
                gang.process.wait()
            plane.stop()
    if not given.no_docs:
        path = ROOT / "docs" / "benchmarks-epochs.md"
        path.write_text(page(costs, given.pods, load, megabytes))


if __name__ == "__main__":
    main()
