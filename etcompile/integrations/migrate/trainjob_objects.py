"""The TrainJob and the TrainingRuntime of a PyTorchJob, JAXJob or XGBoostJob.

All nodes get one template: the master's, or the workers' if there is no master. It goes into the
runtime, because a TrainJob has no template (reference/trainer-v2.md 2). So do the variables that
the Training Operator sets and Trainer does not (5.1), for programs that read RANK or MASTER_ADDR.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.backend.pod_fields import merged_variables
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_VERSION
from etcompile.frontends.kubeflow import jaxjob, pytorchjob, xgboostjob
from etcompile.frontends.kubeflow.framework import Framework
from etcompile.frontends.trainer.policies import INDEX, MAIN, PORT, RESERVED
from etcompile.frontends.trainer.trainjob import ANNOTATIONS
from etcompile.load import Document

SIDECAR_ENV = "etcompile.dev/sidecar-env"
"""The annotation by which other containers than the one that trains have its variables, too."""
_FOR_EVER = 2**31 - 1
"""The backoffLimit of what restarts for ever."""
_OF_A_JOB = 6
"""The backoffLimit of a Job that says none."""
_ADDRESSES = frozenset({"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK"})
"""What the operator sets in a PyTorchJob with a master only (training-operator-pytorchjob.md 1)."""
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
_TRAINER = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
"""The metadata of the replicatedJob that a TrainJob's fields are for."""
_MOST_INJECTED = 8
"""Containers that a target of envInjection may name."""
_MANAGERS = (None, "kubeflow.org/training-operator")
_POLICIES: Mapping[str, tuple[Framework, str]] = {
    "PyTorchJob": (pytorchjob.FRAMEWORK, "torch"),
    "JAXJob": (jaxjob.FRAMEWORK, "jax"),
    "XGBoostJob": (xgboostjob.FRAMEWORK, "xgboost"),
}
"""By kind, the row of its frontend, and Trainer's policy for it."""
CONVERTED = tuple(_POLICIES)
"""The kinds that are converted."""


class OperatorJob(Struct, frozen=True):
    """A job of the Training Operator that is to become a TrainJob.

    Args:
        policy: Trainer's policy for its framework.
        replicas: Its replica types, the first node's first.
        annotations: Its own, and none of its Pods.
    """

    document: Document
    framework: Framework
    policy: str
    spec: Mapping[str, Any]
    replicas: Mapping[str, Mapping[str, Any]]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name, which its TrainJob and its runtime have, too."""
        return str(self.document.name)

    @property
    def first(self) -> Mapping[str, Any]:
        """The replica type whose template all nodes get."""
        return next(iter(self.replicas.values()))

    @property
    def restart(self) -> str:
        """The restartPolicy of the first replica type."""
        return str(self.first.get("restartPolicy") or self.framework.restart)

    @property
    def processes(self) -> str:
        """The processes of a node: a number, or how to find it."""
        return str(self.spec.get("nprocPerNode") or "auto")

    @property
    def reserved(self) -> tuple[str, ...]:
        """Variables that Trainer sets whatever the template says."""
        return RESERVED.get(self.policy, ())

    @property
    def sets_sidecars(self) -> bool:
        """Whether other containers than the one that trains have its variables, too."""
        return self.annotations.get(SIDECAR_ENV) == "true"


def operator_job(document: Document) -> OperatorJob:
    """A document of a kind in `CONVERTED`, which compiles."""
    framework, policy = _POLICIES[str(document.kind)]
    spec = document.data["spec"]
    types = {name.capitalize(): name for name in spec[framework.types]}
    replicas = {
        types[role]: spec[framework.types][types[role]]
        for role in ("Master", "Worker")
        if role in types
    }
    annotations = document.data["metadata"].get("annotations") or {}
    return OperatorJob(document, framework, policy, spec, replicas, annotations)


def is_foreign(annotation: str) -> bool:
    """Whether an annotation is ours, and has no meaning for TrainJobs."""
    return annotation.startswith("etcompile.dev/") and annotation not in ANNOTATIONS


def converted(job: OperatorJob) -> tuple[dict[str, Any], dict[str, Any]]:
    """The TrainJob and its TrainingRuntime."""
    counts = [replica.get("replicas") for replica in job.replicas.values()]
    nodes = sum(1 if count is None else int(count) for count in counts)
    namespace = job.document.namespace
    metadata = {"name": job.name, **({"namespace": namespace} if namespace else {})}
    return _train_job(job, metadata, nodes), _runtime(job, metadata, nodes)


def _train_job(job: OperatorJob, metadata: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    trainer: dict[str, Any] = {"numNodes": nodes}
    if job.policy == "torch" and job.processes.isdecimal():
        trainer["numProcPerNode"] = int(job.processes)
    run_policy = job.spec.get("runPolicy") or {}
    spec: dict[str, Any] = {
        "runtimeRef": {"kind": RUNTIME_KINDS[0], "name": job.name},
        "trainer": trainer,
    }
    if run_policy.get("suspend"):
        spec["suspend"] = True
    if (deadline := run_policy.get("activeDeadlineSeconds")) is not None:
        spec["activeDeadlineSeconds"] = deadline
    if (manager := run_policy.get("managedBy")) not in _MANAGERS:
        spec["managedBy"] = manager
    metadata = {**metadata}
    if labels := job.document.data["metadata"].get("labels"):
        metadata["labels"] = labels
    if own := {k: v for k, v in job.annotations.items() if not is_foreign(k)}:
        metadata["annotations"] = own
    return {"apiVersion": RUNTIME_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _runtime(job: OperatorJob, metadata: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    run_policy = job.spec.get("runPolicy") or {}
    limit = run_policy.get("backoffLimit")
    if limit is None:
        # With ExitCode some failures end the job: for ever would be wrong, so it is a Job's own 6.
        limit = {"Never": 0, "ExitCode": _OF_A_JOB}.get(job.restart, _FOR_EVER)
    spec = {"backoffLimit": limit, "template": _pod_template(job, nodes)}
    part = {"name": MAIN, "template": {"metadata": _TRAINER, "spec": spec}}
    job_set: dict[str, Any] = {"replicatedJobs": [part]}
    if (ttl := run_policy.get("ttlSecondsAfterFinished")) is not None:
        job_set["ttlSecondsAfterFinished"] = ttl
    policy: dict[str, Any] = {}
    names = [each["name"] for each in job.first["template"]["spec"]["containers"]]
    sidecars = [name for name in names if name != job.framework.container]
    if job.policy == "torch" and sidecars and job.sets_sidecars:
        # What Trainer itself sets.
        targets = [
            {"jobName": MAIN, "containerNames": sidecars[start : start + _MOST_INJECTED]}
            for start in range(0, len(sidecars), _MOST_INJECTED)
        ]
        policy = {"envInjection": {"targets": targets}}
    return {
        "apiVersion": RUNTIME_VERSION,
        "kind": RUNTIME_KINDS[0],
        "metadata": metadata,
        "spec": {"mlPolicy": {job.policy: policy}, "template": {"spec": job_set}},
    }


def _pod_template(job: OperatorJob, nodes: int) -> dict[str, Any]:
    """The Pod template, whose container has Trainer's name and the operator's variables."""
    template = job.first["template"]
    ours = [*_variables(job, nodes)]
    containers = []
    for container in template["spec"]["containers"]:
        changes: dict[str, Any] = {}
        env = container.get("env") or ()
        if container["name"] == job.framework.container:
            # Without a master the operator sets no address: the container's own stay.
            stay = job.policy == "torch" and "Master" not in job.replicas
            own = {entry["name"] for entry in env} & _ADDRESSES if stay else set()
            free = [entry for entry in env if entry["name"] not in job.reserved]
            added = [entry for entry in ours if entry["name"] not in own]
            changes = {"name": MAIN, "env": merged_variables(free, added)}
        elif job.sets_sidecars:
            changes = {"env": merged_variables(env, ours)}
        containers.append(_with_named_ports({**container, **changes}))
    restart = "OnFailure" if job.restart in ("OnFailure", "Always") else "Never"
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


def _variables(job: OperatorJob, nodes: int) -> Iterator[dict[str, Any]]:
    """What the Training Operator sets in a container, and Trainer does not."""
    leader = f"{job.name}-{MAIN}-0-0.{job.name}"
    yield {"name": "PYTHONUNBUFFERED", "value": "1"}
    if job.policy == "xgboost" and nodes > 1:
        # The machines of LightGBM: reference/training-operator-xgboostjob.md 1.
        hosts = ",".join(f"{job.name}-{MAIN}-0-{index}.{job.name}" for index in range(1, nodes))
        yield {"name": "WORKER_PORT", "value": str(PORT)}
        yield {"name": "WORKER_ADDRS", "value": hosts}
    if job.policy == "jax":
        yield {"name": "COORDINATOR_PORT", "value": str(PORT)}
        yield {"name": "COORDINATOR_ADDRESS", "value": leader}
        yield {"name": "NUM_PROCESSES", "value": str(nodes)}
        yield {"name": "PROCESS_ID", "valueFrom": _RANK}
        return
    world = nodes * (int(job.processes) if job.processes.isdecimal() else 1)
    yield {"name": "MASTER_PORT", "value": str(PORT)}
    yield {"name": "MASTER_ADDR", "value": leader}
    yield {"name": "WORLD_SIZE", "value": str(world)}
    yield {"name": "RANK", "valueFrom": _RANK}
