"""The images of docker-bake.hcl as Pods of a real node: no root, nothing to write on, they work.

    docker buildx bake; ETCOMPILE_E2E_CLI_IMAGE=ghcr.io/etcompile/etcompile:dev \\
    ETCOMPILE_E2E_KRM_IMAGE=… ETCOMPILE_E2E_ARGOCD_IMAGE=… pytest -m node tests/node -s

Each must be on the node or pullable. How long the watcher is left alone to see what it takes at
rest is ETCOMPILE_E2E_REST, in seconds.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import commandline
from node.real_cluster import Cluster
from node.test_watched_on_a_real_node import Job
from specs import training_job

pytestmark = pytest.mark.node

REST = float(os.environ.get("ETCOMPILE_E2E_REST", "30"))
PYTHON = "/usr/bin/python3"
"""The one program of the images beside etcompile."""
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def etcompile(*words: str) -> str:
    return commandline.etcompile(*words, code=0).stdout


def logged(cluster: Cluster, name: str, container: dict[str, Any], **files: str) -> str:
    """What a Pod says that has these files in /jobs and may write nowhere, after it succeeded."""
    cluster.kubectl(
        "create",
        "configmap",
        name,
        *(f"--from-literal={key.replace('_', '.')}={text}" for key, text in files.items()),
    )
    spec = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "securityContext": RESTRICTED,
                "volumeMounts": [{"name": "jobs", "mountPath": "/jobs"}],
                **container,
            }
        ],
        "volumes": [{"name": "jobs", "configMap": {"name": name}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    cluster.until(lambda phases: phases[name] in ("Succeeded", "Failed"))
    assert cluster.phases()[name] == "Succeeded", cluster.log(name)
    return cluster.log(name)


def objects(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


@pytest.fixture
def spec() -> str:
    return yaml.safe_dump(training_job("bert"))


def test_the_command_line_renders_what_it_renders_elsewhere(
    cluster: Cluster, image: Callable[[str], str], spec: str, tmp_path: Path
) -> None:
    (tmp_path / "bert.yaml").write_text(spec)
    container = {"image": image("CLI"), "args": ["render", "/jobs/bert.yaml"]}
    output = logged(cluster, "render", container, bert_yaml=spec)
    assert objects(output) == objects(etcompile("render", str(tmp_path / "bert.yaml")))
    shown = {"image": image("CLI"), "args": ["render", "/examples/trainingjob/elastic-mnist"]}
    assert "kind: Pod" in logged(cluster, "example", shown)


def test_the_function_compiles_a_job_from_standard_input(
    cluster: Cluster, image: Callable[[str], str]
) -> None:
    items = [
        {**training_job("bert"), "metadata": {"name": "bert", "namespace": "nlp"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}},
    ]
    function = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "EtcompileTransformer"}
    request = {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": items,
        "functionConfig": {**function, "metadata": {"name": "etcompile"}},
    }
    # The image's own entrypoint, fed as kustomize does.
    container = {"name": "krm", "image": image("KRM"), "stdin": True, "stdinOnce": True}
    overrides = {
        "spec": {"containers": [{**container, "securityContext": RESTRICTED}]},
    }
    done = cluster.kubectl(
        *("run", "krm", "--image", image("KRM"), "--restart=Never", "-i", "--quiet"),
        f"--overrides={json.dumps(overrides)}",
        stdin=json.dumps(request),
    )
    cluster.until(lambda phases: phases["krm"] == "Succeeded")
    answer = yaml.safe_load(cluster.log("krm") or done)
    kinds = [one["kind"] for one in answer["items"]]
    assert answer["kind"] == "ResourceList"
    assert kinds.count("Pod") == 3
    assert "TrainingJob" not in kinds


def test_the_plugin_generates_as_the_sidecar_of_argo_cd(
    cluster: Cluster, image: Callable[[str], str], spec: str, tmp_path: Path
) -> None:
    patch = yaml.safe_load(etcompile("argocd", "sidecar", "--image", image("ARGOCD")))
    [sidecar] = patch["spec"]["template"]["spec"]["containers"]
    pod = {
        "image": sidecar["image"],
        "securityContext": sidecar["securityContext"],
        "workingDir": "/jobs",
        "env": [*sidecar["env"], {"name": "ARGOCD_APP_NAMESPACE", "value": "nlp"}],
    }
    read = "print(open('/home/argocd/cmp-server/config/plugin.yaml').read())"
    plugin = yaml.safe_load(logged(cluster, "plugin", {**pod, "command": [PYTHON, "-c", read]}))
    assert plugin == yaml.safe_load(etcompile("argocd", "plugin"))
    generate = {**pod, "command": plugin["spec"]["generate"]["command"]}
    rendered = objects(logged(cluster, "generate", generate, bert_yaml=spec))
    assert {one["metadata"]["namespace"] for one in rendered} == {"nlp"}
    assert [one["kind"] for one in rendered].count("Pod") == 3
    discover = {**pod, "command": plugin["spec"]["discover"]["find"]["command"]}
    assert logged(cluster, "discover", discover, bert_etjob_yaml=spec) == "./bert.etjob.yaml\n"


class Installed:
    """The watcher of a namespace, as `etcompile watch --manifests` installs it."""

    def __init__(self, cluster: Cluster, image: str) -> None:
        self.cluster = cluster
        self.manifests = etcompile(
            "watch", "--manifests", "--namespace", cluster.namespace, "--image", image
        )
        cluster.kubectl("apply", "-f", "-", stdin=self.manifests)
        cluster.kubectl("rollout", "status", "deployment/etcompile-watch", "--timeout=120s")

    def pods(self) -> list[str]:
        chosen = self.cluster.get("pods", "-l", "app.kubernetes.io/name=etcompile-watch")
        return [pod["metadata"]["name"] for pod in chosen["items"]]

    def metrics(self, pod: str) -> dict[str, float]:
        """The metrics of a watcher that have no labels."""
        ask = "import urllib.request as r; print(r.urlopen('http://localhost:8080/metrics').read().decode())"
        text = self.cluster.kubectl("exec", pod, "--", PYTHON, "-c", ask)
        return {name: float(value) for name, value in re.findall(r"(?m)^(\w+) (\S+)$", text)}

    def leader(self) -> str:
        [leading] = [pod for pod in self.pods() if self.metrics(pod)["etcompile_watch_leader"]]
        return leading


@pytest.fixture
def installed(cluster: Cluster, image: Callable[[str], str]) -> Iterator[Installed]:
    watcher = Installed(cluster, image("CLI"))
    yield watcher
    # What is not in the namespace, which is deleted as a whole.
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    cluster.kubectl("delete", kinds, "-l", "app.kubernetes.io/name=etcompile-watch", "--wait=false")


def test_the_watcher_replaces_a_worker_that_is_killed(
    cluster: Cluster, installed: Installed, mpi: str, tmp_path: Path
) -> None:
    leader = installed.leader()
    job = Job(cluster, tmp_path)
    job.apply()
    began = job.until_seen(0, 1)
    first = cluster.get("pod", "mpi-worker-1")["metadata"]["uid"]
    job.kill("mpi-worker-1")
    lost = job.until_seen(0, after=began)
    listed = job.until_seen(0, 1, after=lost)
    again = cluster.get("pod", "mpi-worker-1")["metadata"]
    created = datetime.fromisoformat(again["creationTimestamp"]).timestamp()
    assert again["uid"] != first
    print(f"\nkilled with -9: out of the list, replaced {created - lost:.0f} s after that (whole")
    print(f"seconds), and listed again {listed - lost:.1f} s after")
    print(cluster.log(leader))
    before, began_at = {pod: installed.metrics(pod) for pod in installed.pods()}, time.monotonic()
    time.sleep(REST)
    for pod, earlier in before.items():
        now, seconds = installed.metrics(pod), time.monotonic() - began_at
        used = now["process_cpu_seconds_total"] - earlier["process_cpu_seconds_total"]
        memory = now["process_resident_memory_bytes"]
        who = "the leader" if pod == leader else "the other"
        print(f"{who}: {memory / 1e6:.0f} MB, {used / seconds:.4f} CPU at rest, {seconds:.0f} s")
        assert memory < 256 * 1024 * 1024
    cluster.kubectl("exec", "mpi-launcher", "-c", "main", "--", "touch", "/tmp/trained")
