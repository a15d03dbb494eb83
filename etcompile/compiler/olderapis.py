"""Documents as older operators had them, to documents as their kind reads them today.

The API versions are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`. A document that has today's fields is
compiled, with a warning of its version. Any other is an error, which names the fields that moved.

Older operators, and tools that still write for them, have the run policy's fields directly under
`spec`. The Training Operator's API drops them there. Here they are moved, with a warning.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check.document_rules import schema_rules
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.frontends import Kind
from etcompile.k8s.path import mapping_at
from etcompile.load import Document
from etcompile.load.document import relocated

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


class Placed(Struct, frozen=True):
    """A document with its fields where its kind reads them.

    Args:
        changes: What was done to it, for people: `spec.backoffLimit moves to spec.runPolicy...`.
        diagnostics: What is wrong with it; a warning, if anything was done.
    """

    document: Document
    changes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def current(document: Document) -> Placed:
    """A document as it is written today, for a hand-over.

    Its diagnostics have an error if it is of a former version with other fields.
    """
    today, _ = in_current_version(document)
    kind = frontends.find(today.api_version, today.kind)
    if kind is None:
        return Placed(today, diagnostics=tuple(outdated_version(today)))
    in_place = placed(today, kind)
    if today is document:
        return in_place
    renamed = f"apiVersion {document.api_version} becomes {today.api_version}"
    return structs.replace(in_place, changes=(renamed, *in_place.changes))


# Versions -----------------------------------------------------------------------------------------


def in_current_version(document: Document) -> tuple[Document, list[Diagnostic]]:
    """A document that differs from today's only by its API version, as a document of today.

    Any other stays as it is. An operator of today would not look at the one that changes, so that
    there is a warning of it.
    """
    if not _is_outdated(document) or _moved_fields(document):
        return document, []
    today, place = _version_today(document), document.locate(("apiVersion",))
    facts = {"kind": document.kind, "version": document.api_version, "today": today}
    warning = diagnose(codes.FORMER_VERSION, place, **facts)
    fix = Fix(f"write apiVersion: {today}", (Replace(place, today),), is_safe=True)
    renamed = relocated(document, {**document.data, "apiVersion": today}, {})
    return renamed, [structs.replace(warning, fix=fix)]


def outdated_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a former version, which says how to write it today."""
    if not _is_outdated(document):
        return []
    changes = "; ".join(("", *_moved_fields(document)))
    facts = {"kind": document.kind, "version": document.api_version}
    facts["advice"] = f"write apiVersion: {_version_today(document)}{changes}"
    return [diagnose(codes.UNKNOWN_VERSION, document.locate(("apiVersion",)), **facts)]


def _is_outdated(document: Document) -> bool:
    """Whether an API version is one that a Kubeflow kind had once, or may have had."""
    if document.kind not in _TYPES:
        return False
    group, _, version = (document.api_version or "").partition("/")
    if group == _XGBOOST:
        return document.kind == "XGBoostJob" and version != ""
    served = (_V1, _V2) if document.kind == "MPIJob" else (_V1,)
    return group == "kubeflow.org" and version != "" and document.api_version not in served


def _version_today(document: Document) -> str:
    is_v2 = (document.api_version or "").partition("/")[2].startswith("v2")
    return _V2 if document.kind == "MPIJob" and is_v2 else _V1


def _moved_fields(document: Document) -> list[str]:
    """What has to be written in another way; empty if only the version differs."""
    spec: Any = document.data.get("spec")
    types = _TYPES[document.kind or ""]
    if not isinstance(spec, Mapping):
        return [f"spec: write {types}"]
    fields = [name for name in _MOVED if name in spec]
    if not isinstance(spec.get(types), Mapping) and not fields:
        return [f"spec.{types} is missing"]
    return [f"spec.{name}: {_MOVED[name].format(types=types)}" for name in fields]


# Fields -------------------------------------------------------------------------------------------


def placed(document: Document, kind: Kind) -> Placed:
    """A document of a Kubeflow kind with the run policy's fields in `runPolicy`, not beside it.

    What stands where it belongs wins. The names of the fields are those of the kind's schema
    (reference/training-operator.md 1.1, 1.2). The document need not be valid.
    """
    spec = mapping_at(document.data, ("spec",))
    fields = _policy_fields(kind.schema)
    names = [name for name in spec if name in fields]
    before = spec.get("runPolicy", {})
    if not names or not isinstance(before, Mapping):
        return Placed(document)
    moved = {name: spec[name] for name in names if name not in before}
    rest = {name: value for name, value in spec.items() if name not in names}
    policy: ValuePath = ("spec", "runPolicy")
    sources: dict[ValuePath, ValuePath] = {(*policy, name): ("spec", name) for name in moved}
    if not before:
        sources[policy] = ("spec", names[0])
    data = {**document.data, "spec": {**rest, "runPolicy": {**before, **moved}}}
    advice = []
    if moved:
        places = _listed([f"spec.{name} to spec.runPolicy.{name}" for name in moved])
        advice.append(f"move {places}; `etcompile migrate` does it for you")
    is_left_out = {name: f"spec.runPolicy.{name} counts" for name in names if name not in moved}
    advice += [f"remove spec.{name}: {reason}" for name, reason in is_left_out.items()]
    is_one = len(names) == 1
    warning = diagnose(
        codes.MISPLACED_POLICY,
        document.locate(("spec", names[0]), key=True),
        fields=_listed([f"spec.{name}" for name in names]),
        verb="stands" if is_one else "stand",
        operator=kind.operator.name if kind.operator else "operator",
        them="it" if is_one else "them",
        advice="; ".join(advice),
    )
    changes = [
        f"spec.{name} is left out: {is_left_out[name]}"
        if name in is_left_out
        else f"spec.{name} moves to spec.runPolicy.{name}"
        for name in names
    ]
    return Placed(relocated(document, data, sources), tuple(changes), (warning,))


@functools.cache
def _policy_fields(schema: str | Path) -> frozenset[str]:
    """The fields of a kind's `runPolicy` that its `spec` does not have, too."""
    whole = value = schema_rules(schema)
    above: frozenset[str] = frozenset()
    for step in ("spec", "runPolicy"):
        above = frozenset(value.get("properties", ()))
        value = value.get("properties", {}).get(step, {})
        while reference := value.get("$ref"):
            value = whole["$defs"][reference.rpartition("/")[2]]
    return frozenset(value.get("properties", ())) - above


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
