"""Documents for tests: the smallest that are valid, to be changed where a test looks."""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import etcompile
from etcompile import Compilation, Options, Severity

API_VERSION = "kai.alibabacloud.com/v1alpha1"
HOROVOD = [
    "horovodrun",
    "-np",
    "2",
    "--min-np",
    "1",
    "--host-discovery-script",
    "/etc/edl/discover_hosts.sh",
    "python",
    "train.py",
]


def copy_example(example: Path, folder: Path, namespace: str) -> None:
    """Copies the files of an example into a new folder, with its jobs in another namespace."""
    folder.mkdir()
    for file in example.glob("*.yaml"):
        text = re.sub(r"(?m)^(  namespace: ).+$", rf"\g<1>{namespace}", file.read_text())
        (folder / file.name).write_text(text)


def training_job(name: str = "mnist", *, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    """A TrainingJob with one container a role; `spec` replaces fields of its spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "etReplicaSpecs": {
                "launcher": {"template": {"spec": {"containers": [container(command=HOROVOD)]}}},
                "worker": {
                    "replicas": replicas,
                    "template": {"spec": {"containers": [container()]}},
                },
            },
            **spec,
        },
    }


_TRAINERS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
    "MXJob": ("mxReplicaSpecs", "mxnet"),
}
"""Of each Kubeflow kind with a container of its own: the key of its types, that container."""


def kubeflow_job(
    kind: str, types: Mapping[str, Any], policy: str = "", *, together: bool = False, **spec: Any
) -> dict[str, Any]:
    """A job of the Training Operator; a number stands for that many plain replicas of a type.

    Args:
        policy: The `restartPolicy` of each of those.
        together: Whether it restarts as a whole.
    """
    policies = {"restartPolicy": policy} if policy else {}
    whole = {
        name: {**replicas(kind, one), **policies} if isinstance(one, int) else one
        for name, one in types.items()
    }
    annotations = {"annotations": {"etcompile.dev/restart-together": "true"}} if together else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "mnist", **annotations},
        "spec": {_TRAINERS[kind][0]: whole, **spec},
    }


def mpi_job(version: str, name: str = "mnist", workers: int = 2, **spec: Any) -> dict[str, Any]:
    """An MPIJob of the Training Operator, `v1`, or of the MPI Operator, `v2beta1`."""
    container = {"name": "mpi", "image": "example.com/mpi:1"}
    launcher = {**container, "command": ["mpirun", "-np", "2", "train"]}
    types = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
        "Worker": {"replicas": workers, "template": {"spec": {"containers": [container]}}},
    }
    spec = {"mpiReplicaSpecs": types, **spec}
    return manifest("MPIJob", name, api_version=f"kubeflow.org/{version}", spec=spec)


def train_job(nodes: int, **trainer: Any) -> dict[str, Any]:
    """A TrainJob of the runtime `torch-distributed`; `trainer` are fields of its trainer."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "mnist"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": nodes, **trainer},
        },
    }


def elastic_job(
    types: Mapping[str, Any] | None = None,
    *,
    name: str = "mnist",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """An ElasticJob of DLRover's; a number stands for that many plain replicas of a type."""
    replica_specs = {
        key: dlrover_type(one) if isinstance(one, int) else one
        for key, one in (types or {"worker": 2}).items()
    }
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "namespace": "ml", "annotations": dict(annotations or {})},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": replica_specs,
            **spec,
        },
    }


def dlrover_type(count: int | None = None, **main: Any) -> dict[str, Any]:
    """The replicas of a type of an ElasticJob; `main` are fields of its container."""
    main_container = {"name": "main", "image": "example.com/dlrover:v0.6.1"}
    command = ["dlrover-run", "--nnodes=1:4", "train.py"]
    template = {
        "spec": {"containers": [{**main_container, "command": command, **copy.deepcopy(main)}]}
    }
    return {**({} if count is None else {"replicas": count}), "template": template}


def scale_plan(name: str = "plan", *, job: str = "mnist", **spec: Any) -> dict[str, Any]:
    """A ScalePlan that a person wrote; `spec` are the fields of its spec."""
    labels = {"elasticjob.dlrover/name": job, "scale-type": "manual"}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ScalePlan",
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": spec,
    }


def replicas(kind: str, count: int | None = None, **main: Any) -> dict[str, Any]:
    """The replicas of a type of a Kubeflow job; `main` are fields of its container."""
    main_container = {
        "name": _TRAINERS[kind][1],
        "image": "example.com/trainer:1",
        "command": ["train"],
    }
    template = {"spec": {"containers": [{**main_container, **copy.deepcopy(main)}]}}
    return {**({} if count is None else {"replicas": count}), "template": template}


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container with a pinned image."""
    return {"name": name, "image": "horovod/horovod:0.28.1", **copy.deepcopy(fields)}


def manifest(
    kind: str,
    name: str,
    *,
    api_version: str = "v1",
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """An object; `metadata` is what it has besides its name."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **(metadata or {})},
        **fields,
    }


def claim(name: str, *modes: str) -> dict[str, Any]:
    """A claim of 1 GiB, by default for one node."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": [*modes] or ["ReadWriteOnce"], "resources": resources}
    return manifest("PersistentVolumeClaim", name, spec=spec)


def scale_out(
    name: str, count: int, *, job: str = "mnist", of: str = "", namespace: str = "", **spec: Any
) -> dict[str, Any]:
    """A ScaleOut that adds `count` workers; `of` is the kind of its job, if not a TrainingJob."""
    return _intent("ScaleOut", name, job, of, namespace, {"toAdd": {"count": count}, **spec})


def scale_in(
    name: str,
    wanted: int | Sequence[str],
    *,
    job: str = "mnist",
    of: str = "",
    namespace: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """A ScaleIn by count or by Pod names; `of` is the kind of its job, if not a TrainingJob."""
    wish = {"count": wanted} if isinstance(wanted, int) else {"podNames": list(wanted)}
    return _intent("ScaleIn", name, job, of, namespace, {"toDelete": wish, **spec})


def _intent(
    kind: str, name: str, job: str, of: str, namespace: str, spec: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "etcompile.dev/v1alpha1" if of else API_VERSION,
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"selector": {**({"kind": of} if of else {}), "name": job}, **spec},
    }


def overlay(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay", **fields}


def patch(change: Any, **target: Any) -> dict[str, Any]:
    """An overlay that makes one change to what a target selects."""
    return overlay(patches=[{"patch": change, **({"target": target} if target else {})}])


def with_worker(*, replicas: int = 1, **main: Any) -> dict[str, Any]:
    """A TrainingJob whose workers' container has these fields."""
    document = training_job(replicas=replicas)
    worker(document)["template"]["spec"]["containers"][0] |= main
    return document


def worker(document: dict[str, Any]) -> dict[str, Any]:
    """The worker's replica spec of a TrainingJob, to be changed in place."""
    role: dict[str, Any] = document["spec"]["etReplicaSpecs"]["worker"]
    return role


def launcher(document: dict[str, Any]) -> dict[str, Any]:
    """The launcher's replica spec of a TrainingJob, to be changed in place."""
    role: dict[str, Any] = document["spec"]["etReplicaSpecs"]["launcher"]
    return role


def compiled(*documents: Mapping[str, Any], **options: Any) -> Compilation:
    """The compilation of documents that must be accepted."""
    compilation = etcompile.compile(list(documents), Options(**options))
    assert compilation.ok, compilation.diagnostics
    return compilation


def errors(*documents: Mapping[str, Any], **options: Any) -> list[str]:
    return _codes(etcompile.compile(list(documents), Options(**options)), Severity.ERROR)


def warnings(*documents: Mapping[str, Any], **options: Any) -> list[str]:
    """The codes of the warnings of documents that must be accepted, in order."""
    return _codes(compiled(*documents, **options), Severity.WARNING)


def _codes(compilation: Compilation, severity: Severity) -> list[str]:
    return [d.code for d in compilation.diagnostics if d.severity is severity]


def by_name(compilation: Compilation) -> dict[tuple[str, str], Any]:
    return {(o["kind"], o["metadata"]["name"]): o for o in compilation.objects}


def pods(compilation: Compilation) -> list[str]:
    """The names of the workers' Pods, in order."""
    return [
        o["metadata"]["name"]
        for o in compilation.objects
        if o["kind"] == "Pod" and o["metadata"]["labels"]["etcompile.dev/role"] == "worker"
    ]
