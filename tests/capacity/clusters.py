"""Small clusters and jobs, as objects of the Kubernetes API."""

GPU = "nvidia.com/gpu"


def node(name, *, cpu="8", memory="32Gi", gpus=0, labels=(), taints=(), pods="110", **spec):
    """A Node; a taint is `(key, effect)`."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **({GPU: str(gpus)} if gpus else {})}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **dict(labels)}},
        "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints], **spec},
        "status": {"allocatable": amounts},
    }


def pod(name, *, cpu="1", memory="1Gi", gpus=0, namespace="ml", labels=(), **spec):
    """A Pod with one container."""
    requests = {"cpu": cpu, "memory": memory, **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "train", "resources": {"requests": requests}}
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
    """A Pod of somebody else that runs."""
    name = fields.pop("name", "other")
    own = pod(name, namespace="other", nodeName=node_name, **fields)
    return {**own, "status": {"phase": "Running"}}
