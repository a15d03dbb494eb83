"""A gang of ranks on a real cluster, the watcher that looks after it, and ways to disturb both."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from etcompile.backend import job_config
from etcompile.frontends import annotations
from etcompile.kubeapi import connect
from etcompile.kubeapi.errors import ClusterError
from etcompile.model import supervision
from etcompile.model.protocol import status_name
from node.real_cluster import KUBECONFIG, Cluster
from specs import kubeflow_job
from waiting import eventually

RANK = Path(__file__).with_name("rank.py")

# No process can kill the first one of its own container: this one sees those of the whole node.
_KILL = """
import os, signal, sys, time

namespace, pod, what, after = sys.argv[1:]
time.sleep(float(after))
for process in filter(str.isdecimal, os.listdir("/proc")):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            variables = set(file.read().decode(errors="replace").split("\\0"))
        if not {f"HOSTNAME={pod}", f"TEST={namespace}"} <= variables:
            continue
        with open(f"/proc/{process}/cmdline") as file:
            words = file.read().split("\\0")
        with open(f"/proc/{process}/status") as file:
            number = next(line.split()[-1] for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        continue
    if number == "1" if what == "container" else words[:2] == ["python3", "/code/rank.py"]:
        at = time.time()
        number = {"stop": signal.SIGSTOP, "loop": signal.SIGALRM}.get(what, signal.SIGKILL)
        os.kill(int(process), number)
        print(at)
"""

# It goes on by itself: an exec goes through the kubelet.
_FREEZE = """
import os, signal, sys, time

def is_kubelet(process):
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return os.path.basename(file.read().split("\\0")[0]) == "kubelet"
    except OSError:
        return False

[kubelet] = filter(is_kubelet, filter(str.isdecimal, os.listdir("/proc")))
if not os.fork():
    for number in range(3):
        os.close(number)
    time.sleep(1.5)
    os.kill(int(kubelet), signal.SIGSTOP)
    time.sleep(float(sys.argv[1]))
    os.kill(int(kubelet), signal.SIGCONT)
"""

# As the command line does, but what has run for two seconds has run for long.
_WATCH = """
import functools, sys
from etcompile.backend import job_config
from etcompile.cli.main import main
from etcompile.frontends import annotations
from etcompile.watch.core import controller, run

if sys.argv[1] != "-":
    timeouts = run.Timeouts(forget=float(sys.argv[1]))
    controller.Choices = functools.partial(controller.Choices, timeouts=timeouts)
    own, more = job_config.options, f"--forget={sys.argv[1]}"
    job_config.options = lambda *role: (*words, more) if (words := own(*role)) else ()
    annotations.options = job_config.options
sys.argv[1:2] = ["watch"]
sys.exit(main())
"""


@dataclass(frozen=True)
class Step:
    """A step that a rank has completed."""

    number: int
    epoch: int
    since: float  # when the process began that says so, in seconds since 1970
    at: float


class Watcher:
    """The watcher of a namespace, as a process of its own.

    Args:
        forget: After so many seconds a restart is the first of another row; None for the usual.
    """

    def __init__(self, namespace: str, log: Path, forget: float | None = None) -> None:
        self.log = log
        after = "-" if forget is None else f"{forget:g}"
        self._command = [sys.executable, "-c", _WATCH, after, "--namespace", namespace]
        self._command += ["--listen", "", "--lease", "10"]
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "KUBECONFIG": os.environ["ETCOMPILE_E2E_KUBECONFIG"]}
        with self.log.open("a") as output:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=output, stderr=output
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process.poll() is None, f"it has ended by itself:\n{self.log.read_text()}"
        self._process.terminate()
        assert self._process.wait(timeout=30) in (0, 130), self.log.read_text()


class Gang:
    """A PyTorchJob of ranks that check in every step whom they run it with.

    Args:
        image: An image with python3, and torch if the ranks are to meet by it.
        grace: The terminationGracePeriodSeconds of the Pods.
        variables: The environment of the ranks (`rank.py`).
    """

    def __init__(
        self,
        cluster: Cluster,
        image: str,
        annotations: Mapping[str, str],
        *,
        size: int = 8,
        grace: int = 5,
        **variables: str,
    ) -> None:
        self.cluster, self.image = cluster, image
        self.names = ["gang-master-0", *(f"gang-worker-{index}" for index in range(size - 1))]
        # A kubectl needs a sixth of a second of a processor, of which a small node has two.
        self.api = connect(kubeconfig=KUBECONFIG, namespace=cluster.namespace)
        self._killers: dict[str, str] = {}
        usual = {"TEST": cluster.namespace, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        container = {
            "name": "pytorch",
            "image": image,
            "command": ["python3", "/code/rank.py"],
            # Without, whatever else this machine does would starve the supervisors.
            "resources": {"requests": {"cpu": "100m"}},
            "env": [{"name": key, "value": it} for key, it in {**usual, **variables}.items()],
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "state", "mountPath": "/state"},
            ],
        }
        volumes = [
            {"name": "code", "configMap": {"name": "code"}},
            {"name": "state", "emptyDir": {}},
        ]
        spec = {"containers": [container], "volumes": volumes}
        template = {"spec": {**spec, "terminationGracePeriodSeconds": grace}}
        replicas = {"restartPolicy": "OnFailure", "template": template}
        self.document = kubeflow_job(
            "PyTorchJob",
            {"Master": {"replicas": 1, **replicas}, "Worker": {"replicas": size - 1, **replicas}},
            nprocPerNode="1",
            runPolicy={"cleanPodPolicy": "None"},
        )
        self.document["metadata"] = {"name": "gang", "annotations": dict(annotations)}

    def apply(self) -> None:
        code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
        self.cluster.kubectl(
            "apply", "-f", "-", stdin=json.dumps({**code, "data": {"rank.py": RANK.read_text()}})
        )
        self.submit()

    def submit(self) -> None:
        self.cluster.apply(self.document)

    def pod_name(self, name: str) -> str:
        return name

    def pods(self) -> dict[str, dict[str, Any]]:
        by_name = {pod["metadata"]["name"]: pod for pod in self.api_pods()}
        return {name: by_name[name] for name in self.names if name in by_name}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def api_pods(self) -> list[Any]:
        """All Pods of the namespace, the oldest first."""
        pods = self.api.list(self.api.resource("v1", "Pod"), self.cluster.namespace).items
        return sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def lines(self, name: str, tail: int | None = None) -> list[str]:
        """The lines that a rank has logged; none while there is no log."""
        where = self.pod_name(name), "pytorch", self.cluster.namespace
        with contextlib.suppress(ClusterError):
            return [*self.api.log(*where, tail=tail)]
        return []

    def last_step(self, name: str) -> Step | None:
        """The last step that a rank has completed; None if it has none in this container."""
        steps = [line for line in self.lines(name, tail=3) if line.startswith("step ")]
        return read_step(steps[-1]) if steps else None

    def until_step_of(self, began: float, seconds: float, first: str = "") -> Step:
        """Waits for a step of processes that all began after a moment."""
        end = time.monotonic() + seconds
        while True:
            for name in (first or self.names[1], *self.names):
                step = self.last_step(name)
                if step is not None and step.since > began:
                    return step
                if time.monotonic() > end:
                    raise AssertionError(f"no step within {seconds} s:\n{self.diagnosis()}")
                time.sleep(0.3)

    def until_watched(self, seconds: float) -> None:
        """Waits until the watcher has seen all Pods run."""
        eventually(lambda: epoch_of(self.cluster, "gang") is not None, seconds, self.diagnosis)

    def diagnosis(self) -> str:
        parts = [self.cluster.kubectl("get", "pods", "-o", "wide")]
        for name, pod in self.pods().items():
            parts += (name, json.dumps(pod["metadata"].get("annotations", {}), indent=1))
            parts += (json.dumps(pod["status"].get("containerStatuses"), indent=1),)
            parts += self.lines(name, tail=8)
        return "\n".join(parts)

    # What disturbs it ---------------------------------------------------------------------------

    def kill(self, name: str, what: str, after: float = 0.0) -> float | None:
        """Kills a rank, or the first process of its container, with -9 from outside its Pod.

        Args:
            what: `process` or `container`; `stop` and `loop` do not kill the process, which is
                stopped or computes for ever.
            after: So many seconds after its node has been told.

        Returns:
            When, in seconds since 1970; None if there was none to be killed.
        """
        node = self.cluster.get("pod", self.pod_name(name))["spec"]["nodeName"]
        words = (self._killer(node), "--", "python3", "-c", _KILL, self.cluster.namespace, name)
        output = self.cluster.kubectl("exec", *words, what, str(after)).split()
        return float(output[0]) if output else None

    def freeze_kubelet(self, node: str, seconds: float) -> None:
        """Has the kubelet of a node stop in 1.5 seconds, and go on after some more."""
        words = (self._killer(node), "--", "python3", "-c", _FREEZE, str(seconds))
        self.cluster.kubectl("exec", *words)

    def _killer(self, node: str) -> str:
        """A Pod that sees all processes of a node."""
        if node in self._killers:
            return self._killers[node]
        name = self._killers[node] = f"killer-{len(self._killers)}"
        container = {"name": "kill", "image": self.image, "command": ["sleep", "1000000"]}
        container |= {"securityContext": {"privileged": True}}
        spec = {"hostPID": True, "nodeName": node, "containers": [container]}
        spec |= {"terminationGracePeriodSeconds": 0}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.cluster.until(lambda phases: phases[name] == "Running")
        return name

    def prepare(self) -> None:
        """Makes what `kill` needs, so that no kill has to wait for it."""
        for pod in self.pods().values():
            self._killer(pod["spec"]["nodeName"])

    def delete(self, name: str, *words: str) -> None:
        self.cluster.kubectl("delete", "pod", name, "--wait=false", *words)

    def evict(self, name: str) -> None:
        """As `kubectl drain` does with each Pod of a node."""
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{name}/eviction"
        metadata = {"name": name, "namespace": self.cluster.namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def finish(self, after: int) -> int:
        """Tells the ranks to end so many steps from now; returns the number of the last step."""
        name = self.names[1]
        last_step = self.last_step(name)
        assert last_step is not None
        last = last_step.number + after
        script = f"echo {last} > /state/last.new && mv /state/last.new /state/last"
        self.cluster.kubectl("exec", name, "-c", "pytorch", "--", "sh", "-c", script)
        return last


def epoch_of(cluster: Cluster, job: str) -> int | None:
    """The epoch of a job that the watcher has written down; None before all of it has run."""
    config_maps = cluster.get("configmaps", f"--field-selector=metadata.name={status_name(job)}")[
        "items"
    ]
    text = config_maps[0]["data"].get("record", "{}") if config_maps else "{}"
    epoch: int | None = json.loads(text).get("epoch")
    return epoch


@contextlib.contextmanager
def forgetful(seconds: float) -> Iterator[None]:
    """Jobs are compiled so that a failure after so many seconds is the first of another row."""
    options, more = supervision.options, f"--forget={seconds:g}"  # no user needs that option
    with pytest.MonkeyPatch.context() as patch:
        for module in (job_config, annotations):
            patch.setattr(
                module, "options", lambda *role: (*words, more) if (words := options(*role)) else ()
            )
        yield


def read_step(line: str) -> Step:
    """A step, as a rank logs it: `step 7 epochs 1,1 sum 84 since 12.5 t 14.25`."""
    words = line.split()
    epochs = words[words.index("epochs") + 1].split(",")
    at, since = (float(words[words.index(name) + 1]) for name in ("t", "since"))
    return Step(int(words[1]), int(epochs[0]), since, at)
