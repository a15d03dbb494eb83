"""Other Kubernetes objects among the inputs, so that one directory holds all of a job.

They pass through as they are, without what only a cluster can have written.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.k8s.objects import SERVER_METADATA
from etcompile.model.sizes import LAST_APPLIED

_LIVE_METADATA = sorted({*SERVER_METADATA, "ownerReferences"})

_CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterTrustBundle",
        "CustomResourceDefinition",
        "DeviceClass",
        "FlowSchema",
        "IPAddress",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ResourceSlice",
        "RuntimeClass",
        "ServiceCIDR",
        "StorageClass",
        "StorageVersionMigration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)


def declared(source: Source) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The object as Git should hold it.

    Args:
        source: A document that is no kind of ours, in its namespace.

    Returns:
        The object without `status` and what else a cluster writes, and a warning if there was
        any of that.
    """
    data = dict(source.data)
    metadata = dict(data.get("metadata") or {})
    live = [f"metadata.{name}" for name in _LIVE_METADATA if metadata.pop(name, None) is not None]
    if data.pop("status", None):
        live.append("status")
    annotations = dict(metadata.get("annotations") or {})
    if annotations.pop(LAST_APPLIED, None):
        live.append(f"annotation {LAST_APPLIED}")
        metadata["annotations"] = annotations
    if not annotations:
        metadata.pop("annotations", None)
    data["metadata"] = metadata
    if not live:
        return data, []
    what = f"{data['kind']} '{metadata.get('name', '')}'"
    place = source.locate(("metadata",), key=True)
    return data, [diagnose(codes.RUNTIME_METADATA, place, what=what, fields=", ".join(live))]


def may_have_namespace(data: Mapping[str, Any]) -> bool:
    """Whether the namespace that an object names may mean anything."""
    return data["kind"] not in _CLUSTER_SCOPED or not _is_builtin(data)


def is_namespaced(data: Mapping[str, Any]) -> bool:
    """Whether an object that names no namespace is known to have one.

    Whether a custom resource has cannot be known here, so it counts as having none.
    """
    return _is_builtin(data) and data["kind"] not in _CLUSTER_SCOPED


def _is_builtin(data: Mapping[str, Any]) -> bool:
    group: str = data["apiVersion"].rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")
