"""Reduce a custom resource of a cluster to the document that a user would have written.

It removes what the API server, an operator or a GitOps tool has added: the status, server-side
metadata, tracking labels and defaults. If another number of workers runs than the document says,
an overlay sets that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.diagnostics import ValuePath
from etcompile.frontends import Kind
from etcompile.k8s.bookkeeping import PREFIXES
from etcompile.k8s.defaults import default
from etcompile.k8s.listkeys import changed_at
from etcompile.k8s.objects import as_read
from etcompile.k8s.path import value_at
from etcompile.load import Document
from etcompile.model import Job

_PRESERVED = ("name", "namespace", "labels", "annotations")
_MEANT = frozenset({"imagePullPolicy", "restartPolicy", "serviceAccountName", "value"})
"""Fields whose default is not removed, because the compiler reads them."""
_EMPTY = ("resources", "securityContext")
"""Fields that the API server sets to an empty mapping."""


def cleaned(document: Document, kind: Kind) -> Document:
    """Remove what only a cluster can have written, such as defaults in Pod templates.

    Returns:
        The document with other data; remaining values have their old places.
    """
    data = as_read(document.data)
    metadata = data.get("metadata")
    plain = {key: value for key, value in data.items() if key != "status"}
    plain["metadata"] = plain_metadata(metadata if isinstance(metadata, Mapping) else {})
    for path in kind.templates_of(plain):
        template, keys = value_at(plain, path), tuple(map(str, path))
        if isinstance(template, Mapping) and keys == path:  # no item of a list
            plain = changed_at(plain, keys, plain_template(template))
    return structs.replace(document, data=plain)


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {name: metadata[name] for name in _PRESERVED if name in metadata}
    if "name" not in plain and "generateName" in metadata:
        plain["generateName"] = metadata["generateName"]
    for name in ("labels", "annotations"):
        if isinstance(plain.get(name), Mapping):
            rest = {
                key: value
                for key, value in plain[name].items()
                if key.startswith("etcompile.dev/") or not key.startswith(PREFIXES)
            }
            if name == "labels" and rest.get("app.kubernetes.io/managed-by") == "Helm":
                rest.pop("app.kubernetes.io/managed-by")
            plain[name] = rest
            if not rest:
                del plain[name]
    return plain


# Templates --------------------------------------------------------------------------------------


def plain_template(template: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in template.items() if key != "status"}
    if isinstance(metadata := plain.get("metadata"), Mapping):
        plain["metadata"] = {k: v for k, v in metadata.items() if k != "creationTimestamp"}
        if not plain["metadata"]:
            del plain["metadata"]
    if isinstance(plain.get("spec"), Mapping):
        plain["spec"] = _without_defaults(("spec",), plain["spec"])
    return plain


def _without_defaults(path: tuple[str, ...], value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, below in value.items():
        field = (*path, key)
        if isinstance(below, Mapping):
            inner = _without_defaults(field, below)
            if inner or not (key in _EMPTY or below):
                plain[key] = inner
        elif isinstance(below, list):
            # An item that consists of defaults stays an item.
            plain[key] = [
                (_without_defaults((*field, f"[{place}]"), item) or item)
                if isinstance(item, Mapping)
                else item
                for place, item in enumerate(below)
            ]
        elif key in _MEANT:
            plain[key] = below
        else:
            rest = {other: value[other] for other in value if other != key}
            usual = default("Pod", field, rest)
            if usual is None or type(usual) is not type(below) or usual != below:
                plain[key] = below
    return plain


# Workers ------------------------------------------------------------------------------------------


def workers(
    document: Document, kind: Kind, job: Job, intents: Sequence[Document]
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the overlay's patch with the running number of workers, if it differs, and notes.

    The status may list other workers than the spec has, because intents have scaled the job or
    workers are missing.
    """
    running = value_at(document.data, kind.operator.workers) if kind.operator else None
    count = len(running) if isinstance(running, list) else 0
    notes = []
    if intents:
        names = ", ".join(intent.label for intent in intents)
        many = "as many workers as run" if count else "as many workers as the spec says"
        notes.append(f"{names}: left out, because the files have {many}")
    role = job.scaled_role
    bounds = role.bounds if role is not None else None
    if role is None or bounds is None or count in (0, len(role.members)):
        return None, notes
    if count < bounds.minimum:
        notes.append(f"{count} workers run; minReplicas is {bounds.minimum}: the next run has that")
        count = bounds.minimum
    patch: dict[str, Any] = {}

    def put(place: ValuePath, field: str) -> None:
        around = patch
        for step in place:
            around = around.setdefault(str(step), {})
        around[field] = count

    if count != len(role.members):
        put(role.origin.path, "replicas")
        notes.append(f"{count} workers run, and the files say so")
    if bounds.maximum is not None and count > bounds.maximum:
        notes.append(f"{count} workers run; maxReplicas is {bounds.maximum}: the files raise it")
        put((bounds.origin or role.origin).path, "maxReplicas")
    return patch or None, notes
