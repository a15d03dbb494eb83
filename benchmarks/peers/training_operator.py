"""The Training Operator 1.9.4 as the peer of the watcher: built from its source, and run as it is.

`go.mod` beside this file says what is built; the cache folder carries a digest of it. Its defaults
allow it 20 requests a second, with which 200 failures take it more than half a minute: it is tuned.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import yaml
from failing import Bench, spec

from controlplane.binaries import go

MODULE = Path(__file__).parent
SOURCE = "github.com/kubeflow/training-operator"
HOME = "kubeflow"
"""Its own namespace."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where it looks for its certificate, whatever it is told."""


class TrainingOperator(Bench):
    """The Training Operator, tuned, and PyTorchJobs of the same size."""

    title, user, writes = "training-operator", "training-operator", "rest_client_requests_total"

    def fill(self) -> None:
        """Starts it; it makes the Pods itself."""
        program = built()
        ask = self.plane.ask
        for file in sorted((program.parent / "crds").glob("kubeflow.org_*.yaml")):
            ask("POST", CRDS, yaml.safe_load(file.read_text()))
        ask("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
        # It wants to keep its webhook's certificate here; none is registered, for want of a need.
        secret = {"metadata": {"name": "training-operator-webhook-cert"}}
        ask("POST", f"/api/v1/namespaces/{HOME}/secrets", secret)
        ask("POST", WEBHOOKS, {"metadata": {"name": "validator.training-operator.kubeflow.org"}})
        kubeconfig = self.plane.kubeconfig(user=self.user, namespace=self.namespace)
        ports = [18080 + os.getpid() % 1000 + step for step in (0, 1000, 2000)]
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.process = subprocess.Popen(
            [
                program,
                f"--kubeconfig={kubeconfig}",
                f"--metrics-bind-address=127.0.0.1:{ports[0]}",
                f"--health-probe-bind-address=127.0.0.1:{ports[1]}",
                f"--webhook-server-port={ports[2]}",
                "--enable-scheme=pytorchjob",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--controller-threads=4",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._mount()

    def _mount(self) -> None:
        """Puts its certificate where a kubelet would, as soon as it has made one."""
        path = f"/api/v1/namespaces/{HOME}/secrets/training-operator-webhook-cert"
        while not (data := self.plane.ask("GET", path).get("data")):
            time.sleep(0.2)
        MOUNTED.mkdir(parents=True, exist_ok=True)
        for name, value in data.items():
            (MOUNTED / name).write_bytes(base64.b64decode(value))

    def watch(self) -> None:
        """Gives it the jobs, and waits until all Pods run."""
        threading.Thread(target=self.kubelets.follow, daemon=True).start()
        begun = time.monotonic()
        for number in range(self.jobs):
            self.cluster.create(pytorch_job(f"job-{number}", self.workers))
        pods = self.cluster.resource("v1", "Pod")
        while True:
            listed = self.cluster.list(pods, self.namespace).items
            running = sum(pod["status"].get("phase") == "Running" for pod in listed)
            if running == self.jobs * (self.workers + 1):
                break
            time.sleep(2)
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)
        self.quiet(20)


def pytorch_job(name: str, workers: int) -> dict:
    """A PyTorchJob with a master and workers like those of `spec`."""
    template = spec(name, workers)["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["containers"][0]["name"] = "pytorch"
    replica = {"restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {**replica, "replicas": 1},
                "Worker": {**replica, "replicas": workers},
            }
        },
    }


def built() -> Path:
    """Its program; the folder `crds` beside it has its definitions."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    sums = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    folder = Path(base, "etcompile", "peers", hashlib.sha256(sums).hexdigest()[:8])
    program = folder / "training-operator"
    if program.exists():
        return program
    print(f"building the Training Operator into {folder}: minutes, but only once", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "partial"
    _go("build", "-o", str(partial), f"{SOURCE}/cmd/training-operator.v1")
    source = _go("list", "-m", "-f", "{{.Dir}}", SOURCE)
    shutil.copytree(Path(source, "manifests/base/crds"), folder / "crds", dirs_exist_ok=True)
    return partial.rename(program)


def _go(*arguments: str) -> str:
    done = subprocess.run(
        [go(), *arguments], cwd=MODULE, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()
