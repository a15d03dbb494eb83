"""What the watcher changes in a Pod that the compiler has made: marks of a tool, nodes, its gang.

A Pod that is created again must carry the marks that its predecessor had, or pruning would never
find it. They are read from whatever Pod of the job was seen last, else from the job's ConfigMap:
the two may be declared by two Kustomizations (docs/flux.md). The keys are those of
reference/gitops.md 1.1, 2.1 and 3.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import LiveObject, Object
from etcompile.model.schedulers import COSCHEDULING_GROUP

_ARGO_ID = "argocd.argoproj.io/tracking-id"
_LABELS = (
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    "helm.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/namespace",
    "app.kubernetes.io/instance",  # Argo CD's label tracking; we never render it
    "argocd.argoproj.io/instance",
    "kapp.k14s.io/app",
    "applyset.kubernetes.io/part-of",
)
_ANNOTATIONS = ("argocd.argoproj.io/installation-id", "config.k8s.io/owning-inventory")
_NOT_SYNCED = frozenset({"applyset.kubernetes.io/part-of"})
"""Marks of tools that act when somebody calls them, and bring nothing back by themselves."""


class Tracking(Struct, frozen=True):
    """The marks that all objects of a job have, or all its Pods, from whoever declares them.

    Args:
        application: What Argo CD's tracking id begins with; empty if there is none.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    application: str = ""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Tracking":
        """The marks on the job's ConfigMap, or on a Pod."""
        labels = metadata.get("labels") or {}
        annotations = metadata.get("annotations") or {}
        # APPLICATION:GROUP/KIND:NAMESPACE/NAME
        application = annotations.get(_ARGO_ID, "").split(":", 1)[0]
        return cls(
            {key: labels[key] for key in _LABELS if key in labels},
            {key: annotations[key] for key in _ANNOTATIONS if key in annotations},
            application,
        )

    @property
    def marked(self) -> bool:
        """Whether there are any."""
        return bool(self.labels or self.annotations or self.application)

    @property
    def synced(self) -> bool:
        """Whether a tool brings back what is deleted."""
        marks = {*self.labels, *self.annotations} - _NOT_SYNCED
        return bool(marks or self.application)

    def as_on(self, pod: "Tracking") -> "Tracking":
        """The same marks, with the values that they have on a Pod of the job.

        What only looks like one, because the job's own template has it, is on the Pod and not here:
        it is left out.
        """
        return Tracking(
            {key: pod.labels.get(key, value) for key, value in self.labels.items()},
            {key: pod.annotations.get(key, value) for key, value in self.annotations.items()},
            pod.application if self.application and pod.application else self.application,
        )

    def on(self, value: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        """The object of that namespace with these marks; marks it has stay."""
        metadata = value["metadata"]
        kind, name = value["kind"], metadata["name"]
        group = value["apiVersion"].rpartition("/")[0]
        marks = dict(self.annotations)
        if self.application:
            marks[_ARGO_ID] = f"{self.application}:{group}/{kind}:{namespace}/{name}"
        labels = {**self.labels, **(metadata.get("labels") or {})}
        annotations = {**marks, **(metadata.get("annotations") or {})}
        more = {"annotations": annotations} if annotations else {}
        changed = {**metadata, "namespace": namespace, "labels": labels, **more}
        return {**value, "metadata": changed}


# Nodes to avoid ------------------------------------------------------------------------------
#
# What a tool that syncs Git compares is what Git has. It passes over fields that only the cluster
# has, but a list that Git has must be the same (reference/gitops.md 1.6). The terms of a node
# affinity are such a list, and they cannot be changed in a Pod that is there. So to a Pod with
# terms of its own, that a tool looks after, nothing is added that the tool would see: only a
# preference, if it has none of its own.

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
"""The most that a preference can weigh."""


def avoiding(pod: Object, nodes: Sequence[str], *, git_managed: bool) -> LiveObject | None:
    """A Pod that does not come to some nodes, or if there is no other way would rather not.

    None if a tool would see, and revert, whatever could be added to it.
    """
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    own = affinity.get("nodeAffinity") or {}
    required, preferred = own.get(_REQUIRED), own.get(_PREFERRED)
    if required is None or not git_managed:
        # Terms are alternatives: each of them must avoid the nodes.
        before = [{}] if required is None else required.get("nodeSelectorTerms") or ()
        terms = [_term(term, nodes) for term in before]
        added: dict[str, Any] = {_REQUIRED: {**(required or {}), "nodeSelectorTerms": terms}}
    elif not preferred:
        added = {_PREFERRED: [{"weight": _WEIGHT, "preference": _term({}, nodes)}]}
    else:
        return None
    return {**pod, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": {**own, **added}}}}


def _term(term: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """A term that the nodes do not match; by name, which is not always that of their host."""
    # A requirement of a field has exactly one value (k8s.io/kubernetes, pkg/apis/core/validation,
    # ValidateNodeFieldSelectorRequirement).
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    return {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}


# A gang that has begun to end ----------------------------------------------------------------
#
# Coscheduling starts no Pod while fewer of its gang are there than the minimum, and does not count
# those that have succeeded (scheduler-plugins 0.34.7, pkg/coscheduling/core, PreFilter).


def outside_of_gang(pod: Object) -> LiveObject:
    """A Pod that coscheduling places by itself."""
    metadata = pod["metadata"]
    labels = {key: own for key, own in metadata["labels"].items() if key != COSCHEDULING_GROUP}
    return {**pod, "metadata": {**metadata, "labels": labels}}
