"""A document whose fields stand elsewhere than they were written, with the places of both.

What an older API version, or a habit of another tool, has somewhere else is put where its kind
reads it, once, before anything looks at the document; a diagnostic about such a field still points
at the line that somebody wrote.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Location, ValuePath
from etcompile.load.document import Document


class _Places(Struct, frozen=True, eq=False):
    """The places of a document, found by where its fields stand now."""

    written: Document
    moved: Mapping[ValuePath, ValuePath]
    """A path now to the path in the text."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value in the text, or of its nearest parent."""
        for length in range(len(path), 0, -1):
            before = self.moved.get(path[:length])
            if before is not None:
                return self.written.locate((*before, *path[length:]), key=key)
        return self.written.locate(path, key=key)


def relocated(
    document: Document, data: Mapping[str, Any], moved: Mapping[ValuePath, ValuePath]
) -> Document:
    """A document with other data, whose parts have the places of the text.

    Args:
        document: What was read.
        data: What it says, with its fields where they belong.
        moved: The path of each field that has moved, to its path in the text.
    """
    if document.origin is None:
        return structs.replace(document, data=dict(data))
    places = _Places(document, dict(moved))
    return structs.replace(document, data=dict(data), origin=places, path=())


def with_value(value: Mapping[str, Any], path: ValuePath, field: Any) -> dict[str, Any]:
    """A copy of a mapping with a field at a path; mappings on the way are made.

    Args:
        value: The mapping.
        path: Keys alone.
        field: The field's value.
    """
    step = str(path[0])
    inner = field
    if len(path) > 1:
        below = value.get(step)
        inner = with_value(below if isinstance(below, Mapping) else {}, path[1:], field)
    return {**value, step: inner}


def without_value(value: Mapping[str, Any], path: ValuePath) -> dict[str, Any]:
    """A copy of a mapping without the field at a path.

    Args:
        value: The mapping, which has the field.
        path: Keys alone.
    """
    step = str(path[0])
    if len(path) == 1:
        return {key: inner for key, inner in value.items() if key != step}
    return {**value, step: without_value(value[step], path[1:])}
