"""Read and write the text of a ResourceList, and turn its items into documents.

An untouched item is written as it was read, comments included, because a pipeline that only pipes
(`a | etcompile-krm | b`) cannot restore them. Its author knows no file and line of an item, so the
place of a value in it is the item's name and the field's path.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile import emit
from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, mapping_at
from etcompile.load import Document, Limits
from etcompile.load.source_text import Text, control_character, decoded
from etcompile.load.yaml_values import read

KIND = "ResourceList"
VERSIONS = ("config.kubernetes.io/v1", "config.kubernetes.io/v1beta1")
"""They differ in nothing that is read or written here."""

NAME = "-"
"""The name of the list in diagnostics: standard input."""

PATHS = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
INDEXES = ("internal.config.kubernetes.io/index", "config.kubernetes.io/index")

_PIPELINES = (
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""Prefixes of the annotations by which pipelines recognize their items."""
_ITEMS = re.compile(r"items:\s*(#.*)?")
_ENTRY = re.compile(r"( *)- ")


class Item(Struct, frozen=True):
    """An object of the list.

    Args:
        value: The object, JSON.
        text: The lines it was read from with comments, as an entry of a list at the left margin;
            None if they cannot be separated from others.
    """

    value: dict[str, Any]
    text: str | None = None

    @property
    def is_local(self) -> bool:
        """Return whether it is for the pipeline only and not for a cluster."""
        return annotations(self.value).get("config.kubernetes.io/local-config") == "true"


class ResourceList(Struct, frozen=True):
    """The input of a function.

    Args:
        version: Its apiVersion, which the answer has too.
        config: The function's configuration, JSON; None if there is none.
    """

    version: str
    items: tuple[Item, ...]
    config: dict[str, Any] | None = None

    def is_echo(self, item: Item) -> bool:
        """Return True for the configuration, which kustomize also passes to generators as an item.

        A generator has no other items. Elsewhere, an item of that name is another file.
        """
        config = self.config
        if config is None or len(self.items) > 1 or not item.is_local:
            return False
        return all(
            item.value.get(field) == config.get(field) for field in ("apiVersion", "kind")
        ) and metadata(item.value).get("name") == metadata(config).get("name")


def resource_list(data: bytes, limits: Limits) -> ResourceList | tuple[Diagnostic, ...]:
    """Read a list from YAML or JSON, or return the diagnostics; ET1021 if it is no list."""
    text = decoded(data, NAME)
    if isinstance(text, Diagnostic):
        return (text,)
    if problem := control_character(text):
        return (problem,)
    reading = read(text, limits)
    if reading.problems:
        return tuple(reading.problems)
    values = [document.value for document in reading.documents if document.value is not None]
    if (lacking := _lacking(values)) is not None:
        return (diagnose(codes.NO_RESOURCE_LIST, Location(NAME), problem=lacking),)
    value = values[0]
    listed = value.get("items") or []
    items = [Item(entry) for entry in listed]
    # In a list without brackets an item is a run of lines that are indented more than its dash.
    # Anything else (brackets, anchors of another item) shows when they are read again.
    chunks = list(_chunks(text.content.splitlines(keepends=True)))
    if len(chunks) == len(listed):
        for number, chunk in enumerate(chunks):
            again = read(Text(NAME, chunk), limits)
            is_same = [document.value for document in again.documents] == [[listed[number]]]
            if is_same and not again.problems:
                items[number] = Item(listed[number], chunk)
    return ResourceList(value["apiVersion"], tuple(items), value.get("functionConfig") or None)


def written(
    version: str,
    items: Iterable[Item | Mapping[str, Any]],
    config: Mapping[str, Any] | None,
    results: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield the text of a ResourceList in pieces: items as they were read, and new objects."""
    yield emit.to_yaml({"apiVersion": version, "kind": KIND})
    key = "items:\n"
    for item in items:
        value = item.value if isinstance(item, Item) else item
        text = item.text if isinstance(item, Item) else None
        if text is None:
            first, *rest = emit.to_yaml(value).splitlines(keepends=True)
            rest = [line if line == "\n" else f"  {line}" for line in rest]
            text = "".join([f"- {first}", *rest])
        yield f"{key}{text}"
        key = ""
    if key:
        yield "items: []\n"
    if config is not None:
        yield emit.to_yaml({"functionConfig": config})
    if results:
        yield emit.to_yaml({"results": list(results)})


def _lacking(values: Sequence[Any]) -> str | None:
    if len(values) != 1:
        return f"there are {len(values)} documents" if values else "there is nothing"
    value = values[0]
    if not isinstance(value, dict):
        return "it is no mapping"
    if value.get("kind") != KIND or value.get("apiVersion") not in VERSIONS:
        return f"it is a {value.get('kind') or 'document without kind'}"
    listed = value.get("items")
    listed = [] if listed is None else listed
    if not isinstance(listed, list):
        return "items is no list"
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not all(
            isinstance(item.get(field), str) for field in ("apiVersion", "kind")
        ):
            return f"items[{number}] is no object"
    config = value.get("functionConfig")
    return None if config is None or isinstance(config, dict) else "functionConfig is no object"


def _chunks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of each entry of `items`, moved to the left margin."""
    start = next((n for n, line in enumerate(lines) if _ITEMS.fullmatch(line.rstrip())), None)
    if start is None:
        return
    indent: int | None = None
    entry: list[str] = []
    above: list[str] = []  # comments that stand over the next entry
    for line in lines[start + 1 :]:
        entry_mark = _ENTRY.match(line)
        if indent is None and entry_mark:
            indent = len(entry_mark[1])
        margin = len(line) - len(line.lstrip(" "))
        is_comment = line.lstrip().startswith("#")
        if is_comment and (indent is None or margin <= indent):
            above.append(line.lstrip())
        elif entry_mark and len(entry_mark[1]) == indent:
            if entry:
                yield "".join(entry)
            entry, above = [*above, line[indent:]], []
        elif line.strip() and margin <= (indent or 0):
            break  # the list has ended
        elif indent is not None:
            # The comment was indented less than its item, but belongs to it.
            entry, above = [*entry, *above, line[indent:] if line.strip() else line], []
    if entry:
        if not entry[-1].endswith("\n"):
            entry.append("\n")
        yield "".join(entry)


# Items as documents ------------------------------------------------------------------------------


class ItemPlaces(Struct, frozen=True, eq=False):
    name: str
    item: Mapping[str, Any]

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        return ItemLocation(self.name, places=self, path=path)


class ItemLocation(Location, frozen=True, kw_only=True):
    places: ItemPlaces
    path: ValuePath

    def __str__(self) -> str:
        return f"{self.file}: {dotted(self.path)}" if self.path else self.file


def document(item: Mapping[str, Any], *, in_file: bool = True) -> Document:
    """Return an item as a document, without the annotations of pipelines.

    Args:
        in_file: Name it after its file. The configuration is not: its paths are relative to where
            the function runs, not to that file.
    """
    data = dict(item)
    if isinstance(metadata(item).get("annotations"), dict):
        notes = {k: v for k, v in annotations(item).items() if not k.startswith(_PIPELINES)}
        rest = {name: value for name, value in metadata(item).items() if name != "annotations"}
        data["metadata"] = {**rest, "annotations": notes} if notes else rest
    name = file_of(item) if in_file else None
    if name is None:
        about = metadata(item)
        names = (about.get("namespace") if in_file else None, about.get("name"))
        label = "/".join(str(part) for part in names if part)
        name = f"{item.get('kind')} {label or '(no name)'}"
    return Document(name, name, 0, data, ItemPlaces(name, item))


def file_of(item: Mapping[str, Any]) -> str | None:
    """Return the file that an item comes from, if the pipeline says."""
    paths = (annotations(item).get(annotation) for annotation in PATHS)
    return next((path for path in paths if isinstance(path, str) and path), None)


def metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item's metadata; empty if it has none, or something else in its place."""
    return mapping_at(item, ("metadata",))


def annotations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_at(item, ("metadata", "annotations"))
