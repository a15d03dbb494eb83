"""Compile any Pod of a job from its ConfigMap, exactly as the compiler did the first time.

This module adds what the compiler does not know: marks of GitOps tools, nodes to avoid, and the
removal from a gang.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from msgspec import Struct

from etcompile import backend
from etcompile.compiler.run_objects import pods, situation_of_some
from etcompile.compiler.stored import (
    StoredJobError,
    check_place,
    read_declared,
    read_patches,
    read_text,
    reading,
)
from etcompile.k8s.bookkeeping import ARGO_ID, MARKS
from etcompile.k8s.objects import LiveObject, Object, seconds, with_metadata
from etcompile.model import MOST_PODS, Member, Role
from etcompile.model.protocol import STORED_JOB
from etcompile.model.schedulers import COSCHEDULING_GROUP, NATIVE_GROUPS

_ON_PODS = {
    field: [key for key, mark in MARKS.items() if mark.on_pods and mark.field == field]
    for field in ("labels", "annotations")
}
_NOT_SYNCED = frozenset({"applyset.kubernetes.io/part-of"})
"""Marks of tools that act only when somebody runs them."""


class Tracking(Struct, frozen=True):
    """The marks of a GitOps tool on all objects of a job, or on all its Pods.

    Argo CD's tracking id, `APPLICATION:GROUP/KIND:NAMESPACE/NAME`, is here without its end.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Tracking":
        labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        annotations = {key: notes[key] for key in _ON_PODS["annotations"] if key in notes}
        if application := notes.get(ARGO_ID, "").split(":", 1)[0]:
            annotations[ARGO_ID] = application
        return cls({key: labels[key] for key in _ON_PODS["labels"] if key in labels}, annotations)

    @property
    def synced(self) -> bool:
        """Report whether a tool recreates what is deleted."""
        return bool({*self.labels, *self.annotations} - _NOT_SYNCED)

    def as_on(self, pod: "Tracking") -> "Tracking":
        """Return the same marks with the values that they have on a Pod of the job.

        A mark that only the Pod has comes from the job's template.
        """
        return Tracking(
            {key: pod.labels.get(key, value) for key, value in self.labels.items()},
            {key: pod.annotations.get(key, value) for key, value in self.annotations.items()},
        )

    def on(self, value: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        """Return the object with these marks; existing values take precedence."""
        metadata, marks = value["metadata"], dict(self.annotations)
        if ARGO_ID in marks:
            group = value["apiVersion"].rpartition("/")[0]
            marks[ARGO_ID] += f":{group}/{value['kind']}:{namespace}/{metadata['name']}"
        labels = {**self.labels, **(metadata.get("labels") or {})}
        annotations = {**marks, **(metadata.get("annotations") or {})}
        more = {"annotations": annotations} if annotations else {}
        return {
            **value,
            "metadata": {**metadata, "namespace": namespace, "labels": labels, **more},
        }


# Nodes to avoid ------------------------------------------------------------------------------
#
# A tool that syncs Git ignores fields that only the cluster has, but a list that Git has must be
# the same (reference/gitops.md 1.6), and the terms of a node affinity are such a list. So a Pod of
# a tool whose template has terms gets a preference instead, if it has none.

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100  # the most that a preference can weigh


def away_from(pod: Object, nodes: Sequence[str], *, git_managed: bool) -> LiveObject | None:
    """Return a Pod that must avoid some nodes, or only prefers to if nothing else is possible.

    None if a tool would notice and revert every possible addition.
    """
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required, preferred = of_nodes.get(_REQUIRED), of_nodes.get(_PREFERRED)
    if required is None or not git_managed:
        # Terms are alternatives: each of them must avoid the nodes.
        before = [{}] if required is None else required.get("nodeSelectorTerms") or ()
        terms = [_term(term, nodes) for term in before]
        added: dict[str, Any] = {_REQUIRED: {**(required or {}), "nodeSelectorTerms": terms}}
    elif not preferred:
        added = {_PREFERRED: [{"weight": _WEIGHT, "preference": _term({}, nodes)}]}
    else:
        return None
    affinity = {**affinity, "nodeAffinity": {**of_nodes, **added}}
    return {**pod, "spec": {**spec, "affinity": affinity}}


def _term(term: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Extend a term so that it does not match the nodes, by name, which may not be the host's."""
    # A requirement of a field has exactly one value (k8s.io/kubernetes, pkg/apis/core/validation,
    # ValidateNodeFieldSelectorRequirement).
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    return {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}


# A gang that has begun to end ----------------------------------------------------------------
#
# Coscheduling and Kubernetes start no Pod while fewer Pods of its gang exist than the minimum,
# and do not count those that have succeeded (scheduler-plugins 0.34.7, pkg/coscheduling/core,
# PreFilter; k8s.io/kubernetes 1.37.2, plugins/gangscheduling, PreEnqueue).


def outside_of_gang(pod: Object) -> LiveObject:
    metadata = pod["metadata"]
    labels = {key: text for key, text in metadata["labels"].items() if key != COSCHEDULING_GROUP}
    spec = {key: value for key, value in pod["spec"].items() if key not in NATIVE_GROUPS}
    return {**pod, "metadata": {**metadata, "labels": labels}, "spec": spec}


class StoredRun:
    """The run in a job's ConfigMap, compiled on demand.

    Attributes:
        tracking: The marks of the tool that declares the ConfigMap.
        namespace: The namespace of the ConfigMap, whatever the job says.
    """

    def __init__(self, config: Mapping[str, Any], most: int = MOST_PODS) -> None:
        """Read a live ConfigMap with at most `most` replicas, or raise StoredJobError."""
        metadata = config["metadata"]
        self.uid: str = metadata["uid"]
        self.created = seconds(metadata.get("creationTimestamp")) or 0.0
        self.namespace: str = metadata["namespace"]
        self.tracking = Tracking.of(metadata)
        if STORED_JOB not in (config.get("data") or {}):
            raise StoredJobError(f"it has no {STORED_JOB}")
        self.text: str = config["data"][STORED_JOB]
        stored = read_text(self.text, most)
        check_place(stored.job, metadata)
        self._value, self.settings = stored.value, stored.settings
        with reading():
            self.job = backend.gang.suited(stored.job, self.settings)
            self.spec_hash = backend.spec_hash(self.job)
            self._edits = read_patches(self._value)

    @classmethod
    def copied(cls, metadata: Mapping[str, Any], text: object, spec_hash: str, most: int) -> Self:
        """Read a copy of a job next to a run record, or raise StoredJobError if it is no such."""
        if not isinstance(text, str):
            raise StoredJobError("there is no copy of it")
        run = cls({"metadata": metadata, "data": {STORED_JOB: text}}, most)
        if run.spec_hash != spec_hash:
            raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
        return run

    @property
    def git_managed(self) -> bool:
        """Report whether a tool recreates what is deleted, and deletes what Git does not have."""
        return self.tracking.synced or bool({"argocd", "flux"} & {*self.settings.profiles})

    @cached_property
    def names(self) -> Mapping[str, Role]:
        return {role.pod_name(member): role for role in self.job.roles for member in role.members}

    @cached_property
    def _situation(self) -> backend.Situation:
        return situation_of_some(self.job, self.settings, read_declared(self._value), self._edits)

    @reading()
    def pods(
        self, role: str, indexes: Iterable[int | None], tracking: Tracking | None = None
    ) -> list[tuple[int | None, LiveObject]]:
        """Return the complete Pods of replicas, each with its number in the role.

        An existing Pod may have other marks than the ConfigMap, if two parts of Git declare them.
        """
        numbers = frozenset(indexes)
        if (declared := self.job.role(role)) is None:
            return []
        members = [member for member in declared.members if member.index in numbers]
        values = pods(self.job, self.settings, role, members, self._edits, self.spec_hash)
        if self.settings.profiles:
            values = backend.annotated(values, self.settings.profiles, self._situation)
        marks = self.tracking.as_on(tracking) if tracking else self.tracking
        marked = (marks.on(value, self.namespace) for value in values)
        return [(member.index, pod) for member, pod in zip(members, marked, strict=True)]

    @reading()
    def undeclared_pod(self, role: str, member: Member, name: str) -> LiveObject:
        """Return the Pod of a replica under a name that the job does not declare.

        It has no marks of a tool that syncs Git, which would delete what Git does not declare
        (reference/gitops.md 1.5). Its host has the replica's usual name.
        """
        [pod] = pods(self.job, self.settings, role, [member], self._edits, self.spec_hash)
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata["name"] != name:
            spec = {"hostname": metadata["name"], **spec}
        metadata = {**metadata, "name": name, "namespace": self.namespace}
        return {**pod, "metadata": metadata, "spec": spec}

    def objects(self) -> dict[tuple[str, str], frozenset[str]]:
        """Return the names of all objects but Pods and claims, by apiVersion and kind."""
        names: dict[tuple[str, str], set[str]] = {}
        for value in backend.lower(self.job, self.settings, backend.Texts(None), ""):
            if value["kind"] not in ("Pod", "PersistentVolumeClaim"):
                kind = value["apiVersion"], value["kind"]
                names.setdefault(kind, set()).add(value["metadata"]["name"])
        for secret in self.secrets():
            names.setdefault(("v1", "Secret"), set()).add(secret["metadata"]["name"])
        return {kind: frozenset(of_kind) for kind, of_kind in names.items()}

    @reading()
    def secrets(self) -> list[LiveObject]:
        """Return the Secrets that are created in the cluster, without their keys."""
        return [
            with_metadata(value, namespace=self.namespace)
            for value in backend.generated(self.job, self.settings.secret)
        ]
