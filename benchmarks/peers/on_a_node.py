"""Controllers that restart gangs on a real cluster, run as they are, outside of it.

The Training Operator 1.9.4 and JobSet 0.12.0, built from their sources with Go. Their webhooks are
not registered: what these would fill in is written out in the specs here.
"""

import base64
import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from gobuilds import built, run_go
from node.real_cluster import Cluster

PEERS = Path(__file__).parent
OPERATOR = "github.com/kubeflow/training-operator"
JOBSET = "sigs.k8s.io/jobset"
AGENT = "in-place-restart-agent"
MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where the Training Operator looks for its certificate, whatever it is told."""
INDEX = "batch.kubernetes.io/job-completion-index"
"""The label of a Pod of an indexed Job with its index."""
INIT = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command:
  - sh
  - -c
  - err=1; for i in $(seq {{.MaxTries}}); do if getent hosts {{.MasterAddr}}; then err=0 && break;
    fi; echo waiting for master; sleep 2; done; exit $err
"""
"""What its workers do before they begin, as it has it, but for the program that looks names up: the
image of the ranks has no nslookup."""
PORTS = range(18090, 18096)


def _source(module: Path, name: str) -> Path:
    return Path(json.loads(run_go(module, "mod", "download", "-json", name))["Dir"])


def _apply(cluster: Cluster, *values: dict) -> None:
    text = yaml.safe_dump_all(values)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)


@contextlib.contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "KUBECONFIG": os.environ["ETCOMPILE_E2E_KUBECONFIG"]}
    with log.open("a") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def training_operator(cluster: Cluster, folder: Path, image: str) -> Iterator[None]:
    """The Training Operator, which looks after PyTorchJobs."""
    program = built(PEERS, "training-operator", f"{OPERATOR}/cmd/training-operator.v1", print)
    definitions = _source(PEERS, OPERATOR).glob("manifests/base/crds/kubeflow.org_*.yaml")
    _apply(cluster, *(yaml.safe_load(path.read_text()) for path in sorted(definitions)))
    webhooks = "validator.training-operator.kubeflow.org"
    secret = {"name": "training-operator-webhook-cert"}
    home = Cluster("kubeflow")
    _apply(
        cluster,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home.namespace}},
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": webhooks},
        },
    )
    _apply(home, {"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    template = folder / "initContainer.yaml"
    template.write_text(INIT)
    metrics, health, webhook = PORTS[:3]
    command = [
        str(program),
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={webhook}",
        "--enable-scheme=pytorchjob",
        f"--pytorch-init-container-image={image}",
        f"--pytorch-init-container-template-file={template}",
    ]
    with _running(command, folder / "training-operator.log"):
        # Where a kubelet would put its certificate, as soon as it has made one.
        while not (data := home.get("secret", secret["name"]).get("data")):
            time.sleep(0.2)
        MOUNTED.mkdir(parents=True, exist_ok=True)
        for name, value in data.items():
            (MOUNTED / name).write_bytes(base64.b64decode(value))
        yield


@contextlib.contextmanager
def jobset(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The controller of JobSets."""
    module = PEERS / "jobset"
    program = built(module, "jobset", JOBSET, print)
    definitions = _source(module, JOBSET).glob("config/components/crd/bases/*.yaml")
    _apply(cluster, *(yaml.safe_load(path.read_text()) for path in sorted(definitions)))
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=webhooks",
    ]
    files = ["-keyout", folder / "tls.key", "-out", folder / "tls.crt"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    health, webhook = PORTS[3:5]
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "featureGates": {"InPlaceRestart": True},
    }
    file = folder / "jobset.yaml"
    file.write_text(yaml.safe_dump(config))
    with _running([str(program), "--config", str(file)], folder / "jobset.log"):
        yield


def job_set(pods: dict, size: int) -> dict:
    """A JobSet of the ranks of a gang: one indexed Job, all of it made again when a rank fails.

    Args:
        pods: The spec of a rank's Pod.
        size: How many ranks there are.
    """
    container = pods["containers"][0]
    first = "gang-rank-0-0.gang"
    rank = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    variables = [
        *container["env"],
        {"name": "RANK", **rank},
        {"name": "WORLD_SIZE", "value": str(size)},
        {"name": "MASTER_ADDR", "value": first},
        {"name": "MASTER_PORT", "value": "23456"},
    ]
    spec = {**pods, "containers": [{**container, "env": variables}], "restartPolicy": "Never"}
    job = {
        "parallelism": size,
        "completions": size,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": spec},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "gang"},
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": "gang",
                "publishNotReadyAddresses": True,
            },
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "failurePolicy": {"maxRestarts": 1000, "restartStrategy": "Recreate"},
            "replicatedJobs": [{"name": "rank", "replicas": 1, "template": {"spec": job}}],
        },
    }


def job_set_in_place(pods: dict, size: int) -> dict:
    """The same, whose ranks are run by JobSet's agents, which end when one of them has failed.

    The agent is mounted from the machine, which holds the node.

    Args:
        pods: The spec of a rank's Pod.
        size: How many ranks there are.
    """
    program = built(PEERS / "jobset", AGENT, f"{JOBSET}/cmd/{AGENT}", print)
    jobset = job_set(pods, size)
    jobset["spec"]["failurePolicy"]["restartStrategy"] = "InPlaceRestart"
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    job |= {"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
    spec = job["template"]["spec"]
    (container,) = spec["containers"]
    pod_name = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container["env"] += [
        {"name": "WORKER_COMMAND", "value": f"exec {shlex.join(container['command'])}"},
        {"name": "SHELL", "value": "/bin/sh"},
        {"name": "JOBSET_NAME", "value": jobset["metadata"]["name"]},
        {"name": "POD_NAME", **pod_name},
    ]
    container["command"] = [f"/agent/{AGENT}"]
    container["volumeMounts"] = [
        *container["volumeMounts"],
        {"name": "agent", "mountPath": "/agent", "readOnly": True},
    ]
    folder = {"name": "agent", "hostPath": {"path": str(program.parent)}}
    spec |= {"volumes": [*spec["volumes"], folder], "restartPolicy": "OnFailure"}
    return jobset


def allow_agents(cluster: Cluster) -> None:
    """Lets the Pods of a namespace read JobSets, and write their own attempt down."""
    group = "rbac.authorization.k8s.io"
    rules = [
        {
            "apiGroups": ["jobset.x-k8s.io"],
            "resources": ["jobsets"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]},
    ]
    _apply(
        cluster,
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": AGENT},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": AGENT},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": AGENT},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        },
    )
