"""A document as it is stored with the job: enough to make the job again, and no more."""

from collections.abc import Iterable
from typing import Any

from etcompile.diagnostics import Source
from etcompile.model.schedulers import scheduler_keys


def clean_document(source: Source, annotations: Iterable[str]) -> dict[str, Any]:
    """The document without what a cluster or a person adds to it for other purposes."""
    data = source.data
    metadata: dict[str, Any] = {"name": data["metadata"]["name"]}
    if namespace := data["metadata"].get("namespace"):
        metadata["namespace"] = namespace
    given = data["metadata"].get("annotations", {})
    # A scheduler's own keys steer Pods too: the watcher's must be in the same queue.
    wanted = dict.fromkeys((*annotations, *scheduler_keys(given)))
    if kept := {name: given[name] for name in wanted if name in given}:
        metadata["annotations"] = kept
    labels = data["metadata"].get("labels", {})
    if own := {name: labels[name] for name in scheduler_keys(labels)}:
        metadata["labels"] = own
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "metadata": metadata,
        "spec": data["spec"],
    }
