"""Parse an overlay document into settings and edits, each with its target.

Every shorthand of an overlay becomes one of four kinds of edits, so that the two places that apply
them need to know no more. Targets select as in kustomize.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, field, json, structs, to_builtins

from etcompile.diagnostics import Diagnostic, Source
from etcompile.k8s.objects import Object, without_nulls
from etcompile.k8s.path import dotted, mapping_at
from etcompile.k8s.traced import Traced
from etcompile.model import Origin
from etcompile.model.protocol import ROLE_LABEL

API_VERSION = "etcompile.dev/v1alpha1"
KIND = "Overlay"
SCHEMA = "Overlay.json"

Reach = Literal["jobs", "documents", "objects"]
"""What an edit without a kind in its target selects: job documents; these and other objects among
the inputs; or everything that is rendered."""


Change = Literal["namespace", "patch", "image", "resources"]
"""What an edit does: move documents to a namespace, patch them, change the name, tag, digest or
pull policy of an image, or change requests and limits."""


class Target(Struct, frozen=True, rename={"api_version": "apiVersion"}, omit_defaults=True):
    """A selection of documents and objects; None selects all.

    Args:
        namespace: An object without one is in `default`.
        labels: Globs over the values of labels that it must have.
        role: A role: of a job document its Pod template, of an object its label.
    """

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    role: str | None = None

    def selects(self, value: Mapping[str, Any]) -> bool:
        """Report whether it selects an object, whose role is in its label."""
        labels = (value.get("metadata") or {}).get("labels")
        role = labels.get(ROLE_LABEL) if isinstance(labels, dict) else None
        return self.selects_document(value) and self.role in (None, role)

    def selects_document(self, value: Mapping[str, Any], default: str | None = None) -> bool:
        """Report whether it selects a document, which is in `default` if it names no namespace."""
        metadata = mapping_at(value, ("metadata",))
        labels = mapping_at(metadata, ("labels",))
        return (
            self.api_version in (None, value.get("apiVersion"))
            and self.kind in (None, value.get("kind"))
            and (self.name is None or fnmatchcase(str(metadata.get("name", "")), self.name))
            and self.namespace in (None, metadata.get("namespace") or default or "default")
            and all(
                isinstance(label := labels.get(key), str) and fnmatchcase(label, pattern)
                for key, pattern in self.labels.items()
            )
        )

    def __str__(self) -> str:
        words = [self.kind or "document"]
        words += [f"named '{self.name}'"] if self.name else []
        words += [f"of role '{self.role}'"] if self.role else []
        words += [f"in namespace '{self.namespace}'"] if self.namespace else []
        words += [f"labelled {key}={text}" for key, text in self.labels.items()]
        return " ".join(words)


_TARGET = json.Decoder(Target)


class Edit(Struct, frozen=True, eq=False):
    """One entry of an overlay, compared by identity.

    Args:
        reach: What it selects if its target names no kind.
        value: The namespace, the patch (a strategic merge patch or a JSON patch), or the entry.
    """

    origin: Origin
    reach: Reach
    target: Target
    change: Change
    value: Traced
    optional: bool = False

    @property
    def title(self) -> str:
        return dotted(self.origin.path)

    @property
    def is_for_templates(self) -> bool:
        by_role = self.change == "patch" and self.target.role is not None
        return by_role or self.change in ("image", "resources")

    @property
    def metadata_only(self) -> bool:
        if self.change != "patch":
            return False
        if isinstance(self.value.value, Mapping):
            return self.value.value.keys() <= {"metadata"}
        return all(
            str(operation.get(field) or "/metadata/").startswith("/metadata/")
            for operation in self.value.value
            for field in ("path", "from")
        )


class Overlay(Struct, frozen=True):
    source: Source
    settings: Mapping[str, Any]
    edits: tuple[Edit, ...]


class PatchedObjects(Struct, frozen=True):
    """A job's objects after overlays.

    Args:
        changed: Objects that an edit touched, with the places of their values; only one of a role's
            replicas that the same edits touched.
        edits: The edits that applied to any, in order, each with the kinds that it touched.
        diagnostics: The edits that failed, or would break the job.
    """

    objects: tuple[Object, ...]
    changed: tuple[Traced, ...]
    edits: Mapping[Edit, frozenset[str]]
    diagnostics: tuple[Diagnostic, ...]


def overlay_of(source: Source) -> Overlay:
    data: Mapping[str, Any] = source.data
    settings = data.get("settings") or {}
    edits: list[Edit] = []
    if (namespace := data.get("namespace")) is not None:
        origin = Origin(source, ("namespace",))
        value = Traced(namespace, source, origin.path)
        edits.append(Edit(origin, "documents", Target(), "namespace", value, optional=True))
    for name in ("labels", "annotations", "images", "resources", "patches"):
        for number, entry in enumerate(data.get(name) or ()):
            edits.append(_edit(name, entry, Origin(source, (name, number))))
    named = {name: value for name, value in settings.items() if value is not None}
    return Overlay(source, named, tuple(edits))


def is_overlay(document: Source) -> bool:
    data = document.data
    return (data.get("apiVersion"), data.get("kind")) == (API_VERSION, KIND)


def stored_patch(edit: Edit) -> dict[str, Any]:
    patch = {"patch": edit.value.value}
    target = to_builtins(edit.target)
    return {"target": target, **patch} if target else patch


def stored_edits(source: Source) -> tuple[Edit, ...]:
    entries = enumerate(source.data.get("patches", ()))
    edits = (_edit("patches", entry, Origin(source, ("patches", n))) for n, entry in entries)
    return tuple(structs.replace(edit, reach="objects") for edit in edits)


def _edit(field: str, entry: Mapping[str, Any], origin: Origin) -> Edit:
    change: Change = "patch"
    reach: Reach = "jobs"
    value = Traced(entry, origin.source, origin.path)
    match field:
        case "labels" | "annotations":
            # A merge patch with nothing else in it.
            pairs = Traced(entry["pairs"], value.source, (*value.path, "pairs"))
            inner = Traced({field: pairs.value}, pairs.source, pairs.path, {field: pairs})
            whole = {"metadata": inner.value}
            reach = "objects"
            value = Traced(whole, pairs.source, pairs.path, {"metadata": inner})
        case "images":
            reach, change = "documents", "image"
        case "resources":
            change = "resources"
        case _:
            value = Traced(entry["patch"], value.source, (*value.path, "patch"))
    target = _TARGET.decode(json.encode(without_nulls(entry.get("target") or {})))
    return Edit(origin, reach, target, change, value, optional=bool(entry.get("optional")))
