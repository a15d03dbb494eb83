"""What the Training Operator creates for a job: a model of reference/training-operator*.md.

It is written from the reference alone, shares no code with etcompile, and must reproduce the
recordings exactly. It then stands in for the operator where there is no recording. MPIJob, which
has a builder of its own, and gang schedulers are not in it.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import upstream
from defaults import defaulted

LABELS = "training.kubeflow.org"
KINDS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow", "tfjob-port", 2222, "Never"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", "pytorchjob-port", 23456, "OnFailure"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost", "xgboostjob-port", 9999, "Never"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle", "master", 36543, "OnFailure"),
    "JAXJob": ("jaxReplicaSpecs", "jax", "jaxjob-port", 6666, "Never"),
    "MXJob": ("mxReplicaSpecs", "mxnet", "mxjob-port", 9091, "Never"),
}
"""training-operator.md 1.1: the map's key, container, port name and number, restartPolicy."""

CASED = {
    "TFJob": ("PS", "Worker", "Chief", "Master", "Evaluator"),
    "MXJob": ("Scheduler", "Server", "Worker"),
}
"""training-operator.md 1.3, item 2: types whose casing is mended before anybody objects."""

TEXT = Path(__file__).with_name("training_operator.yaml").read_text("utf-8")
Types = Mapping[str, Any]


def types_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job's types with the operator's defaults (training-operator.md 1.3)."""
    key, name, port, number, restart = KINDS[job["kind"]]
    types = {}
    for written, described in job["spec"][key].items():
        cased = CASED.get(job["kind"], ())
        canonical = next((one for one in cased if one.lower() == written.lower()), written)
        types[canonical] = replica = copy.deepcopy(described)
        replica.setdefault("replicas", 1)
        replica["restartPolicy"] = replica.get("restartPolicy") or restart
        main = _main(replica, name)
        if all(one.get("name") != port for one in main.get("ports", ())):
            main.setdefault("ports", []).append({"name": port, "containerPort": number})
    return types


def replicas(job: Mapping[str, Any]) -> dict[str, int]:
    return {name.lower(): one["replicas"] for name, one in types_of(job).items()}


def restart_policies(job: Mapping[str, Any]) -> dict[str, str]:
    return {name.lower(): one["restartPolicy"] for name, one in types_of(job).items()}


def deciding(job: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Whose success is the job's, and whether all of them are needed (section 2 of each kind)."""
    types, kind = types_of(job), job["kind"]
    first = {"TFJob": ("Chief", "Master"), "MXJob": ("Scheduler",)}.get(kind, ("Master",))
    if chiefs := tuple(name.lower() for name in first if name in types):
        return chiefs, "all"
    if kind == "TFJob" and not job["spec"].get("successPolicy"):
        return ("worker",), "first"
    if kind == "PyTorchJob" and "elasticPolicy" in job["spec"]:
        return ("worker",), "any"
    # MXJob: a single worker; the tuners of a tuning job the operator never asks (defect 46).
    return ("tuner" if "Tuner" in types else "worker",), "all"


def children(job: Mapping[str, Any], namespace: str) -> list[Any]:
    """The objects of a job as the API server stores them, owner references aside."""
    types, objects = types_of(job), []
    for name, replica in types.items():
        for index in range(replica["replicas"]):
            objects.append(_pod(job, types, namespace, name, index))
            objects.append(_service(job, replica, name, index))
    elastic = job["spec"].get("elasticPolicy") or {}
    if job["kind"] == "PyTorchJob" and elastic.get("metrics"):
        objects.append(_autoscaler(job, types))
    for value in objects:
        value["metadata"]["namespace"] = namespace
    return [defaulted(value) for value in objects]


def _labels(job: Mapping[str, Any], name: str, index: int) -> dict[str, str]:
    return {
        f"{LABELS}/operator-name": f"{job['kind'].lower()}-controller",
        f"{LABELS}/job-name": job["metadata"]["name"],
        f"{LABELS}/replica-type": name.lower(),
        f"{LABELS}/replica-index": str(index),
    }


def _host(job: Mapping[str, Any], name: str, index: int) -> str:
    return f"{job['metadata']['name']}-{name.lower()}-{index}"


def _main(replica: Mapping[str, Any], name: str) -> dict[str, Any]:
    main: dict[str, Any]
    [main] = [one for one in replica["template"]["spec"]["containers"] if one["name"] == name]
    return main


def _port(job: Mapping[str, Any], replica: Mapping[str, Any]) -> int:
    _, name, port, _, _ = KINDS[job["kind"]]
    [number] = [
        one["containerPort"] for one in _main(replica, name)["ports"] if one.get("name") == port
    ]
    return int(number)


def _is_master(kind: str, types: Types, name: str, index: int) -> bool:
    if kind == "MXJob":
        return name == "Server"
    if kind == "JAXJob":
        return index == 0
    chiefs = ("Chief", "Master") if kind == "TFJob" else ("Master",)
    if any(chief in types for chief in chiefs):
        return name in chiefs
    return kind in ("TFJob", "PyTorchJob") and name == "Worker" and index == 0


def _pod(
    job: Mapping[str, Any], types: Types, namespace: str, name: str, index: int
) -> dict[str, Any]:
    """A replica's Pod (training-operator.md 2)."""
    kind, replica = job["kind"], types[name]
    template = copy.deepcopy(replica["template"])
    spec, metadata = template["spec"], template.get("metadata", {})
    labels = {**metadata.get("labels", {}), **_labels(job, name, index)}
    if _is_master(kind, types, name, index):
        labels[f"{LABELS}/job-role"] = "master"
    meta = {"name": _host(job, name, index), "labels": labels}
    meta |= {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    if kind == "TFJob":
        env = _tensorflow(job, types, namespace, name, index)
    else:
        env = list(VARIABLES[kind](job, types, name, index))
    for container in spec["containers"]:
        if env and (kind != "TFJob" or container["name"] == "tensorflow"):
            container.setdefault("env", []).extend(copy.deepcopy(env))
    if kind == "PyTorchJob" and name == "Worker" and "Master" in types:
        waits = upstream.filled(TEXT, {"master": _host(job, "Master", 0)})["init container"]
        spec.setdefault("initContainers", []).append(waits)
    policy = replica["restartPolicy"]
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _service(
    job: Mapping[str, Any], replica: Mapping[str, Any], name: str, index: int
) -> dict[str, Any]:
    """A replica's Service (training-operator.md 3): one port a name, the protocol lost."""
    container = KINDS[job["kind"]][1]
    ports = {p.get("name", ""): p["containerPort"] for p in _main(replica, container)["ports"]}
    listed = [{**({"name": n} if n else {}), "port": ports[n]} for n in sorted(ports)]
    labels = _labels(job, name, index)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _host(job, name, index), "labels": dict(labels)},
        "spec": {"clusterIP": "None", "selector": labels, "ports": listed},
    }


def _autoscaler(job: Mapping[str, Any], types: Types) -> dict[str, Any]:
    low, high = _range(job, types)
    value: dict[str, Any] = upstream.filled(TEXT, {"job": job["metadata"]["name"]})["autoscaler"]
    metrics = job["spec"]["elasticPolicy"]["metrics"]
    value["spec"] |= {"minReplicas": low, "maxReplicas": high, "metrics": metrics}
    return value


# Variables, section 1 of each kind ----------------------------------------------------------------


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _total(types: Types) -> int:
    return sum(one["replicas"] for one in types.values())


def _tensorflow(
    job: Mapping[str, Any], types: Types, namespace: str, name: str, index: int
) -> list[Any]:
    def hosts(one: str) -> list[str]:
        return [
            f"{_host(job, one, i)}.{namespace}.svc:{_port(job, types[one])}"
            for i in range(types[one]["replicas"])
        ]

    if _total(types) == 1:
        return []
    cluster: dict[str, Any]
    more = {}
    if not job["spec"].get("enableDynamicWorker"):
        cluster = {one.lower(): hosts(one) for one in sorted(types, key=str.lower)}
        more = {"environment": "cloud"}
    elif name == "Worker":
        servers = hosts("PS") if "PS" in types else None
        cluster = {"worker": {str(index): hosts(name)[index]}, "ps": servers}
    else:
        cluster = {"worker": {}, "ps": [hosts("PS")[index]] if name == "PS" else []}
    task = {"type": name.lower(), "index": index}
    return [_env("TF_CONFIG", _json({"cluster": cluster, "task": task, **more}))]


def _range(job: Mapping[str, Any], types: Types) -> tuple[int, int]:
    elastic = job["spec"]["elasticPolicy"]
    low, high = elastic.get("minReplicas"), elastic.get("maxReplicas")
    if low is None and high is None:
        low = high = types["Worker"]["replicas"]
    return (high if low is None else low), (low if high is None else high)


def _pytorch(job: Mapping[str, Any], types: Types, name: str, index: int) -> Iterator[Any]:
    spec = job["spec"]
    elastic = spec.get("elasticPolicy")
    processes = spec.get("nprocPerNode", "auto")
    yield _env("PYTHONUNBUFFERED", 1)
    if "Master" in types:
        port, host = _port(job, types["Master"]), _host(job, "Master", 0)
        rank = index if name == "Master" else index + 1
        each = int(processes) if processes.isdecimal() else 1
        yield from (_env(one, port) for one in ("MASTER_PORT", "PET_MASTER_PORT"))
        yield from (_env(one, host) for one in ("MASTER_ADDR", "PET_MASTER_ADDR"))
        yield _env("WORLD_SIZE", _total(types) * each)
        yield from (_env(one, rank) for one in ("RANK", "PET_NODE_RANK"))
    if elastic is None or "nProcPerNode" not in elastic:
        yield _env("PET_NPROC_PER_NODE", processes)
    if elastic is None:
        yield _env("PET_NNODES", _total(types))
        return
    host = elastic.get("rdzvHost") or _host(job, "Worker", 0)
    port = elastic.get("rdzvPort") or _port(job, types["Worker"])
    yield _env("PET_RDZV_ENDPOINT", f"{host}:{port}")
    yield _env("PET_RDZV_BACKEND", elastic.get("rdzvBackend", "c10d"))
    yield _env("PET_NNODES", ":".join(map(str, _range(job, types))))
    if "maxRestarts" in elastic:
        yield _env("PET_MAX_RESTARTS", elastic["maxRestarts"])
    if "nProcPerNode" in elastic:
        yield _env("PET_NPROC_PER_NODE", elastic["nProcPerNode"])
    if "rdzvId" in elastic:
        yield _env("PET_RDZV_ID", elastic["rdzvId"])
    if "rdzvConf" in elastic:
        pairs = (f"{pair['key']}={pair['value']}" for pair in elastic["rdzvConf"])
        yield _env("PET_RDZV_CONF", ",".join(pairs))
    if elastic.get("standalone"):
        yield {"name": "PET_STANDALONE"}


def _xgboost(job: Mapping[str, Any], types: Types, name: str, index: int) -> Iterator[Any]:
    yield _env("MASTER_PORT", _port(job, types["Master"]))
    yield _env("MASTER_ADDR", _host(job, "Master", 0))
    yield _env("WORLD_SIZE", _total(types))
    yield _env("RANK", index if name == "Master" else index + types["Master"]["replicas"])
    yield _env("PYTHONUNBUFFERED", 1)
    if _total(types) > 1:
        hosts = (_host(job, "Worker", one) for one in range(_total(types) - 1))
        yield _env("WORKER_PORT", _port(job, types["Worker"]))
        yield _env("WORKER_ADDRS", ",".join(hosts))


def _paddle(job: Mapping[str, Any], types: Types, name: str, index: int) -> Iterator[Any]:
    first = "Master" if "Master" in types else "Worker"
    host = _host(job, first, 0)
    yield _env("PYTHONUNBUFFERED", 1)
    yield _env("PADDLE_JOB_ID", job["metadata"]["name"])
    yield _env("PADDLE_NNODES", _total(types))
    if name == first and index == 0:
        address = {"fieldRef": {"fieldPath": "status.podIP"}}
        yield {"name": "POD_IP_DUMMY", "valueFrom": address}
        host = "$(POD_IP_DUMMY)"
    yield _env("PADDLE_MASTER", f"{host}:{_port(job, types[first])}")
    if first == "Master":
        yield _env({"Master": "PADDLE_SERVER_NUM", "Worker": "PADDLE_TRAINER_NUM"}[name], 1)


def _jax(job: Mapping[str, Any], types: Types, name: str, index: int) -> Iterator[Any]:
    yield _env("PYTHONUNBUFFERED", 1)
    yield _env("COORDINATOR_PORT", _port(job, types[name]))
    yield _env("COORDINATOR_ADDRESS", _host(job, name, 0))
    yield _env("NUM_PROCESSES", _total(types))
    yield _env("PROCESS_ID", index)


def _mxnet(job: Mapping[str, Any], types: Types, name: str, index: int) -> Iterator[Any]:
    ordered = sorted(types, key=str.lower)
    cluster = {
        one.lower(): [
            {"url": _host(job, one, i), "port": _port(job, types[one])}
            for i in range(types[one]["replicas"])
        ]
        for one in ordered
    }
    notes = {
        one: types[one]["template"].get("metadata", {}).get("annotations", {}) for one in types
    }
    labels = {one.lower(): notes[one].get("tuner-server-key", "") for one in ordered}
    task = {"type": name.lower(), "index": index}
    yield _env("MX_CONFIG", _json({"cluster": cluster, "labels": labels, "task": task}))
    root = types.get("Scheduler")
    yield _env("DMLC_PS_ROOT_PORT", _port(job, root) if root else 0)
    yield _env("DMLC_PS_ROOT_URI", _host(job, "Scheduler", 0) if root else "")
    for one in ("Server", "Worker"):
        yield _env(f"DMLC_NUM_{one.upper()}", types.get(one, {}).get("replicas", 0))
    yield _env("DMLC_ROLE", name.lower())
    yield _env("DMLC_USE_KUBERNETES", 1)
    if name == "Worker":
        yield _env("DMLC_WORKER_ID", index)


def _env(name: str, value: object) -> dict[str, str]:
    return {"name": name, "value": str(value)}


VARIABLES = {
    "PyTorchJob": _pytorch,
    "XGBoostJob": _xgboost,
    "PaddleJob": _paddle,
    "JAXJob": _jax,
    "MXJob": _mxnet,
}
