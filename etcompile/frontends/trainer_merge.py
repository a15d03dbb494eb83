"""A TrainJob and its runtime to one document: what Trainer sends to JobSet, and who wrote what.

reference/trainer-v2.md 4 and 5. The result is the TrainJob with the runtime under `runtime`, into
whose Pod template everything is merged that the job changes. So the Pod template that is held
against Kubernetes' rules is the one that Pods are made of, and the job that is stored with its
objects needs no runtime any more. Each value still has the place where somebody wrote it.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Location, Source, ValuePath
from etcompile.model import Origin
from etcompile.model.quantity import number

RUNTIME = "runtime"
"""The field of a merged document that holds its runtime."""
JOB_SET: ValuePath = (RUNTIME, "spec", "template", "spec")
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a Job template that says what the Job does in the training."""
MAIN = "node"
"""The container that trains."""
INDEX = "batch.kubernetes.io/job-completion-index"
PORT = 29500
RESERVED: Mapping[str, tuple[str, ...]] = {
    "torch": (
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}
"""Variables that a policy sets and a TrainJob must not (reference 5.1, 5.4)."""

_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


class Merged(Struct, frozen=True):
    """A TrainJob with its runtime.

    Args:
        data: The document, JSON.
        places: Where its parts were written, by their path in it; a value below one of these
            paths stands below that origin.
    """

    data: dict[str, Any]
    places: Mapping[ValuePath, Origin]

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value, in the file of the job or of the runtime."""
        for length in range(len(path), -1, -1):
            if origin := self.places.get(path[:length]):
                return origin.locate(*path[length:], key=key)
        return Location("")


def merged(job: Source, runtime: Source) -> Merged:
    """A TrainJob with its runtime, into which everything is merged that the job changes.

    Args:
        job: The TrainJob, valid by its schema.
        runtime: The runtime that it names, valid by its schema, with one Job that is the trainer.
    """
    spec = copy.deepcopy(runtime.data["spec"])
    [trained] = spec["template"]["spec"]["replicatedJobs"]
    head = {"apiVersion": runtime.data["apiVersion"], "kind": runtime.data["kind"]}
    named = {**head, "metadata": {"name": runtime.data["metadata"]["name"]}, "spec": spec}
    places: dict[ValuePath, Origin] = {(): Origin(job), (RUNTIME,): Origin(runtime)}
    path = (*JOB_SET, "replicatedJobs", 0, "template", "spec")
    nodes, written = _nodes(job, runtime)
    for field in ("parallelism", "completions"):
        trained["template"]["spec"][field] = nodes
        places[(*path, field)] = written
    pod = trained["template"]["spec"]["template"]["spec"]
    pod_path = (*path, "template", "spec")
    for place, container in enumerate(pod["containers"]):
        if container["name"] == MAIN:
            there = (*pod_path, "containers", place)
            _override(job, runtime, container, there, places)
            entries = _variables(job, spec, container, Origin(runtime, there[1:]), nodes, trained)
            container["env"] = []
            for number_of, (entry, origin) in enumerate(entries):
                container["env"].append(entry)
                places[(*there, "env", number_of)] = origin
            if _policy(spec) in ("torch", "jax", "xgboost"):
                _open_port(container)
    for field in ("initContainers", "containers"):
        for container in pod.get(field, ()):
            _tell_index(container)
    return Merged({**job.data, RUNTIME: named}, places)


def _policy(spec: Mapping[str, Any]) -> str | None:
    """The framework that a runtime tells its nodes of each other for, if it does."""
    policy = spec.get("mlPolicy", {})
    return next((name for name in ("torch", "jax", "xgboost") if name in policy), None)


def _nodes(job: Source, runtime: Source) -> tuple[int, Origin]:
    """How many nodes there are, and who says so (reference 4, steps 4 and 6)."""
    if (given := job.data["spec"].get("trainer", {}).get("numNodes")) is not None:
        return given, Origin(job, ("spec", "trainer", "numNodes"))
    spec = runtime.data["spec"]
    if "mlPolicy" in spec:
        given = spec["mlPolicy"].get("numNodes")
        return (1 if given is None else given), Origin(runtime, ("spec", "mlPolicy", "numNodes"))
    path = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "parallelism")
    given = spec["template"]["spec"]["replicatedJobs"][0]["template"]["spec"].get("parallelism")
    return (1 if given is None else given), Origin(runtime, path)


def _override(
    job: Source,
    runtime: Source,
    container: dict[str, Any],
    path: ValuePath,
    places: dict[ValuePath, Origin],
) -> None:
    """Image, command, arguments and resources of the job (reference 4.1)."""
    trainer = job.data["spec"].get("trainer", {})
    for field in ("image", "command", "args"):
        if trainer.get(field):
            container[field] = trainer[field]
            places[(*path, field)] = Origin(job, ("spec", "trainer", field))
    if "mlPolicy" not in runtime.data["spec"]:
        return
    for field, amounts in trainer.get("resourcesPerNode", {}).items():
        own = container.setdefault("resources", {})
        own[field] = {**own.get(field, {}), **amounts}
        for name in amounts:
            origin = Origin(job, ("spec", "trainer", "resourcesPerNode", field, name))
            places[(*path, "resources", field, name)] = origin


Entries = list[tuple[Mapping[str, Any], Origin]]


def _variables(
    job: Source,
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    origin: Origin,
    nodes: int,
    trained: Mapping[str, Any],
) -> Entries:
    """The variables of the main container: one of a name takes the place of the one before.

    The policy's come last, but for jax, where the job's do (reference 4.2): a job may replace them.
    """
    found: Entries = [
        (entry, origin.at("env", place)) for place, entry in enumerate(container.get("env", ()))
    ]
    trainer = job.data["spec"].get("trainer", {})
    own: Entries = [
        (
            entry if "valueFrom" in entry else {**entry, "value": entry.get("value") or ""},
            Origin(job, ("spec", "trainer", "env", place)),
        )
        for place, entry in enumerate(trainer.get("env", ()))
    ]
    told = _told(job, spec, container, nodes, trained)
    ours: Entries = [(entry, Origin(job, ("spec", "runtimeRef"))) for entry in told]
    for more in (ours, own) if _policy(spec) == "jax" else (own, ours):
        found = _upserted(found, more)
    return found


def _upserted(found: Entries, more: Entries) -> Entries:
    new = {entry["name"]: (entry, origin) for entry, origin in more}
    return [*(new.pop(entry["name"], (entry, origin)) for entry, origin in found), *new.values()]


def _told(
    job: Source,
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    nodes: int,
    trained: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """What the nodes are told of each other (reference 5.1, 5.3, 5.4).

    Also without `spec.trainer` (defect T1); host names are those that there are (T11).
    """
    name = job.data["metadata"]["name"]
    domain = spec["template"]["spec"].get("network", {}).get("subdomain") or name
    first = f"{name}-{trained['name']}-0-0.{domain}"
    values: dict[str, Any]
    match _policy(spec):
        case "torch":
            processes = _processes(job.data["spec"].get("trainer", {}), container)
            addresses = (str(nodes), processes, _RANK, first, str(PORT))
            values = dict(zip(RESERVED["torch"], addresses, strict=True))
        case "jax":
            values = {
                "JAX_NUM_PROCESSES": str(nodes),
                "JAX_PROCESS_ID": _RANK,
                "JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}",
            }
        case "xgboost":
            workers = str(nodes * max(_gpus(container) or 0, 1))
            values = dict(zip(RESERVED["xgboost"], (first, str(PORT), _RANK, workers), strict=True))
        case _:
            values = {}
    for variable, value in values.items():
        yield {"name": variable, "value" if isinstance(value, str) else "valueFrom": value}


def _processes(trainer: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Processes per node: of all resources that the node has, not only of the job's own (T5)."""
    if (given := trainer.get("numProcPerNode")) is not None:
        return str(given)
    if _gpus(container) is not None:
        return "auto"
    for field in ("requests", "limits"):
        amount = container.get("resources", {}).get(field, {}).get("cpu")
        if amount is not None and (processors := number(amount)) is not None:
            return str(max(math.ceil(processors), 1))
    return "1"


def _gpus(container: Mapping[str, Any]) -> int | None:
    """How many GPUs a container has, as Trainer counts them: by "gpu" in the resource's name."""
    for field in ("requests", "limits"):
        for name, amount in container.get("resources", {}).get(field, {}).items():
            if "gpu" in name.lower() and (count := number(amount)) is not None:
                return int(count)
    return None


def _open_port(container: dict[str, Any]) -> None:
    """Adds the port of the rendezvous; other ports stay, with or without a name (defect T6)."""
    ports = container.get("ports", [])
    if not _has(ports, PORT):
        container["ports"] = [*ports, {"containerPort": PORT}]


def _has(ports: Iterable[Mapping[str, Any]], wanted: int) -> bool:
    return any(
        port.get("containerPort") == wanted and (port.get("protocol") or "TCP") == "TCP"
        for port in ports
    )


def _tell_index(container: dict[str, Any]) -> None:
    """Adds the variable of its index that each container of an Indexed Job has (reference 7.4)."""
    given = container.get("env") or []
    if not any(entry.get("name") == _INDEX_VARIABLE["name"] for entry in given):
        container["env"] = [*given, dict(_INDEX_VARIABLE)]
