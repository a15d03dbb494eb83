"""Recognise labels and annotations in which tools keep state about an object, and measure them.

They describe the one object that has them. Copied to another object of the same job, they would
make Argo CD track what it does not declare, or kubectl compare it with what it never applied.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

PREFIXES = (
    *("etcompile.dev/", "kubectl.kubernetes.io/", "applyset.kubernetes.io/", "argocd.argoproj.io/"),
    *("kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "reconcile.fluxcd.io/"),
    *("fluxcd.io/", "kapp.k14s.io/", "meta.helm.sh/", "helm.sh/", "config.k8s.io/"),
    *("config.kubernetes.io/", "internal.config.kubernetes.io/", "client.lifecycle.config.k8s.io/"),
    *("kustomize.config.k8s.io/", "internal.kpt.dev/"),
)
"""Prefixes of the keys of such labels and annotations."""
# Argo CD may track objects by this label (reference/gitops.md 1.4).
_NAMES = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "kubernetes.io/change-cause",
)


def is_bookkeeping(key: str) -> bool:
    """Return whether a label or annotation describes only the object that has it."""
    return key.startswith(PREFIXES) or key in _NAMES


class Mark(NamedTuple):
    """How a tool marks the objects that it manages."""

    field: Literal["labels", "annotations"]
    tool: str = ""  # what manages the object, before the value in a message; empty: not named
    on_pods: bool = True  # a Pod that the watcher creates needs it, too


ARGO_ID = "argocd.argoproj.io/tracking-id"
"""Argo CD's mark, `APPLICATION:GROUP/KIND:NAMESPACE/NAME`: the only one that names its object."""
ARGO_LABELS = ("argocd.argoproj.io/instance", "app.kubernetes.io/instance")
"""The labels that Argo CD tracks by. Another key can be configured (reference/gitops.md 1.1)."""
MARKS: Mapping[str, Mark] = {
    "kustomize.toolkit.fluxcd.io/name": Mark("labels", "Flux Kustomization"),
    "kustomize.toolkit.fluxcd.io/namespace": Mark("labels"),
    "helm.toolkit.fluxcd.io/name": Mark("labels", "Flux HelmRelease"),
    "helm.toolkit.fluxcd.io/namespace": Mark("labels"),
    "kapp.k14s.io/app": Mark("labels", "kapp app"),
    "meta.helm.sh/release-name": Mark("annotations", "Helm release", on_pods=False),
    "config.k8s.io/owning-inventory": Mark("annotations", "inventory"),
    "argocd.argoproj.io/installation-id": Mark("annotations"),
    **dict.fromkeys(ARGO_LABELS, Mark("labels")),
    "applyset.kubernetes.io/part-of": Mark("labels"),
}
"""The marks besides `ARGO_ID`, by their keys."""


# Sizes --------------------------------------------------------------------------------------------

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations of one object: Kubernetes' validation, TotalAnnotationSizeLimitB."""
STORED_LIMIT = 1536 * 1024
"""Bytes of one request to etcd, `--max-request-bytes`."""
DATA_LIMIT = 1024 * 1024
"""Bytes of the data of one ConfigMap or Secret."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl and other tools store a copy of what they applied."""
_ESCAPED = "<>&\u2028\u2029"
"""Characters that Go's JSON encoder writes as six characters."""


def copied_annotations(value: Mapping[str, Any]) -> int:
    """Return the bytes of an object's annotations after a client-side `kubectl apply`.

    That stores a copy of the object, as JSON, in an annotation of it.
    """
    metadata = value["metadata"]
    annotations = metadata.get("annotations") or {}
    whole = {**value, "metadata": {**metadata, "annotations": annotations}}
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    escapes = sum(text.count(character) * (6 - len(character.encode())) for character in _ESCAPED)
    size = len(text.encode("utf-8", "surrogatepass")) + escapes + len("\n")
    return size + len(LAST_APPLIED) + stored_size(annotations)


def stored_size(value: object) -> int:
    """Return the least bytes that the API server needs to store a JSON value: its texts alone."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(stored_size(key) + stored_size(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return sum(map(stored_size, value))
    return 0
