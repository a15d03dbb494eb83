"""A cluster with the real controllers and scheduler, and nodes whose kubelets kwok plays.

With Kueue, or without it. Other schedulers run in it, too, where a test starts them
(gang_schedulers.py).

Each node is a kwok of its own, so that one can die: its heartbeats end, and its Pods stay as they
are until somebody deletes them.
"""

import base64
import contextlib
import itertools
import json
import os
import subprocess
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from controlplane.fixtures import teller
from controlplane.server import ADMIN_TOKEN, ControlPlane, free_ports, start
from gobuilds import NoProgramError, built, run_go

HERE = Path(__file__).parent
FLAGS = (
    "--default-not-ready-toleration-seconds=1",
    "--default-unreachable-toleration-seconds=1",
)
"""Of the API server: Pods leave a dead node after a second instead of five minutes."""

_KINDS = {
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
    "topologies": "Topology",
    "workloadpriorityclasses": "WorkloadPriorityClass",
}

NODES = 4
"""With four CPUs each (stages.yaml)."""
RACK = "example.org/rack"
"""The label of a node's rack; two nodes are in each."""


class Stoppable(Protocol):
    """What runs until it is stopped."""

    def stop(self) -> None: ...


Running = TypeVar("Running", bound=Stoppable)


class Programs:
    """What runs in a cluster besides its API server.

    Raises:
        NoProgramError: one cannot be built, or is not among the user's.
    """

    def __init__(self, plane: ControlPlane, tell: Callable[[str], None]) -> None:
        self.scheduler = plane.binaries / "kube-scheduler"
        self.controllers = plane.binaries / "kube-controller-manager"
        for program in (self.scheduler, self.controllers):
            if not program.exists():
                raise NoProgramError(f"there is no {program}")
        self.kwok = built(HERE / "kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", tell)


class KueuePrograms(Programs):
    """The same with Kueue."""

    def __init__(self, plane: ControlPlane, tell: Callable[[str], None]) -> None:
        super().__init__(plane, tell)
        self.kueue = built(HERE / "kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue", tell)
        module = json.loads(run_go(HERE / "kueue", "mod", "download", "-json", "sigs.k8s.io/kueue"))
        self.manifests = Path(module["Dir"], "config", "components")


def kueue_programs(plane: ControlPlane, require: Callable[..., None], config: Any) -> KueuePrograms:
    """Return what is built for these tests; skip where Kueue cannot be built."""
    try:
        return KueuePrograms(plane, teller(config))
    except NoProgramError as error:
        require("kueue", present=False, why=str(error))
        raise


@contextlib.contextmanager
def on_separate_plane(
    control_plane: ControlPlane,
    folder: Path,
    flags: Sequence[str],
    start: Callable[[ControlPlane], Running],
) -> Iterator[Running]:
    """What `start` makes of an API server of its own; both are stopped afterwards."""
    plane = ControlPlane(folder, control_plane.binaries, flags=tuple(flags))
    try:
        running = start(plane)
        yield running
        running.stop()
    finally:
        plane.stop()


class Cluster:
    """A scheduler and controllers on a control plane, with nodes.

    Args:
        gates: The feature gates of both.
    """

    def __init__(
        self, plane: ControlPlane, programs: Programs, folder: Path, gates: str = ""
    ) -> None:
        self.plane = plane
        self.programs = programs
        self.folder = folder
        self.gates = gates
        self.kubeconfig = plane.kubeconfig(token=ADMIN_TOKEN)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = itertools.count(1)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()

    def namespace(self) -> str:
        name = f"queue-{next(self._numbers)}"
        self.plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        patiently(lambda: self.plane.ask("GET", account))
        return name

    # ---- nodes -----------------------------------------------------------------------------------

    def add_node(self, name: str) -> None:
        """A node, or one that comes back."""
        with contextlib.suppress(urllib.error.HTTPError):
            rack = f"rack-{int(name.rpartition('-')[2]) // 2}" if name[-1].isdigit() else "none"
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", RACK: rack}
            metadata = {"name": name, "labels": labels}
            self.plane.ask("POST", "/api/v1/nodes", {"metadata": metadata})
        self.run(
            name,
            self.programs.kwok,
            f"--kubeconfig={self.kubeconfig}",
            f"--manage-single-node={name}",
            f"--config={HERE / 'stages.yaml'}",
            "--node-lease-duration-seconds=4",
            f"--server-address=127.0.0.1:{free_ports(1)[0]}",
        )

        path = f"/api/v1/nodes/{name}"
        patiently(lambda: self.plane.ask("GET", path))
        end = time.monotonic() + 180
        while (self.plane.ask("GET", path)["spec"] or {}).get("taints"):
            assert time.monotonic() < end, f"{name} is not ready"
            time.sleep(0.1)

    def kill_node(self, name: str) -> None:
        """Ends a node's kubelet: nothing is heard of the node or of its Pods any more."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def kubectl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [self.plane.binaries / "kubectl", "--kubeconfig", self.kubeconfig, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def remove_node(self, name: str) -> None:
        self.kill_node(name)
        self.plane.ask("DELETE", f"/api/v1/nodes/{name}")

    # ---- starting --------------------------------------------------------------------------------

    def _start(self) -> None:
        flags = [f"--feature-gates={self.gates}"] if self.gates else []
        scheduler = [*self.scheduler_flags("scheduler"), *flags]
        self.run("scheduler", self.programs.scheduler, *scheduler)
        self.run(
            "controllers",
            self.programs.controllers,
            f"--kubeconfig={self.kubeconfig}",
            "--authentication-skip-lookup",
            f"--service-account-private-key-file={self.plane.folder / 'accounts.key'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            "--controllers=*,-node-ipam-controller",
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=6s",
            *flags,
        )
        for number in range(NODES):
            self.add_node(f"node-{number}")

    def scheduler_flags(self, name: str, *profiles: dict[str, Any]) -> list[str]:
        """The flags of a scheduler that is built on that of Kubernetes."""
        config = self.folder / f"{name}.yaml"
        value = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            **({"profiles": profiles} if profiles else {}),
        }
        config.write_text(yaml.safe_dump(value))
        return [f"--config={config}", f"--secure-port={free_ports(1)[0]}"]

    def run(self, name: str, *command: str | Path) -> None:
        """Starts a program that ends with the cluster."""
        environment = {**os.environ, "POD_NAMESPACE": "kueue-system"}
        self._processes[name] = start(self.folder / f"{name}.log", *command, env=environment)


class Queues(Cluster):
    """The same with Kueue."""

    programs: KueuePrograms
    kueue_gates = ""

    # ---- queues ----------------------------------------------------------------------------------

    def queue(self, cpus: int, flavor: str = "any") -> str:
        """Return a new namespace with a queue called `research` that may use so many CPUs."""
        name = self.namespace()
        quotas = {"cpu": str(cpus), "memory": "64Gi", "ephemeral-storage": "1Ti"}
        resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
        flavors = [{"name": flavor, "resources": resources}]
        groups = [{"coveredResources": [*quotas], "flavors": flavors}]
        preemption = {"withinClusterQueue": "LowerPriority"}
        selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
        spec = {"namespaceSelector": selector, "resourceGroups": groups, "preemption": preemption}
        self._create("clusterqueues", {"metadata": {"name": name}, "spec": spec})
        queue = {"metadata": {"name": "research"}, "spec": {"clusterQueue": name}}
        self._create("localqueues", queue, name)
        return name

    def drain(self, namespace: str, *, back: bool = False) -> None:
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{namespace}"
        policy = "None" if back else "HoldAndDrain"
        change = {"spec": {"stopPolicy": policy}}
        self.plane.ask("PATCH", path, change)

    def workloads(self, namespace: str) -> dict[str, dict[str, Any]]:
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
        return {item["metadata"]["name"]: item for item in self.plane.ask("GET", path)["items"]}

    def excess(self, namespace: str) -> list[str]:
        """What Kueue deleted because it was one too many: the messages' Pods."""
        path = f"/api/v1/namespaces/{namespace}/events"
        return [
            str(event["involvedObject"]["name"])
            for event in self.plane.ask("GET", path)["items"]
            if event["reason"] == "ExcessPodDeleted"
        ]

    def _create(self, plural: str, value: dict[str, Any], namespace: str = "") -> None:
        where = f"/namespaces/{namespace}" if namespace else ""
        path = f"/apis/kueue.x-k8s.io/v1beta2{where}/{plural}"
        typed = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": _KINDS[plural], **value}
        patiently(lambda: self.plane.ask("POST", path, typed))

    # ---- starting --------------------------------------------------------------------------------

    def _start(self) -> None:
        super()._start()
        self._start_kueue()
        self._create("resourceflavors", {"metadata": {"name": "any"}, "spec": {}})
        levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
        self._create("topologies", {"metadata": {"name": "racks"}, "spec": {"levels": levels}})
        racks = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "racks"}
        self._create("resourceflavors", {"metadata": {"name": "racks"}, "spec": racks})
        for name, value in (("high", 1000), ("low", 10)):
            self._create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})

    def _start_kueue(self) -> None:
        files = sorted((self.programs.manifests / "crd" / "bases").glob("*.yaml"))
        for file in files:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            self.plane.ask("POST", path, yaml.safe_load(file.read_text()))
        end = time.monotonic() + 180
        while not self._serves(len(files)):
            assert time.monotonic() < end, "the API server does not serve Kueue's kinds"
            time.sleep(0.2)
        webhook, health = free_ports(2)
        self._create_webhooks(webhook)
        certificates = self.folder / "webhook"
        certificates.mkdir()
        certificate, key = self.plane.authority.server("kueue")
        (certificates / "tls.crt").write_bytes(certificate.read_bytes())
        (certificates / "tls.key").write_bytes(key.read_bytes())
        config = self.folder / "kueue.yaml"
        value = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 500, "burst": 1000},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["pod"]},
        }
        config.write_text(yaml.safe_dump(value))
        # Kueue reads certificates for its metrics from a folder that cannot be chosen.
        place = "/etc/kueue/metrics/certs"
        copied = f'mkdir -p {place} && cp "$1"/* {place}'
        script = f'mount -t tmpfs none /etc && {copied} && shift && exec "$@"'
        self.run(
            "kueue",
            *("unshare", "--mount", "--map-root-user", "--kill-child"),
            *("sh", "-c", script, "sh", certificates),
            self.programs.kueue,
            f"--config={config}",
            f"--kubeconfig={self.kubeconfig}",
            f"--feature-gates=FailureRecoveryPolicy=true,VisibilityOnDemand=false{self.kueue_gates}",
        )

    def _serves(self, kinds: int) -> bool:
        """Whether the API server says that it serves so many kinds of Kueue."""
        groups = self.plane.ask("GET", "/apis")["groups"]
        if not any(group["name"] == "kueue.x-k8s.io" for group in groups):
            return False
        served = self.plane.ask("GET", "/apis/kueue.x-k8s.io/v1beta2")["resources"]
        return len([kind for kind in served if "/" not in kind["name"]]) >= kinds

    def _create_webhooks(self, port: int) -> None:
        """Kueue's webhooks for Pods and its own kinds, at a port of this machine."""
        trusted = self.plane.authority.file.read_bytes()
        manifests = (self.programs.manifests / "webhook" / "manifests.yaml").read_text()
        for configuration in yaml.safe_load_all(manifests):
            hooks = []
            for hook in configuration["webhooks"]:
                groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
                if not groups <= {"", "kueue.x-k8s.io"}:
                    continue
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{port}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(trusted).decode()}
                hooks.append(hook)
            configuration["webhooks"] = hooks
            kind = f"{configuration['kind'].lower()}s"
            self.plane.ask("POST", f"/apis/admissionregistration.k8s.io/v1/{kind}", configuration)


def patiently(do: Callable[[], Any], seconds: float = 60) -> None:
    """Does something that is refused until another program is ready for it."""
    end = time.monotonic() + seconds
    while True:
        try:
            do()
        except urllib.error.HTTPError as error:
            if time.monotonic() > end:
                raise AssertionError(error.read().decode()) from error
            time.sleep(0.2)
        else:
            return
