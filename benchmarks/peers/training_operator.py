"""The Training Operator 1.9.4 as the peer of the watcher: built from its source, and run as it is.

`go.mod` beside this file says what is built. Its defaults allow it 20 requests a second, with which
200 failures take it more than half a minute: it is tuned.
"""

import base64
import json
import os
import subprocess
import threading
import time
from pathlib import Path

from failing import Bench, spec

import definitions
from gobuilds import built, run_go
from specs import kubeflow_job

MODULE = Path(__file__).parent
SOURCE = "github.com/kubeflow/training-operator"
HOME = "kubeflow"
"""Its own namespace."""
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where it looks for its certificate, whatever it is told."""


class TrainingOperator(Bench):
    """The Training Operator, tuned, and PyTorchJobs of the same size."""

    title, user, writes = "training-operator", "training-operator", "rest_client_requests_total"

    def fill(self) -> None:
        """Starts it; it makes the Pods itself."""
        program = built(MODULE, self.title, f"{SOURCE}/cmd/training-operator.v1", print)
        source = Path(json.loads(run_go(MODULE, "mod", "download", "-json", SOURCE))["Dir"])
        definitions.install(self.plane, source.glob("manifests/base/crds/kubeflow.org_*.yaml"))
        ask = self.plane.ask
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
    types = {"Master": {**replica, "replicas": 1}, "Worker": {**replica, "replicas": workers}}
    return kubeflow_job("PyTorchJob", types) | {"metadata": {"name": name}}
