"""Read the parts of a document that all kinds share: metadata, Pod templates, what is stored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import ANY, OF_EVERY_JOB, PREFIX, annotations_of
from etcompile.model import Origin, PodTemplate
from etcompile.model.schedulers import scheduler_keys

MAIN_CONTAINER = "kubectl.kubernetes.io/default-container"

MOUNTED_HOME = (
    r"(?!/(?:etc/edl|etc/mpi|etc/etcompile|opt/kube|job)(?:/|$))"
    r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+/?"
)
"""A path that keys can be mounted at: unused by the job, without `..`, and safe in a shell."""


class JobDocument(Struct, frozen=True):
    source: Source

    @property
    def name(self) -> str:
        return str(self.source.data["metadata"]["name"])

    @property
    def fields(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self.source.data["spec"]
        return fields

    def annotation(self, name: str) -> str | None:
        return annotations_of(self.source).get(name)

    @property
    def of_job(self) -> dict[str, Any]:
        """Return the fields of a `Job` that all kinds set in the same way."""
        data = self.source.data
        return {
            "name": self.name,
            "namespace": data["metadata"].get("namespace"),
            "kind": data["kind"],
            "api_version": data["apiVersion"],
            "origin": Origin(self.source),
        }


def main_container(
    origin: Origin, template: Mapping[str, Any]
) -> tuple[str | None, list[Diagnostic]]:
    """Return the container that does the work; the others are sidecars.

    It is the one that `MAIN_CONTAINER` names (None if it does not exist), else the first.
    et-operator always uses the first (reference/et-operator.md 6, defect 42).
    """
    containers: Sequence[Mapping[str, Any]] = template["spec"]["containers"]
    names = [container["name"] for container in containers]
    named = template.get("metadata", {}).get("annotations", {}).get(MAIN_CONTAINER)
    if named is None:
        return names[0], []
    if named in names:
        return named, []
    place = origin.locate("metadata", "annotations", MAIN_CONTAINER)
    return None, [diagnose(codes.NO_MAIN_CONTAINER, place, name=named, known=", ".join(names))]


def pod_template(
    origin: Origin, template: Mapping[str, Any], main: str, **changes: Any
) -> PodTemplate:
    metadata = template.get("metadata", {})
    fields = {
        "labels": metadata.get("labels", {}),
        "annotations": metadata.get("annotations", {}),
        "spec": template["spec"],
    }
    return PodTemplate(**{**fields, **changes}, main=main, origin=origin)


def clean_document(source: Source, annotations: Iterable[str]) -> dict[str, Any]:
    """Return the document as it is stored: all that is needed to compile the job again."""
    data = source.data
    metadata: dict[str, Any] = {"name": data["metadata"]["name"]}
    if namespace := data["metadata"].get("namespace"):
        metadata["namespace"] = namespace
    written = data["metadata"].get("annotations", {})
    # With the keys of schedulers, so that the watcher's Pods are in the same queue.
    names = dict.fromkeys((*annotations, *scheduler_keys(written), *OF_EVERY_JOB))
    if stored := {name: written[name] for name in names if name in written}:
        metadata["annotations"] = stored
    labels = data["metadata"].get("labels", {})
    if stored := {name: labels[name] for name in scheduler_keys(labels)}:
        metadata["labels"] = stored
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "metadata": metadata,
        "spec": data["spec"],
    }


_SEQUENCE = f"{PREFIX}sequence"
OF_INTENTS = {_SEQUENCE: ANY}


def heading(source: Source) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Return the fields of an intent that its metadata set, and problems of its annotations."""
    problems = []
    text = annotations_of(source).get(_SEQUENCE)
    sequence = None
    if text is not None and text.isascii() and text.isdecimal() and len(text) <= 9:
        sequence = int(text)
    elif text is not None:
        place = source.locate(("metadata", "annotations", _SEQUENCE))
        facts = {"name": _SEQUENCE, "expected": "a whole number, quoted", "found": text}
        problems.append(diagnose(codes.SEQUENCE_MALFORMED, place, **facts, advice=""))
    metadata = source.data["metadata"]
    fields = {
        "kind": source.data["kind"],
        "name": metadata.get("name") or metadata["generateName"],
        "generated": not metadata.get("name"),
        "namespace": metadata.get("namespace"),
        "origin": Origin(source),
        "created": metadata.get("creationTimestamp"),
        "sequence": sequence,
    }
    return fields, problems
