"""Read Kubernetes objects: metadata, times, scope, waves and conditions."""

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from etcompile.k8s.path import mapping_at

Object = Mapping[str, Any]
"""An object that is only read: a manifest, or a compiled one."""

LiveObject = dict[str, Any]
"""An object that its holder may change: an answer of the API server, or one under construction."""

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

SERVER_METADATA = frozenset(
    {
        *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation"),
        *("managedFields", "resourceVersion", "selfLink", "uid"),
    }
)
"""Fields of metadata that only an API server writes."""

_TEXTS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Fields that hold a map of texts in any kind."""
_TEXTS_OF = {
    ("v1", "ConfigMap"): ("data", "binaryData"),
    ("v1", "Secret"): ("data", "stringData"),
    ("v1", "Service"): ("selector",),
}
"""Fields that hold one in this kind."""


def labels_of(value: Object) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = value["metadata"].get("labels") or {}
    return labels


def annotations_of(value: Object) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = value["metadata"].get("annotations") or {}
    return annotations


def with_metadata(value: Object, **fields: Any) -> LiveObject:
    """Return an object with these fields of its metadata; those that are None stay as they are."""
    changes = {name: field for name, field in fields.items() if field is not None}
    return {**value, "metadata": {**value["metadata"], **changes}}


def status_of(value: Object) -> Object:
    status: Object = value.get("status") or {}
    return status


def created_at(value: Object) -> str:
    """Return when the API server created an object (RFC 3339); empty if it has not."""
    return value["metadata"].get("creationTimestamp") or ""


def is_going(value: Object) -> bool:
    return bool(value["metadata"].get("deletionTimestamp"))


def what_keeps(value: Object) -> str:
    """Return what delays a deletion, as a clause that begins with a comma; or nothing."""
    finalizers = value["metadata"].get("finalizers") or ()
    others = [name for name in finalizers if name != "foregroundDeletion"]
    if others:
        return f", kept by the finalizers {', '.join(others)}"
    return ", once its Pods have ended" if finalizers else ""


_LONGEST_TIME = 40


def seconds(time: str | None) -> float | None:
    """Parse a time of the API server (RFC 3339) to seconds since 1970; None if it is no time."""
    try:
        return None if time is None or len(time) > _LONGEST_TIME else _seconds(time)
    except (ValueError, OverflowError, TypeError):
        return None


@functools.lru_cache(maxsize=4096)  # each event of a Pod repeats its times
def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def without_nulls(value: Any) -> Any:
    """Return a JSON value without null entries, which Kubernetes treats as absent.

    Null items of a list stay, so that the others keep their index. A value without nulls is
    returned as it is, else a copy.
    """
    if isinstance(value, dict):
        fields = {key: without_nulls(field) for key, field in value.items() if field is not None}
        same = len(fields) == len(value) and all(fields[key] is value[key] for key in fields)
        return value if same else fields
    if isinstance(value, list):
        items = [without_nulls(item) for item in value]
        return value if all(map(lambda a, b: a is b, items, value)) else items
    return value


_CUSTOM = "trainer.kubeflow.org/"


def as_read(value: LiveObject) -> LiveObject:
    """Return an object as the API server reads it: null is absent, but empty in a map of texts.

    So `nodeSelector: {example.com/gpu: }` asks for nodes whose label of that name is empty. In
    Trainer's resources, whose CRDs describe each map, every null is absent.
    """
    read: LiveObject = without_nulls(value)
    if read is value:  # nearly always
        return read
    kind = str(value.get("apiVersion")), str(value.get("kind"))
    if kind[0].startswith(_CUSTOM):
        return read
    texts = _TEXTS.union(_TEXTS_OF.get(kind, ()))
    return {key: _read(field, key, texts) for key, field in value.items() if field is not None}


def _read(value: Any, field: str, texts: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_read(item, "", texts) for item in value]
    if not isinstance(value, dict):
        return value
    if field in texts:
        return {key: "" if text is None else without_nulls(text) for key, text in value.items()}
    return {key: _read(inner, key, texts) for key, inner in value.items() if inner is not None}


_CLUSTER_SCOPED = frozenset(
    {
        *("APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole"),
        *("ClusterRoleBinding", "ClusterTrustBundle", "CustomResourceDefinition", "DeviceClass"),
        *("FlowSchema", "IPAddress", "IngressClass", "MutatingAdmissionPolicy"),
        *("MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node"),
        *("PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice"),
        *("RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersionMigration"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass"),
    }
)
"""Kinds of Kubernetes whose objects are in no namespace."""


def may_have_namespace(value: Object) -> bool:
    return value["kind"] not in _CLUSTER_SCOPED or not _is_builtin(value)


def is_namespaced(value: Object) -> bool:
    """Return whether an object that names no namespace surely has one.

    For a custom resource that is unknown here, so the answer is no.
    """
    return _is_builtin(value) and value["kind"] not in _CLUSTER_SCOPED


def is_custom(value: Object) -> bool:
    """Return whether a definition in the cluster, not Kubernetes itself, defines the kind."""
    return not _is_builtin(value) or ".sigs.k8s.io/" in value["apiVersion"]


def _is_builtin(value: Object) -> bool:
    group: str = value["apiVersion"].rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")


# Waves ------------------------------------------------------------------------------------------

WAVE_IDENTITY = -10
"""Identities and sources of secrets: everything else refers to them."""
WAVE_CONFIG = 0
"""What Pods mount, resolve or are scheduled by; also a user's objects."""
WAVE_PODS = 100
"""Everything that makes Pods, together: a wave after a training's Pods would never start."""

SYNC_WAVE = "argocd.argoproj.io/sync-wave"
WAVE_ANNOTATIONS = ("etcompile.dev/wave", SYNC_WAVE)

_IDENTITY_KINDS = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "ClusterSecretStore", "CustomResourceDefinition"),
        *("ExternalSecret", "Namespace", "Role", "RoleBinding", "SSHKey", "SealedSecret", "Secret"),
        *("SecretProviderClass", "SecretStore", "ServiceAccount"),
    }
)
# A claim is here because one that waits for its first consumer is never bound in an earlier
# wave (reference/gitops.md 0, fact 5).
_POD_KINDS = frozenset(
    {
        *("CronJob", "DaemonSet", "Deployment", "Job", "PersistentVolumeClaim", "Pod"),
        *("ReplicaSet", "ReplicationController", "StatefulSet"),
    }
)

FOREMOST_KINDS = ("Namespace", "CustomResourceDefinition")
"""Kinds without which other objects of the same wave cannot be created."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


def wave(value: Object) -> int:
    """Return the wave of an object: lower waves are applied earlier.

    It is the integer in the annotation `etcompile.dev/wave`, else the one in
    `argocd.argoproj.io/sync-wave`, else that of the kind: -10, 0 or 100
    (reference/gitops.md 9). An annotation that is no quoted integer does not count.
    """
    annotations = mapping_at(value, ("metadata", "annotations"))
    for name in WAVE_ANNOTATIONS:
        written = annotations.get(name)
        if isinstance(written, str) and _INTEGER.fullmatch(written):
            return int(written)
    kind = str(value.get("kind"))
    if kind in _IDENTITY_KINDS:
        return WAVE_IDENTITY
    return WAVE_PODS if kind in _POD_KINDS else WAVE_CONFIG


# Conditions ---------------------------------------------------------------------------------------


def condition(status: Object, kind: str) -> Mapping[str, Any]:
    reported: Mapping[str, Any]
    for reported in status.get("conditions") or ():
        if reported.get("type") == kind:
            return reported
    return {}


def is_true(status: Object, kind: str) -> bool:
    return condition(status, kind).get("status") == "True"
