"""Small clusters and jobs, as objects of the Kubernetes API."""

from etcompile.capacity import snapshot

GPU = "nvidia.com/gpu"


def node(name, *, cpu="8", memory="32Gi", gpus=0, labels=(), taints=(), pods="110", **spec):
    """A Node; a taint is `(key, effect)`."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "500Gi"}
    amounts |= {GPU: str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **dict(labels)}},
        "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints], **spec},
        "status": {"allocatable": amounts},
    }


def pod(name, *, cpu="1", memory="1Gi", gpus=0, namespace="ml", labels=(), **spec):
    devices = {GPU: str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": cpu, "memory": memory, **devices}, "limits": devices}
    container = {"name": "main", "image": "train", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"containers": [container], **spec},
    }


def workers(count, name="worker", **fields):
    """Equal Pods with the labels `job: mnist` and `etcompile.dev/role`."""
    labels = {"job": "mnist", "etcompile.dev/role": name, **fields.pop("labels", {})}
    return [pod(f"{name}-{index}", labels=labels, **fields) for index in range(count)]


def running(node_name, **fields):
    name = fields.pop("name", "other")
    declared = pod(name, namespace="other", nodeName=node_name, **fields)
    return {**declared, "status": {"phase": "Running"}}


def gpu_cluster():
    """Three nodes with four GPUs each, of which ten are used, and two nodes without."""
    nodes = [node(f"gpu-{i}", cpu="64", memory="512Gi", gpus=4) for i in range(3)]
    nodes += [node(f"cpu-{i}", cpu="32", memory="128Gi") for i in range(2)]
    others = [
        running("gpu-0", gpus=4, cpu="32", memory="128Gi"),
        running("gpu-1", gpus=4, cpu="32", memory="128Gi"),
        running("gpu-2", gpus=2, cpu="16", memory="64Gi"),
    ]
    return snapshot.of_objects(nodes, others, time="2026-11-26T08:00:00Z")
