"""What et-operator creates for a TrainingJob: a model of reference/et-operator.md 2.1 to 2.7.

It is written from the reference alone, shares no code with etcompile, and must reproduce the
recordings exactly. It then stands in for the operator where there is no recording.
"""

import copy
from typing import Any

from defaults import defaulted

GROUP = "kai.alibabacloud.com"
INIT_HOSTFILE = " && ".join(
    [
        "cp /etc/mpi/hostfile /etc/edl/hostfile",
        "chmod 600 /etc/edl/hostfile",
        "cp /etc/mpi/discover_hosts.sh /etc/edl/discover_hosts.sh",
        "chmod +x /etc/edl/discover_hosts.sh",
        "cp /etc/mpi/deepspeed-hostfile /job/hostfile",
        "chmod 600 /job/hostfile",
    ]
)


def children(job: dict[str, Any], namespace: str, init_image: str = "alpine:3.10") -> list[Any]:
    """The objects of a job as the API server stores them, owner references and Secret aside."""
    name, spec = job["metadata"]["name"], job["spec"]
    roles = spec["etReplicaSpecs"]
    hosts = [f"{name}-worker-{index}" for index in range(roles["worker"]["replicas"])]
    objects = [_service(name, host, index) for index, host in enumerate(hosts)]
    objects += [_worker(job, host, index) for index, host in enumerate(hosts)]
    objects += [_launcher(job, init_image), _config(job, hosts), *_rbac(name, namespace)]
    for value in objects:
        value["metadata"]["namespace"] = namespace
    return [defaulted(value) for value in objects]


def _labels(name: str, role: str, index: int | None = None) -> dict[str, str]:
    labels = {"group-name": GROUP, "training-job-name": name, "training-job-role": role}
    return labels if index is None else {**labels, "replica-index": str(index)}


def _metadata(template: dict[str, Any], name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = template.get("metadata", {})
    meta: dict[str, Any] = {"name": name, "labels": {**metadata.get("labels", {}), **labels}}
    if metadata.get("annotations"):
        meta["annotations"] = metadata["annotations"]
    return meta


def _mode(job: dict[str, Any]) -> str:
    mode: str = job["spec"].get("launcherAttachMode", "ssh")
    return mode


def _worker(job: dict[str, Any], host: str, index: int) -> dict[str, Any]:
    template = copy.deepcopy(job["spec"]["etReplicaSpecs"]["worker"]["template"])
    spec = template["spec"]
    spec["restartPolicy"] = "Never"
    ssh = _mode(job) == "ssh"
    if not spec["containers"][0].get("command"):
        script = "/usr/sbin/sshd  && sleep 365d" if ssh else "sleep 365d"
        spec["containers"][0]["command"] = ["sh", "-c", script]
    if ssh:
        _mount_keys(job, spec)
    labels = _labels(job["metadata"]["name"], "worker", index)
    return _object("Pod", _metadata(template, host, labels), spec=spec)


def _launcher(job: dict[str, Any], init_image: str) -> dict[str, Any]:
    name = job["metadata"]["name"]
    template = copy.deepcopy(job["spec"]["etReplicaSpecs"]["launcher"]["template"])
    spec = template["spec"]
    hostfile = {"name": "training-job-hostfile", "mountPath": "/etc/edl"}
    config = {"name": "training-job-config", "mountPath": "/etc/mpi"}
    kubectl = {"name": "training-job-kubectl", "mountPath": "/opt/kube"}
    deepspeed = {"name": "deepspeed-hostfile", "mountPath": "/job"}
    resources = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    spec.setdefault("initContainers", []).append(
        {
            "name": "init-hostfile",
            "image": init_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", INIT_HOSTFILE],
            "resources": {"limits": resources, "requests": dict(resources)},
            "volumeMounts": [hostfile, deepspeed, config],
        }
    )
    main = spec["containers"][0]
    main.setdefault("volumeMounts", []).extend([hostfile, config, kubectl, deepspeed])
    if _mode(job) == "kubexec":
        agent = {"name": "OMPI_MCA_plm_rsh_agent", "value": "/etc/mpi/kubexec.sh"}
        main.setdefault("env", []).append(agent)
    spec["serviceAccountName"] = f"{name}-launcher"
    spec["restartPolicy"] = "Never"
    modes = {
        "hostfile": 0o444,
        "discover_hosts.sh": 0o444,
        "kubexec.sh": 0o555,
        "deepspeed-hostfile": 0o444,
    }
    items = [{"key": key, "path": key, "mode": mode} for key, mode in modes.items()]
    spec.setdefault("volumes", []).extend(
        [
            {"name": hostfile["name"], "emptyDir": {}},
            {"name": deepspeed["name"], "emptyDir": {}},
            {"name": kubectl["name"], "emptyDir": {}},
            {"name": config["name"], "configMap": {"name": f"{name}-config", "items": items}},
        ]
    )
    if _mode(job) == "ssh":
        _mount_keys(job, spec)
    meta = _metadata(template, f"{name}-launcher", _labels(name, "launcher"))
    return _object("Pod", meta, spec=spec)


def _mount_keys(job: dict[str, Any], spec: dict[str, Any]) -> None:
    annotations = job["metadata"].get("annotations", {})
    secret = annotations.get("arena.kubeflow.org/ssh-secret") or job["metadata"]["name"]
    keys = {"id_rsa": "id_rsa", "id_rsa.pub": "id_rsa.pub"}
    files = [*keys.items(), ("id_rsa.pub", "authorized_keys"), ("config", "config")]
    items = [{"key": key, "path": f".ssh/{file}"} for key, file in files]
    volume = {"secretName": secret, "defaultMode": 0o600, "items": items}
    spec.setdefault("volumes", []).append({"name": secret, "secret": volume})
    mount = {"name": secret, "mountPath": "/root/.ssh", "subPath": ".ssh"}
    for container in spec["containers"]:
        container.setdefault("volumeMounts", []).append(mount)


def _service(name: str, host: str, index: int) -> dict[str, Any]:
    labels = _labels(name, "worker", index)
    ports = [{"name": "ssh-port", "port": 22}, {"name": "kubeai-service-port", "port": 9009}]
    spec = {"clusterIP": "None", "selector": labels, "ports": ports}
    return _object("Service", {"name": host, "labels": dict(labels)}, spec=spec)


def _config(job: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    name, spec = job["metadata"]["name"], job["spec"]
    worker = spec["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    limit = worker.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 1)
    slots = spec.get("slotsPerWorker", limit)
    data = {
        "hostfile": "".join(f"{host}:{slots}\n" for host in hosts),
        "deepspeed-hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        "discover_hosts.sh": "#!/bin/bash\nwhile read line\ndo\necho $line\n"
        "done < /etc/edl/hostfile\n",
        "kubexec.sh": "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n/opt/kube/kubectl exec ${POD_NAME}"
        f' --container {worker["name"]} -- /bin/sh -c "$*"',
    }
    return _object("ConfigMap", {"name": f"{name}-config", "labels": {"app": name}}, data=data)


def _rbac(name: str, namespace: str) -> list[dict[str, Any]]:
    launcher = f"{name}-launcher"

    def meta() -> dict[str, Any]:
        return {"name": launcher, "labels": {"app": name}}

    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmap"],
            "resourceNames": [f"{name}-config"],
            "verbs": ["get"],
        },
    ]
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": launcher, "namespace": namespace}
    role = {"apiGroup": group, "kind": "Role", "name": launcher}
    return [
        _object("ServiceAccount", meta()),
        _object("Role", meta(), version=f"{group}/v1", rules=rules),
        _object("RoleBinding", meta(), version=f"{group}/v1", subjects=[subject], roleRef=role),
    ]


def _object(kind: str, meta: dict[str, Any], version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}
