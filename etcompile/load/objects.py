"""JSON values to documents: Lists flattened, kustomizations left out, the rest told apart.

kubectl does the same between reading a file and sending its objects. It is apart from reading
because values that Python code hands over go through it too.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose
from etcompile.load.document import Document
from etcompile.load.limits import Limits
from etcompile.load.positions import Origin

_KUSTOMIZE_GROUP = "kustomize.config.k8s.io/"
_KUSTOMIZE_KINDS = ("Kustomization", "Component")
_FUNCTION_GROUP = "etcompile.dev/"
_FUNCTION_KINDS = ("EtcompileGenerator", "EtcompileTransformer")
"""What a kustomization lists to have jobs compiled; see `etcompile.integrations.krm`."""
_KUSTOMIZE_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class Node(Struct, frozen=True):
    """A value that may be an object, and where it stands.

    Args:
        value: A JSON value.
        origin: The text it was read from, if it was.
        path: Where in the document it stands.
    """

    value: Any
    origin: Origin | None
    path: ValuePath = ()


def documents(
    nodes: Iterable[Node], file: str, relative: str, limits: Limits
) -> tuple[list[Document], list[Diagnostic]]:
    """The documents of a file.

    Args:
        nodes: The values of the file, in order; None stands for an empty document.
        file: The file as the user named it.
        relative: Its name independent of the working directory.
        limits: Bound on the number of documents.

    Returns:
        The documents, numbered from 0, and what is wrong with the others.
    """
    found: list[Document] = []
    problems: list[Diagnostic] = []
    for node in nodes:
        for item in _objects(node, file):
            if isinstance(item, Diagnostic):
                problems.append(item)
            elif len(found) == limits.documents:
                place = _locate(item, file, ())
                problems.append(diagnose(codes.TOO_MANY_DOCUMENTS, place, limit=limits.documents))
                return [], problems
            else:
                number = len(found)
                found.append(Document(file, relative, number, item.value, item.origin, item.path))
    return found, problems


def _objects(node: Node, file: str) -> Iterator[Node | Diagnostic]:
    """The objects that a value is or lists."""
    value = node.value
    if value is None:
        return
    if not isinstance(value, dict):
        yield diagnose(codes.NOT_AN_OBJECT, _locate(node, file, ()), found=_shape(value))
        return
    kind, version = value.get("kind"), value.get("apiVersion")
    if isinstance(kind, str) and (kind == "List" or (kind.endswith("List") and "items" in value)):
        yield from _items(node, file)
    elif kind in _KUSTOMIZE_KINDS and str(version).startswith(_KUSTOMIZE_GROUP):
        yield diagnose(
            codes.KUSTOMIZATION_INPUT, _locate(node, file, ("kind",)), what="a kustomization"
        )
    elif kind in _FUNCTION_KINDS and str(version).startswith(_FUNCTION_GROUP):
        yield diagnose(codes.KUSTOMIZATION_INPUT, _locate(node, file, ("kind",)), what=f"an {kind}")
    elif kind is None and version is None and Path(file).name in _KUSTOMIZE_FILES:
        # kustomize itself fills the two in.
        yield diagnose(codes.KUSTOMIZATION_INPUT, _locate(node, file, ()), what="a kustomization")
    else:
        lacking = [name for name in ("apiVersion", "kind") if not _is_name(value.get(name))]
        for name in lacking:
            field = f"{name} that is text" if value.get(name) is not None else name
            yield diagnose(codes.NO_KIND, _locate(node, file, (name,)), field=field)
        if not lacking:
            yield node


def _items(node: Node, file: str) -> Iterator[Node | Diagnostic]:
    """The objects of a List, and of the Lists among its items."""
    items = node.value.get("items")
    if not isinstance(items, list):
        yield diagnose(codes.LIST_ITEMS, _locate(node, file, ("items",)))
        return
    for index, item in enumerate(items):
        path: ValuePath = ("items", index)
        if isinstance(item, dict):
            yield from _objects(Node(_typed(item, node.value), node.origin, node.path + path), file)
        else:
            yield diagnose(codes.LIST_ITEMS, _locate(node, file, path))


def _typed(item: dict[str, Any], listed: dict[str, Any]) -> dict[str, Any]:
    """The item with the type that a typed list leaves out: a PodList holds Pods."""
    kind = listed["kind"].removesuffix("List")
    if not kind or "kind" in item or "apiVersion" in item:
        return item
    return {"apiVersion": listed.get("apiVersion"), "kind": kind, **item}


def _locate(node: Node, file: str, path: ValuePath) -> Location:
    return node.origin.locate(node.path + path) if node.origin else Location(file)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _shape(value: object) -> str:
    """What a JSON value that is not a mapping is called."""
    match value:
        case str():
            return "text"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
    return "a list"
