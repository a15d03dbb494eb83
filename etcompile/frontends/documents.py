"""A document as it is stored with the job: enough to make the job again, and no more."""

from collections.abc import Iterable
from typing import Any

from etcompile.diagnostics import Source
from etcompile.model import KUEUE_QUEUE


def clean_document(source: Source, annotations: Iterable[str]) -> dict[str, Any]:
    """The document without what a cluster or a person adds to it for other purposes.

    Args:
        source: The document.
        annotations: The annotations that its kind reads.
    """
    data = source.data
    metadata: dict[str, Any] = {"name": data["metadata"]["name"]}
    if namespace := data["metadata"].get("namespace"):
        metadata["namespace"] = namespace
    given = data["metadata"].get("annotations", {})
    if kept := {name: given[name] for name in annotations if name in given}:
        metadata["annotations"] = kept
    if (queue := data["metadata"].get("labels", {}).get(KUEUE_QUEUE)) is not None:
        metadata["labels"] = {KUEUE_QUEUE: queue}
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "metadata": metadata,
        "spec": data["spec"],
    }
