"""The TrainJob and the TrainingRuntime of a PyTorchJob, JAXJob or XGBoostJob.

All nodes get one template: the master's, or the workers' if there is no master. It goes into the
runtime, because a TrainJob has no template (reference/trainer-v2.md 2). So do the variables that
the Training Operator sets and Trainer does not (5.1), for programs that read RANK or MASTER_ADDR.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.backend.variables import merged_variables
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_VERSION
from etcompile.frontends.trainer.policies import INDEX, MAIN, PORT, RESERVED
from etcompile.frontends.trainer.trainjob import ANNOTATIONS
from etcompile.load import Document

_FOR_EVER = 2**31 - 1
"""The backoffLimit of what restarts for ever."""
_OF_A_JOB = 6
"""The backoffLimit of a Job that says none."""
_ADDRESSES = frozenset({"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK"})
"""What only a PyTorchJob with a master is told (reference/training-operator-pytorchjob.md 1)."""
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
_TRAINER = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
"""The metadata of the replicatedJob that a TrainJob's fields are for."""
SIDECAR_ENV = "etcompile.dev/sidecar-env"
"""The annotation by which containers beside the one that trains have its variables, too."""
_MOST_INJECTED = 8
"""Containers that a target of envInjection may name."""
_OURS = "etcompile.dev/"
_MANAGERS = (None, "kubeflow.org/training-operator")


class Framework(Struct, frozen=True):
    """What differs between the kinds.

    Args:
        types: The field of its replica types.
        policy: The policy of Trainer's that is for it.
        container: The container that trains.
        restart: The restartPolicy of replicas that name none.
    """

    types: str
    policy: str
    container: str
    restart: str

    @property
    def reserved(self) -> tuple[str, ...]:
        """Variables that Trainer sets whatever the template says."""
        return RESERVED.get(self.policy, ())

    def replicas(self, document: Document) -> dict[str, Mapping[str, Any]]:
        """The replica types with the first node's first."""
        found: Mapping[str, Any] = document.data["spec"][self.types]
        names = {name.capitalize(): name for name in found}
        return {names[key]: found[names[key]] for key in ("Master", "Worker") if key in names}

    def trains(self, replica: Mapping[str, Any]) -> Mapping[str, Any]:
        """The container of a replica type that trains."""
        containers = replica["template"]["spec"]["containers"]
        return next((each for each in containers if each["name"] == self.container), {})


FRAMEWORKS = {
    "PyTorchJob": Framework("pytorchReplicaSpecs", "torch", "pytorch", "OnFailure"),
    "JAXJob": Framework("jaxReplicaSpecs", "jax", "jax", "Never"),
    "XGBoostJob": Framework("xgbReplicaSpecs", "xgboost", "xgboost", "Never"),
}


def is_foreign(annotation: str) -> bool:
    """Whether an annotation is ours, and has no meaning for TrainJobs."""
    return annotation.startswith(_OURS) and annotation not in ANNOTATIONS


def tells_sidecars(document: Document) -> bool:
    """Whether containers beside the one that trains have its variables, too."""
    annotations = document.data["metadata"].get("annotations") or {}
    return annotations.get(SIDECAR_ENV) == "true"


def converted(document: Document, framework: Framework) -> tuple[dict[str, Any], dict[str, Any]]:
    """The TrainJob and its TrainingRuntime."""
    counts = [replica.get("replicas") for replica in framework.replicas(document).values()]
    nodes = sum(1 if count is None else int(count) for count in counts)
    return _train_job(document, framework, nodes), _runtime(document, framework, nodes)


def _train_job(document: Document, framework: Framework, nodes: int) -> dict[str, Any]:
    trainer: dict[str, Any] = {"numNodes": nodes}
    processes = str(document.data["spec"].get("nprocPerNode") or "auto")
    if framework.policy == "torch" and processes.isdecimal():
        trainer["numProcPerNode"] = int(processes)
    policy = document.data["spec"].get("runPolicy") or {}
    spec: dict[str, Any] = {
        "runtimeRef": {"kind": RUNTIME_KINDS[0], "name": str(document.name)},
        "trainer": trainer,
    }
    if policy.get("suspend"):
        spec["suspend"] = True
    if (deadline := policy.get("activeDeadlineSeconds")) is not None:
        spec["activeDeadlineSeconds"] = deadline
    if (manager := policy.get("managedBy")) not in _MANAGERS:
        spec["managedBy"] = manager
    metadata = _metadata(document)
    if labels := document.data["metadata"].get("labels"):
        metadata["labels"] = labels
    annotations = document.data["metadata"].get("annotations") or {}
    if own := {k: v for k, v in annotations.items() if not is_foreign(k)}:
        metadata["annotations"] = own
    return {"apiVersion": RUNTIME_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _runtime(document: Document, framework: Framework, nodes: int) -> dict[str, Any]:
    run_policy = document.data["spec"].get("runPolicy") or {}
    first = next(iter(framework.replicas(document).values()))
    limit = run_policy.get("backoffLimit")
    if limit is None:
        # With ExitCode some failures end the job: for ever would be wrong, so it is a Job's own 6.
        restart = first.get("restartPolicy") or framework.restart
        limit = {"Never": 0, "ExitCode": _OF_A_JOB}.get(restart, _FOR_EVER)
    job = {"backoffLimit": limit, "template": _pod_template(document, framework, nodes)}
    part = {"name": MAIN, "template": {"metadata": _TRAINER, "spec": job}}
    job_set: dict[str, Any] = {"replicatedJobs": [part]}
    if (ttl := run_policy.get("ttlSecondsAfterFinished")) is not None:
        job_set["ttlSecondsAfterFinished"] = ttl
    policy: dict[str, Any] = {}
    names = [each["name"] for each in first["template"]["spec"]["containers"]]
    sidecars = [name for name in names if name != framework.container]
    if framework.policy == "torch" and sidecars and tells_sidecars(document):
        # What Trainer itself sets.
        targets = [
            {"jobName": MAIN, "containerNames": sidecars[start : start + _MOST_INJECTED]}
            for start in range(0, len(sidecars), _MOST_INJECTED)
        ]
        policy = {"envInjection": {"targets": targets}}
    return {
        "apiVersion": RUNTIME_VERSION,
        "kind": RUNTIME_KINDS[0],
        "metadata": _metadata(document),
        "spec": {"mlPolicy": {framework.policy: policy}, "template": {"spec": job_set}},
    }


def _metadata(document: Document) -> dict[str, Any]:
    place = {"namespace": document.namespace} if document.namespace else {}
    return {"name": str(document.name), **place}


def _pod_template(document: Document, framework: Framework, nodes: int) -> dict[str, Any]:
    """The Pod template, whose container has Trainer's name and the operator's variables."""
    replicas = framework.replicas(document)
    first = next(iter(replicas.values()))
    template = first["template"]
    ours = [*_variables(document, framework, nodes)]
    containers = []
    for container in template["spec"]["containers"]:
        changes: dict[str, Any] = {}
        env = container.get("env") or ()
        if container["name"] == framework.container:
            # Where nobody is told who the master is, addresses of its own are what it has.
            keeps = framework.policy == "torch" and "Master" not in replicas
            own = {entry["name"] for entry in env} & _ADDRESSES if keeps else set()
            free = [entry for entry in env if entry["name"] not in framework.reserved]
            added = [entry for entry in ours if entry["name"] not in own]
            changes = {"name": MAIN, "env": merged_variables(free, added)}
        elif tells_sidecars(document):
            changes = {"env": merged_variables(env, ours)}
        containers.append(_with_named_ports({**container, **changes}))
    restart = first.get("restartPolicy") or framework.restart
    restart = "OnFailure" if restart in ("OnFailure", "Always") else "Never"
    spec = {**template["spec"], "restartPolicy": restart, "containers": containers}
    if inits := spec.get("initContainers"):
        spec["initContainers"] = [*map(_with_named_ports, inits)]
    return {**template, "spec": spec}


def _with_named_ports(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """A container whose ports all have names: of Trainer, one without is any other (defect T6)."""
    names = {port.get("name") for port in container.get("ports") or ()}
    if None not in names:
        return container
    ports = []
    for port in container["ports"]:
        name = port.get("name") or f"{port.get('protocol', 'TCP').lower()}-{port['containerPort']}"
        while not port.get("name") and name in names:
            name += "a"
        names.add(name)
        ports.append({**port, "name": name})
    return {**container, "ports": ports}


def _variables(document: Document, framework: Framework, nodes: int) -> Iterator[dict[str, Any]]:
    """What the Training Operator tells a container, and Trainer does not."""
    name = str(document.name)
    leader = f"{name}-{MAIN}-0-0.{name}"
    yield {"name": "PYTHONUNBUFFERED", "value": "1"}
    if framework.policy == "xgboost" and nodes > 1:
        # The machines of LightGBM: reference/training-operator-xgboostjob.md 1.
        hosts = ",".join(f"{name}-{MAIN}-0-{index}.{name}" for index in range(1, nodes))
        yield {"name": "WORKER_PORT", "value": str(PORT)}
        yield {"name": "WORKER_ADDRS", "value": hosts}
    if framework.policy == "jax":
        yield {"name": "COORDINATOR_PORT", "value": str(PORT)}
        yield {"name": "COORDINATOR_ADDRESS", "value": leader}
        yield {"name": "NUM_PROCESSES", "value": str(nodes)}
        yield {"name": "PROCESS_ID", "valueFrom": _RANK}
        return
    processes = str(document.data["spec"].get("nprocPerNode") or "auto")
    world = nodes * (int(processes) if processes.isdecimal() else 1)
    yield {"name": "MASTER_PORT", "value": str(PORT)}
    yield {"name": "MASTER_ADDR", "value": leader}
    yield {"name": "WORLD_SIZE", "value": str(world)}
    yield {"name": "RANK", "valueFrom": _RANK}
