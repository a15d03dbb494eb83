"""An overlay document to settings and edits, each with what it is for.

Every convenience of an overlay becomes an edit of one of four sorts, so that the two places that
apply edits, before the frontends and after the backend, need to know no more than these. Targets
select in the words of kustomize.
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
"""What an edit whose target names no kind is for: job documents; these and other objects among
the inputs; or everything that is rendered."""


Change = Literal["namespace", "patch", "image", "resources"]
"""What an edit does: it moves documents into a namespace, patches them, changes the name, tag,
digest or pull policy of an image, or changes requests and limits."""


class Target(Struct, frozen=True, rename={"api_version": "apiVersion"}, omit_defaults=True):
    """A selection of documents and objects; what is None selects all.

    Args:
        namespace: An object without one is in `default`.
        labels: Labels that it must have, to globs over their values.
        role: The replica's role: of a job document its Pod template, of an object its label.
    """

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    role: str | None = None

    def selects(self, value: Mapping[str, Any]) -> bool:
        """Whether it selects an object, whose role is that of its label."""
        labels = (value.get("metadata") or {}).get("labels")
        role = labels.get(ROLE_LABEL) if isinstance(labels, dict) else None
        return self.selects_document(value) and self.role in (None, role)

    def selects_document(self, value: Mapping[str, Any], default: str | None = None) -> bool:
        """Whether it selects a document, which is in `default` if it names no namespace."""
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
    """One entry of an overlay; two are the same only if they are one.

    Args:
        reach: What it is for when its target names no kind.
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
        """What messages call it: `patches[0]`."""
        return dotted(self.origin.path)

    @property
    def is_for_templates(self) -> bool:
        """Whether it is for Pod templates, and leaves the rest of a document."""
        by_role = self.change == "patch" and self.target.role is not None
        return by_role or self.change in ("image", "resources")

    @property
    def metadata_only(self) -> bool:
        """Whether it leaves everything but labels and annotations as it is."""
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
    """An overlay."""

    source: Source
    settings: Mapping[str, Any]
    edits: tuple[Edit, ...]


class PatchedObjects(Struct, frozen=True):
    """A job's objects after overlays.

    Args:
        changed: Those that an edit touched, with the places of their values; of a role's replicas
            that the same edits touched, one.
        edits: The edits that applied to any, in order, each with the kinds that it touched.
        diagnostics: The edits that failed, or would break the job.
    """

    objects: tuple[Object, ...]
    changed: tuple[Traced, ...]
    edits: Mapping[Edit, frozenset[str]]
    diagnostics: tuple[Diagnostic, ...]


def overlay_of(source: Source) -> Overlay:
    """The overlay that a document describes, one that `schemas/Overlay.json` accepts."""
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
    """Whether a document is an overlay, not something to compile."""
    data = document.data
    return (data.get("apiVersion"), data.get("kind")) == (API_VERSION, KIND)


def stored_patch(edit: Edit) -> dict[str, Any]:
    """A patch of objects as the stored job carries it."""
    patch = {"patch": edit.value.value}
    target = to_builtins(edit.target)
    return {"target": target, **patch} if target else patch


def stored_edits(source: Source) -> tuple[Edit, ...]:
    """The edits of objects that a stored job carries."""
    entries = enumerate(source.data.get("patches", ()))
    edits = (_edit("patches", entry, Origin(source, ("patches", n))) for n, entry in entries)
    return tuple(structs.replace(edit, reach="objects") for edit in edits)


def _edit(field: str, entry: Mapping[str, Any], origin: Origin) -> Edit:
    """The edit that an entry of a field of an overlay describes."""
    change: Change = "patch"
    reach: Reach = "jobs"
    value = Traced(entry, origin.source, origin.path)
    match field:
        case "labels" | "annotations":
            # A merge patch that holds nothing else.
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
