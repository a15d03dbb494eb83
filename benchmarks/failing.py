"""A namespace of a real kube-apiserver whose Pods fail, and who replaces them.

Pods' statuses are written as kubelets would. What came of it is read from the API server's audit
log: how long from the answer to the write of a failure until the request that creates its
replacement, and which writes that took.
"""

import collections
import contextlib
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from controlplane.server import ControlPlane  # noqa: E402
from etcompile.compiler.choices import Options  # noqa: E402
from etcompile.compiler.pipeline import compile  # noqa: A004, E402
from etcompile.integrations.watcher_manifests import NAME, Installation, manifests  # noqa: E402
from etcompile.kubeapi import Cluster, ClusterError, connect  # noqa: E402

RIGHTS = ("ServiceAccount", "Role", "RoleBinding")
STARTING = 1.0
"""Seconds that a kubelet takes to start a Pod, about as on a real node."""
MARGIN = 0.4
"""Seconds between two failures that come alone."""


def spec(name: str, workers: int) -> dict:
    """A job whose failed workers are replaced; its Pods are of the size of real ones."""
    variables = [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(10)]
    container = {
        "name": "train",
        "image": "registry.example/team/horovod:0.28.1",
        "env": variables,
        "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "512Gi", "cpu": 64}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    run = ["horovodrun", "-np", "1", "--host-discovery-script", "/etc/edl/discover_hosts.sh"]
    launcher = {**container, "command": [*run, "python", "train.py"]}
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "etReplicaSpecs": {
                "launcher": {"template": {"spec": {"containers": [launcher], "volumes": volumes}}},
                "worker": {
                    "replicas": workers,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": {"containers": [container], "volumes": volumes}},
                },
            }
        },
    }


def at_once(count: int, kubelets: int) -> str:
    """The title of so many failures at once that so many kubelets tell of."""
    return f"{count} at once, told by {kubelets} kubelet{'s' * (kubelets > 1)}"


class Kubelets:
    """Makes Pods Running as soon as they are there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._pods = cluster.resource("v1", "Pod")
        self._pool = ThreadPoolExecutor(6)
        self._starting: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()

    def start(self, name: str) -> None:
        self.write(name, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    def fail(self, name: str, code: int = 137) -> None:
        ended = {"name": "train", "state": {"terminated": {"exitCode": code}}}
        ended |= {"restartCount": 0, "ready": False, "image": "i", "imageID": ""}
        ready = {"type": "Ready", "status": "False"}
        status = {"phase": "Failed", "conditions": [ready], "containerStatuses": [ended]}
        self.write(name, status)

    def write(self, name: str, status: dict) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for one in status["conditions"]:
            one["lastTransitionTime"] = now
        with contextlib.suppress(ClusterError):
            self._cluster.patch(
                self._pods, name, {"status": status}, self._namespace, subresource="status"
            )

    def follow(self) -> None:
        listing = self._cluster.list(self._pods, self._namespace)
        watch = self._cluster.watch(self._pods, listing.resource_version, self._namespace)
        threading.Thread(target=self._start_on, daemon=True).start()
        with contextlib.suppress(ClusterError):  # the API server ends before we do
            for event in watch:
                if event.type == "ADDED":
                    due = time.monotonic() + STARTING
                    self._starting.put((due, event.object["metadata"]["name"]))

    def _start_on(self) -> None:
        while True:
            due, name = self._starting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self._pool.submit(self.start, name)


def parsed(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Bench:
    """The watcher, and jobs of which Pods fail.

    Attributes:
        title: Who replaces them.
        user: Whose requests are counted: its name has this in it.
        writes: The metric that grows as long as it has something to do.
        process: It.
    """

    title, user, writes = "watcher", NAME, "etcompile_watch_api_writes_total"

    def __init__(self, plane: ControlPlane, jobs: int, pods: int) -> None:
        self.plane = plane
        self.namespace = plane.namespace()
        self.jobs, self.workers = jobs, pods // jobs - 1
        kubeconfig = plane.kubeconfig(token="admin-token", namespace=self.namespace)
        self.cluster = connect(kubeconfig=kubeconfig, connections=32)
        self.kubelets = Kubelets(self.cluster, self.namespace)
        self.process: subprocess.Popen | None = None

    def fill(self) -> None:
        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            for number in range(self.jobs):
                document = spec(f"job-{number}", self.workers)
                compilation = compile([document], Options(namespace=self.namespace))
                assert compilation.ok, compilation.diagnostics
                wanted = [
                    v for v in compilation.objects if v["kind"] in ("ConfigMap", "Pod", "Service")
                ]
                for value in compilation.objects:
                    if value["kind"] == "ServiceAccount":
                        self.cluster.create(value)  # no Pod is admitted before
                done = [pool.submit(self.cluster.create, value) for value in wanted]
                for one in done:
                    one.result()
                started = [v["metadata"]["name"] for v in wanted if v["kind"] == "Pod"]
                [*pool.map(self.kubelets.start, started)]
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)

    def watch(self) -> None:
        for value in manifests(Installation(self.namespace, (self.namespace,), "unused")):
            if value["kind"] in RIGHTS:
                self.cluster.create(value)
        token = self.plane.service_account(self.namespace, NAME)
        kubeconfig = self.plane.kubeconfig(token=token, namespace=self.namespace)
        port = 18080 + os.getpid() % 1000
        self.url = f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "etcompile",
            "watch",
            "-q",
            "--listen",
            f"127.0.0.1:{port}",
        ]
        begun = time.monotonic()
        self.process = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)], cwd=ROOT)
        while True:
            with contextlib.suppress(OSError):
                if b"ready" in urllib.request.urlopen(f"{self.url}/readyz").read():
                    break
            assert self.process.poll() is None
            time.sleep(0.02)
        print(f"watcher ready after {time.monotonic() - begun:.2f} s", flush=True)
        threading.Thread(target=self.kubelets.follow, daemon=True).start()
        self.quiet(20)

    def measure(self, alone: int, kill: Sequence[tuple[int, int]]) -> dict:
        """What becomes of single failures, and of so many at once that so many kubelets tell of."""
        try:
            self.fill()
            self.watch()
            failures = [self.run("one at a time", self.names(alone))]
            offset = -(-alone // self.jobs)
            for count, kubelets in kill:
                failures.append(self.bare(count))
                names = self.names(count, offset)
                failures.append(self.run(at_once(count, kubelets), names, kubelets))
                offset += -(-count // self.jobs)
            return {"failures": failures, "megabytes": self.rss()[1]}
        finally:
            if self.process:
                self.process.terminate()
                self.process.wait()

    def quiet(self, still: float = 3) -> None:
        """Waits until the watcher has written nothing for some seconds."""
        last, since = -1.0, time.monotonic()
        while time.monotonic() - since < still:
            now = self.metric(self.writes)
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.5)  # being asked costs the watcher something, too

    def metric(self, name: str) -> float:
        text = urllib.request.urlopen(f"{self.url}/metrics").read().decode()
        return sum(
            float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)
        )

    def rss(self) -> tuple[float, float]:
        """Resident memory now and at most, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return tuple(int(fields[key].split()[0]) / 1000 for key in ("VmRSS", "VmHWM"))

    def names(self, count: int, offset: int = 0) -> list[str]:
        """So many workers, of all jobs alike."""
        return [f"job-{n % self.jobs}-worker-{offset + n // self.jobs}" for n in range(count)]

    def processor(self) -> dict[str, float]:
        """Seconds of processor time so far, by program."""
        server = {Path(p.args[0]).name: p.pid for p in self.plane._processes}  # noqa: SLF001
        pids = {self.title: self.process.pid, "this": os.getpid(), **server}
        ticks = os.sysconf("SC_CLK_TCK")
        seconds = {}
        for name, pid in pids.items():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds[name] = (int(fields[11]) + int(fields[12])) / ticks
        return seconds

    def run(self, title: str, names: list[str], writers: int = 0) -> dict:
        """Lets Pods fail, one by one, or at once with so many kubelets that write it."""
        marker = time.time()
        before = self.processor()
        if writers:
            with ThreadPoolExecutor(writers) as pool:
                [*pool.map(self.kubelets.fail, names)]
        else:
            for name in names:
                self.kubelets.fail(name)
                time.sleep(MARGIN)
        self.quiet()
        figures = self.figures(title, set(names), marker)
        self.say_spent(before, len(names))
        return figures

    def bare(self, count: int) -> dict:
        """What the API server alone takes to delete and create so many Pods, with this client."""
        compilation = compile([spec(f"bare-{count}", count)], Options(namespace=self.namespace))
        pods = [
            v
            for v in compilation.objects
            if v["kind"] == "Pod" and "worker" in v["metadata"]["name"]
        ]
        for pod in pods:
            pod["metadata"]["labels"] = {}  # nobody watches them
        resource = self.cluster.resource("v1", "Pod")

        def replace(pod: dict) -> None:
            self.cluster.delete(resource, pod["metadata"]["name"], self.namespace)
            self.cluster.create(pod)

        with ThreadPoolExecutor(16) as pool:
            [*pool.map(self.cluster.create, pods)]
            before, begun = self.processor(), time.monotonic()
            [*pool.map(replace, pods)]
            took = time.monotonic() - begun
            print(f"bare, {count} at once: all in {took * 1000:.0f} ms")
            self.say_spent(before, count)
            names = [pod["metadata"]["name"] for pod in pods]
            [*pool.map(lambda name: self.cluster.delete(resource, name, self.namespace), names)]
        return {"title": f"bare, {count} at once", "all": took}

    def say_spent(self, before: dict[str, float], count: int) -> None:
        """Prints the processor time since then."""
        spent = {name: used - before[name] for name, used in self.processor().items()}
        each = ", ".join(f"{name} {used * 1000 / count:.1f}" for name, used in spent.items())
        print(f"  processor, ms per failure: {each}", flush=True)

    def figures(self, title: str, names: set[str], marker: float) -> dict:
        failed: dict[str, float] = {}
        created: dict[str, float] = {}
        writes: collections.Counter = collections.Counter()
        for event in self.plane.audit(self.namespace):
            if parsed(event["requestReceivedTimestamp"]) < marker:
                continue
            about = event["objectRef"]
            name, verb = about.get("name"), event["verb"]
            if verb not in ("create", "patch", "delete", "update"):
                continue
            if self.user in event["user"]["username"]:
                if about["resource"] == "leases":
                    continue
                what = name.rpartition("-")[2] if about["resource"] == "configmaps" else ""
                code = event["responseStatus"]["code"]
                refused = f" {code}" if code >= 300 else ""
                writes[f"{verb} {about['resource']} {what}".strip() + refused] += 1
                if verb == "create" and about["resource"] == "pods" and code < 300:
                    name = name or event["requestObject"]["metadata"]["name"]
                    created[name] = parsed(event["requestReceivedTimestamp"])
            elif (
                (verb, about.get("subresource")) == ("patch", "status")
                and name in names
                and event["requestObject"]["status"]["phase"] == "Failed"
            ):
                failed[name] = parsed(event["stageTimestamp"])
        took = sorted(created[name] - failed[name] for name in failed if name in created)
        assert len(took) == len(names), f"{len(names) - len(took)} were not replaced"
        spread = {
            "median": statistics.median(took),
            "p99": took[min(len(took) - 1, int(len(took) * 0.99))],
            "max": took[-1],
        }
        figures = ", ".join(f"{key} {value * 1000:.0f} ms" for key, value in spread.items())
        cost = ", ".join(f"{what} {n / len(names):.2f}" for what, n in sorted(writes.items()))
        each = sum(writes.values()) / len(names)
        print(f"{title}: {figures}")
        print(f"  writes per failure: {each:.2f} ({cost})")
        print("  memory: {:.0f} MB now, {:.0f} MB at most".format(*self.rss()), flush=True)
        return {"title": title, **spread, "writes": each}
