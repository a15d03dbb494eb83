"""Documents as older operators had them, to documents as their kind reads them today.

The API versions are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`. A document that has today's fields is
compiled, with a warning of its version. Any other is an error, which names the fields that moved.

Older operators, and tools that still write for them, have the run policy's fields directly under
`spec`. The Training Operator's API drops them there; here they are put where they belong, with a
warning.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check.document_rules import schema_rules
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.diagnostics.spelling import bare
from etcompile.frontends import Kind
from etcompile.k8s.path import dotted, value_at, with_value, without_value
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

_SPEC: ValuePath = ("spec",)
_POLICY: ValuePath = ("spec", "runPolicy")
_SCHEDULING: ValuePath = (*_POLICY, "schedulingPolicy")
_OF_OTHERS = frozenset({"successPolicy", "mpiDistribution"})
"""Fields that other versions or kinds have: where a kind has none, it does nothing with them."""


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


class _Move(Struct, frozen=True):
    before: ValuePath
    after: ValuePath | None
    """None for a field that the kind does not have."""
    is_set: bool = False
    """There is another value where it belongs."""

    @property
    def words(self) -> str:
        """What is done, for people."""
        if self.after is not None and not self.is_set:
            return f"{dotted(self.before)} moves to {dotted(self.after)}"
        return f"{dotted(self.before)} is left out: {self.reason}"

    @property
    def reason(self) -> str:
        """Why the field is left out."""
        return f"{dotted(self.after)} counts" if self.after else "this kind has no such field"


def placed(document: Document, kind: Kind) -> Placed:
    """A document of a Kubeflow kind with run-policy fields that stand elsewhere in `runPolicy`.

    What stands where it belongs wins. The names of the fields, and where each belongs, are those
    of the kind's schema (reference/training-operator.md 1.1, 1.2). The document need not be valid.
    """
    homes = _homes(kind.schema)
    data: dict[str, Any] = document.data
    strays = [*_strays(data, homes, kind)]
    moves: list[_Move] = []
    sources: dict[ValuePath, ValuePath] = {}
    # A whole mapping before the fields that go into it.
    for before, home in sorted(strays, key=lambda stray: len(stray[1] or ())):
        if home is None or not _is_open(data, home):
            continue
        value, data = value_at(data, before), without_value(data, before)
        if before[:-1] in (_POLICY, _SCHEDULING) and not value_at(data, before[:-1]):
            data = without_value(data, before[:-1])
        after = (*home, before[-1]) if home else None
        is_set = after is not None and value_at(data, after) is not None
        moves.append(_Move(before, after, is_set))
        if after is not None and not is_set:
            above = (after[:length] for length in range(2, len(after) + 1))
            sources |= {path: before for path in above if value_at(data, path) is None}
            data = with_value(data, after, value)
    if not moves:
        return Placed(document)
    places = [path for path, _ in strays]
    moves.sort(key=lambda move: places.index(move.before))
    return Placed(
        relocated(document, data, sources),
        tuple(move.words for move in moves),
        (_warning(document, kind, moves),),
    )


def _strays(
    data: Mapping[str, Any], homes: Mapping[ValuePath, frozenset[str]], kind: Kind
) -> Iterator[tuple[ValuePath, ValuePath | None]]:
    """The fields that stand where the kind has none of their name, and where each belongs.

    That is empty for nowhere in this kind, None for a field that no kind knows.
    """

    def home_of(name: str) -> ValuePath | None:
        home = next((at for at, names in homes.items() if name in names), None)
        if home == _SPEC and any(name == path[1] for path in kind.pod_templates):
            return None  # the API server wants it in its place
        return () if home is None and name in _OF_OTHERS else home

    for at, names in homes.items():
        fields = value_at(data, at)
        for name in fields if isinstance(fields, Mapping) else ():
            if name not in names:
                yield (*at, name), home_of(name)
    for path in kind.templates_of(data) if homes else ():
        fields = value_at(data, path[:-1])
        for name in fields if isinstance(fields, Mapping) else ():
            # Not what the replicas of another type may have, too.
            if name in homes[_POLICY]:
                yield (*path[:-1], name), home_of(name)


@functools.cache
def _homes(schema: str | Path) -> Mapping[ValuePath, frozenset[str]]:
    """The fields that a kind has in each place; empty for a kind without a `runPolicy`."""
    whole = schema_rules(schema)
    fields: dict[ValuePath, frozenset[str]] = {}
    for home in (_SPEC, _POLICY, _SCHEDULING):
        value = whole
        for step in home:
            value = value.get("properties", {}).get(step, {})
            while reference := value.get("$ref"):
                value = whole["$defs"][reference.rpartition("/")[2]]
        fields[home] = frozenset(value.get("properties", ()))
    return fields if fields[_POLICY] else {}


def _is_open(data: Mapping[str, Any], home: ValuePath) -> bool:
    """Whether a field can be put there: what is there is a mapping, or nothing.

    A mapping that is there under a misspelt name is not made a second time.
    """
    for length in range(1, len(home) + 1):
        value = value_at(data, home[:length])
        if not isinstance(value, Mapping | None):
            return False
        if value is None:
            siblings = value_at(data, home[: length - 1]) or {}
            return all(bare(name) != bare(str(home[length - 1])) for name in siblings)
    return True


def _warning(document: Document, kind: Kind, moves: list[_Move]) -> Diagnostic:
    moved = [
        f"{dotted(move.before)} to {dotted(move.after)}"
        for move in moves
        if move.after and not move.is_set
    ]
    advice = []
    if moved:
        them = _listed(moved)
        advice.append(f"move {them}; `etcompile migrate` does it for you")
    rest = [move for move in moves if move.is_set or not move.after]
    advice += [f"remove {dotted(move.before)}: {move.reason}" for move in rest]
    is_one = len(moves) == 1
    return diagnose(
        codes.MISPLACED_POLICY,
        document.locate(moves[0].before, key=True),
        fields=_listed([dotted(move.before) for move in moves]),
        verb="stands" if is_one else "stand",
        operator=kind.operator.name if kind.operator else "operator",
        them="it" if is_one else "them",
        advice="; ".join(advice),
    )


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
