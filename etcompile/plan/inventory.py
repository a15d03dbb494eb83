"""The ApplySet of a job: its id, and what its parent says of its members.

The format is kubectl's (KEP-3659), so that `kubectl apply --prune --applyset` reads our sets
(reference/gitops.md 3).
"""

import base64
import hashlib

from etcompile.k8s.objects import Object
from etcompile.plan.step import ObjectRef

INVENTORY_ID = "applyset.kubernetes.io/id"
"""The label of an ApplySet's parent."""
PART_OF = "applyset.kubernetes.io/part-of"
"""The label of an ApplySet's members, which no input has."""
KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"


def applyset_id(parent: ObjectRef) -> str:
    """The id of the ApplySet with this parent."""
    text = f"{parent.name}.{parent.namespace}.{parent.kind}.{parent.group}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"applyset-{digest.decode().rstrip('=')}-v1"


def parent(job: str, namespace: str) -> ObjectRef:
    """The parent of a job's ApplySet: a ConfigMap, so that no right to Secrets is needed."""
    return ObjectRef("v1", "ConfigMap", namespace, f"etcompile-{job}")


def is_parent(found: Object, ref: ObjectRef) -> bool:
    """Whether an object is an ApplySet's parent, and that of the right one."""
    labels = found["metadata"].get("labels") or {}
    return bool(labels.get(INVENTORY_ID) == applyset_id(ref))


def members(found: Object) -> tuple[list[tuple[str, str]], list[str]]:
    """Where the members of a set are: their API groups and kinds, and their namespaces.

    A parent names no versions: which one to ask for, the cluster knows.
    """
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    kinds = []
    for name in listed(annotations.get(KINDS)):
        kind, _, group = name.partition(".")
        kinds.append((group, kind))
    return kinds, [metadata.get("namespace") or "", *listed(annotations.get(NAMESPACES))]


def listed(annotation: object) -> list[str]:
    """The names that an annotation of a parent holds, with commas between them."""
    return [name for name in str(annotation or "").split(",") if name]
