"""The scale intents of a cluster to those that Git should hold: what was done, in that order.

A status knows more than a spec: which workers really went, which intents failed, and which of
two was first. Apart from folding, which believes the files.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from etcompile.frontends import Kind
from etcompile.integrations.migrate.cleanup import cleaned
from etcompile.load import Document

_SEQUENCE = "etcompile.dev/sequence"


class History(Struct, frozen=True):
    """The intents that count.

    Args:
        documents: Their documents, clean and numbered, in the order in which they were done.
        notes: What became of the others, one line each.
        resources: All of them as kubectl names them, failed ones included.
    """

    documents: tuple[Document, ...]
    notes: tuple[str, ...]
    resources: tuple[str, ...] = ()


def history(intents: Iterable[tuple[Document, Kind]]) -> History:
    """The intents as they were done.

    Failed ones are left out. A ScaleIn names the workers that went. et-operator does the newest
    first (reference/et-operator.md 5.1), so that who began when tells the order, and the
    creationTimestamp only that of those that wait still.

    Args:
        intents: ScaleOuts and ScaleIns, each with its kind, in the order of the input.
    """
    kept: list[tuple[tuple[int, str, str], Document]] = []
    notes = []
    resources = []
    for document, kind in intents:
        status = _mapping(document.data.get("status"))
        phase = status.get("phase")
        if document.name:
            resources.append(f"{kind.name.lower()}.{_group(kind)}/{document.name}")
        if phase == "ScaleFailed":
            notes.append(f"{document.label} failed and is left out")
            continue
        gone = status.get("toDeletePods")
        if document.kind == "ScaleIn" and phase == "ScaleSucceeded" and not gone:
            notes.append(f"{document.label} names no worker that it removed and is left out")
            continue
        made = cleaned(document, kind)
        if isinstance(gone, list) and gone and document.kind == "ScaleIn":
            spec = {**_mapping(made.data.get("spec")), "toDelete": {"podNames": list(gone)}}
            made = structs.replace(made, data={**made.data, "spec": spec})
        if phase not in ("ScaleSucceeded", "Scaling"):
            notes.append(f"{document.label} has not been done yet; the next run begins with it")
        kept.append((_turn(document, status), made))
    kept.sort(key=lambda pair: pair[0])
    return History(
        tuple(_numbered(document, number) for number, (_, document) in enumerate(kept, 1)),
        tuple(notes),
        tuple(resources),
    )


def _turn(document: Document, status: Mapping[str, Any]) -> tuple[int, str, str]:
    """When it was done, or else when it came."""
    created = str(_mapping(document.data.get("metadata")).get("creationTimestamp") or "")
    for condition in status.get("conditions") or ():
        if isinstance(condition, Mapping) and condition.get("type") == "Scaling":
            return (0, str(condition.get("lastTransitionTime") or ""), created)
    return (1, created, "")


def _numbered(document: Document, number: int) -> Document:
    metadata = document.data["metadata"]
    annotations = {**metadata.get("annotations", {}), _SEQUENCE: str(number)}
    data = {**document.data, "metadata": {**metadata, "annotations": annotations}}
    return structs.replace(document, data=data)


def _group(kind: Kind) -> str:
    return kind.api_version.partition("/")[0]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
