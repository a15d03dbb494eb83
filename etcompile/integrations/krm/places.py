"""Locates diagnostics in a ResourceList: in which item, at which field.

The compiler's diagnostics have a file and a line, and an item has none that its author would know.
So the place of a value in an item is the item's name and the path of the field.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Location, ValuePath
from etcompile.k8s.path import dotted, mapping_at
from etcompile.load import Document

PATHS = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
INDEXES = ("internal.config.kubernetes.io/index", "config.kubernetes.io/index")

_PIPELINES = (
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""Prefixes of the annotations by which pipelines know their items again."""


class ItemPlaces(Struct, frozen=True, eq=False):
    """An item, as something that knows its places."""

    name: str
    item: Mapping[str, Any]

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        """The place of the value at `path`, whether that exists or not."""
        return ItemLocation(self.name, places=self, path=path)


class ItemLocation(Location, frozen=True, kw_only=True):
    """A place in an item."""

    places: ItemPlaces
    path: ValuePath

    def __str__(self) -> str:
        return f"{self.file}: {dotted(self.path)}" if self.path else self.file


def document(item: Mapping[str, Any], *, in_file: bool = True) -> Document:
    """An item as the compiler reads it: without what pipelines note on it.

    Args:
        item: An item of a ResourceList, JSON.
        in_file: Call it by its file. The configuration is not: what it names is named from where
            the function runs, and not from beside that file.
    """
    data = dict(item)
    if isinstance(metadata(item).get("annotations"), dict):
        own = {k: v for k, v in annotations(item).items() if not k.startswith(_PIPELINES)}
        rest = {name: value for name, value in metadata(item).items() if name != "annotations"}
        data["metadata"] = {**rest, "annotations": own} if own else rest
    name = (in_file and file_of(item)) or _label(item, qualified=in_file)
    return Document(name, name, 0, data, ItemPlaces(name, item))


def file_of(item: Mapping[str, Any]) -> str | None:
    """The file that an item comes from, if the pipeline says."""
    noted = (annotations(item).get(annotation) for annotation in PATHS)
    return next((found for found in noted if isinstance(found, str) and found), None)


def metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item's metadata; empty where it has none, or something else in its place."""
    return mapping_at(item, ("metadata",))


def annotations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """All of an item's annotations."""
    return mapping_at(item, ("metadata", "annotations"))


def _label(item: Mapping[str, Any], *, qualified: bool) -> str:
    own = metadata(item)
    names = (qualified and own.get("namespace"), own.get("name"))
    return f"{item.get('kind')} {'/'.join(str(name) for name in names if name) or '(no name)'}"
