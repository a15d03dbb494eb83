"""Documents of API versions that no operator serves any more.

The versions are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`. A document that has today's fields is
compiled, with a warning of its version. Any other is an error, which names the fields that moved.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from etcompile import frontends
from etcompile.compiler.misplaced import Placed, placed
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.fix import Fix, Replace
from etcompile.load import Document
from etcompile.load.relocated import relocated

_V1 = "kubeflow.org/v1"
_V2 = "kubeflow.org/v2beta1"
_XGBOOST = "xgboostjob.kubeflow.org"
_TYPES = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""The field that has the replica types of each kind."""
_WORKERS = "write it as mpiReplicaSpecs.Worker.replicas and a limit of the Worker's container"
_NOTHING = "remove it: it means nothing any more"
_MOVED: Mapping[str, str] = {
    "replicaSpecs": "write it as {types}, a mapping by type, with each restartPolicy beside its"
    " template",
    "template": "write it as mpiReplicaSpecs.Launcher.template, and as Worker.template without its"
    " command",
    "gpus": _WORKERS,
    "gpusPerNode": _WORKERS,
    "processingUnits": _WORKERS,
    "processingUnitsPerNode": _WORKERS,
    "processingResourceType": _WORKERS,
    "replicas": "write it as mpiReplicaSpecs.Worker.replicas",
    "schedulerName": "write it into the templates",
    "terminationPolicy": "remove it: the end of the Master decides, or else that of worker 0",
    "ttlSecondsAfterFinishing": "write it as runPolicy.ttlSecondsAfterFinished",
    "masterPort": "write it as the port pytorchjob-port of the container",
    "mpiDistribution": f"remove it: {_V1} suits Open MPI and Intel MPI; for MPICH write a job of"
    f" {_V2}, with mpiImplementation: MPICH",
    "launcherOnMaster": "write a nodeSelector and a toleration into the Launcher's template",
    **dict.fromkeys(("RuntimeId", "runtimeId", "backend", "tensorboard"), _NOTHING),
    **dict.fromkeys(("tfImage", "pytorchImage", "mxImage"), _NOTHING),
}
"""The fields of `spec` that former versions had, and what they are today."""


def is_former(api_version: str | None, kind: str | None) -> bool:
    """Whether an API version is one that a Kubeflow kind had once, or may have had."""
    group, _, version = (api_version or "").partition("/")
    if kind is None or kind not in _TYPES or not version:
        return False
    if group == _XGBOOST:
        return kind == "XGBoostJob"
    return group == "kubeflow.org" and api_version not in _served_today(kind)


def in_versions_of_today(
    documents: Iterable[Document],
) -> tuple[list[Document], list[Diagnostic]]:
    """Documents that differ from today's only by their API version, as documents of today.

    Args:
        documents: Any documents; those that need more than that stay as they are.

    Returns:
        The documents, and a warning for each that an operator of today would not look at.
    """
    renamed: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for document in documents:
        if not is_former(document.api_version, document.kind) or _moved(document):
            renamed.append(document)
            continue
        today = _version_today(document)
        renamed.append(relocated(document, {**document.data, "apiVersion": today}, {}))
        place = document.locate(("apiVersion",))
        facts = {"kind": document.kind, "version": document.api_version, "today": today}
        warning = diagnose(codes.FORMER_VERSION, place, **facts)
        fix = Fix(f"write apiVersion: {today}", (Replace(place, today),), is_safe=True)
        diagnostics.append(structs.replace(warning, fix=fix))
    return renamed, diagnostics


def current(document: Document) -> Placed:
    """A document as it is written today, for a hand-over.

    Args:
        document: Any document.

    Returns:
        The document, what has changed in it, and what is wrong with it: an error if it is of a
        former version with other fields.
    """
    [today], _ = in_versions_of_today([document])
    kind = frontends.find(today.api_version, today.kind)
    if kind is None:
        return Placed(today, diagnostics=tuple(former_version(today)))
    in_place = placed(today, kind)
    if today is document:
        return in_place
    renamed = f"apiVersion {document.api_version} becomes {today.api_version}"
    return structs.replace(in_place, changes=(renamed, *in_place.changes))


def former_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a former version, which says how to write it today.

    Args:
        document: A document of no kind that is compiled.
    """
    version, kind = document.api_version or "", document.kind or ""
    if not is_former(version, kind):
        return []
    changes = "; ".join(("", *_moved(document)))
    advice = f"write apiVersion: {_version_today(document)}{changes}"
    place = document.locate(("apiVersion",))
    return [diagnose(codes.UNKNOWN_VERSION, place, kind=kind, version=version, advice=advice)]


def _served_today(kind: str) -> tuple[str, ...]:
    return (_V1, _V2) if kind == "MPIJob" else (_V1,)


def _version_today(document: Document) -> str:
    is_v2 = (document.api_version or "").partition("/")[2].startswith("v2")
    return _V2 if document.kind == "MPIJob" and is_v2 else _V1


def _moved(document: Document) -> list[str]:
    """What has to be written in another way; empty if only the version differs."""
    spec: Any = document.data.get("spec")
    types = _TYPES[document.kind or ""]
    if not isinstance(spec, Mapping):
        return [f"spec: write {types}"]
    fields = [name for name in _MOVED if name in spec]
    if not isinstance(spec.get(types), Mapping) and not fields:
        return [f"spec.{types} is missing"]
    return [f"spec.{name}: {_MOVED[name].format(types=types)}" for name in fields]
