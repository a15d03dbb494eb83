"""What et-operator creates for a TrainingJob: a model of reference/et-operator.md 2.1 to 2.7.

It is written from the reference alone, shares no code with etcompile, and must reproduce the
recordings exactly. It then stands in for the operator where there is no recording.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

from defaults import defaulted

TEXT = Path(__file__).with_name("upstream.yaml").read_text("utf-8")


def children(job: dict[str, Any], namespace: str, init_image: str = "alpine:3.10") -> list[Any]:
    """The objects of a job as the API server stores them, owner references and Secret aside."""
    name, spec = job["metadata"]["name"], job["spec"]
    worker = spec["etReplicaSpecs"]["worker"]
    main = worker["template"]["spec"]["containers"][0]
    annotations = job["metadata"].get("annotations", {})
    facts = {
        "job": name,
        "namespace": namespace,
        "init-image": init_image,
        "container": main["name"],
        "secret": annotations.get("arena.kubeflow.org/ssh-secret") or name,
    }
    limit = main.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 1)
    slots = spec.get("slotsPerWorker", limit)
    hosts = [f"{name}-worker-{index}" for index in range(worker["replicas"])]
    additions = filled(TEXT, facts)
    objects = [*additions["objects"], _launcher(job, additions)]
    for index, host in enumerate(hosts):
        of_host = filled(TEXT, {**facts, "host": host, "index": str(index)})
        objects += [of_host["service"], _worker(job, host, of_host)]
    [config] = [value for value in objects if value["kind"] == "ConfigMap"]
    config["data"] |= {
        "hostfile": "".join(f"{host}:{slots}\n" for host in hosts),
        "deepspeed-hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
    }
    for value in objects:
        value["metadata"]["namespace"] = namespace
    return [defaulted(value) for value in objects]


def filled(text: str, facts: dict[str, str]) -> Any:
    """A text of YAML with its names in angle brackets filled in."""
    for name, fact in facts.items():
        text = text.replace(f"<{name}>", fact)
    return yaml.safe_load(text)


def _worker(job: dict[str, Any], host: str, additions: Any) -> dict[str, Any]:
    value = _pod(job, "worker", host, additions)
    main = value["spec"]["containers"][0]
    if not main.get("command"):
        script = "/usr/sbin/sshd  && sleep 365d" if _mode(job) == "ssh" else "sleep 365d"
        main["command"] = ["sh", "-c", script]
    return _with_keys(job, value, additions)


def _launcher(job: dict[str, Any], additions: Any) -> dict[str, Any]:
    name = f"{job['metadata']['name']}-launcher"
    value = _pod(job, "launcher", name, additions)
    value["spec"]["serviceAccountName"] = name
    extend(value["spec"], additions["launcher"])
    main = value["spec"]["containers"][0]
    extend(main, additions["main"])
    if _mode(job) == "kubexec":
        extend(main, additions["kubexec"])
    return _with_keys(job, value, additions)


def _pod(job: dict[str, Any], role: str, name: str, additions: Any) -> dict[str, Any]:
    template = job["spec"]["etReplicaSpecs"][role]["template"]
    value = pod(template, name, additions["labels"][role])
    value["spec"]["restartPolicy"] = "Never"
    return value


def pod(template: dict[str, Any], name: str, labels: dict[str, str]) -> dict[str, Any]:
    """The Pod of a template, with labels of its operator."""
    template = copy.deepcopy(template)
    metadata = template.get("metadata", {})
    meta: dict[str, Any] = {"name": name, "labels": {**metadata.get("labels", {}), **labels}}
    if metadata.get("annotations"):
        meta["annotations"] = metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def _mode(job: dict[str, Any]) -> str:
    mode: str = job["spec"].get("launcherAttachMode", "ssh")
    return mode


def _with_keys(job: dict[str, Any], pod: dict[str, Any], additions: Any) -> dict[str, Any]:
    if _mode(job) == "ssh":
        extend(pod["spec"], additions["keys"])
        for container in pod["spec"]["containers"]:
            extend(container, additions["mounts"])
    return pod


def extend(value: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    """Puts entries behind those of the lists of a value."""
    for key, entries in lists.items():
        value[key] = [*value.get(key, ()), *copy.deepcopy(entries)]
