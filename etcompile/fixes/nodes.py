"""A YAML text as nodes that know where they stand, to the character.

Apart from the loader, which keeps values and forgets how they are written: whoever edits a text
needs the end of every entry, and which lines are its own.
"""

import bisect
import functools
import re
from collections.abc import Iterator, Sequence

import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from etcompile.diagnostics import Location

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where there is one, ten times as fast; it tells the same places."""

_BREAK = re.compile(r"\r\n|\n|\r")

Path = tuple[str | int, ...]
"""The number of the document, then keys and indexes."""


class Entry(Struct, frozen=True, eq=False):
    """A field of a mapping, or an item of a list.

    Args:
        path: Where it stands.
        holder: What holds it; None for a whole document.
        key: Its key; None for an item of a list and for a document.
        value: What it holds.
    """

    path: Path
    holder: Node | None
    key: ScalarNode | None
    value: Node


def composed(content: str) -> list[Node] | None:
    """The documents of a text; None if it is no YAML.

    Args:
        content: A whole file, without a byte order mark.
    """
    try:
        return [node for node in yaml.compose_all(content, _Loader) if node is not None]
    except (yaml.YAMLError, RecursionError):
        return None


def entries(documents: Sequence[Node]) -> Iterator[Entry]:
    """All fields and items of documents, each where it is written, outermost first."""
    seen: set[int] = set()
    waiting = [Entry((number,), None, None, node) for number, node in enumerate(documents)]
    waiting.reverse()
    while waiting:
        entry = waiting.pop()
        yield entry
        if id(entry.value) in seen:
            continue  # an alias of what was there before
        seen.add(id(entry.value))
        waiting += reversed(list(parts(entry)))


def parts(entry: Entry) -> Iterator[Entry]:
    """The fields of a mapping whose keys are plain words, or the items of a list."""
    node = entry.value
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                yield Entry((*entry.path, key.value), node, key, value)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            yield Entry((*entry.path, index), node, None, value)


class IndexedText(Struct, frozen=True):
    """A text whose entries are found by where they begin.

    Args:
        starts: The offset of each line.
        keys: The entries by the offset of their key.
        scalars: The entries whose value is a scalar, by the offset of that.
    """

    starts: list[int]
    keys: dict[int, Entry]
    scalars: dict[int, Entry]

    def offset(self, place: Location) -> int | None:
        """The offset of a place; None if the text has no such line."""
        if place.line is None or place.column is None or place.line > len(self.starts):
            return None
        return self.starts[place.line - 1] + place.column - 1

    def place(self, offset: int) -> tuple[int, int]:
        """The line and the column of an offset, both from 1."""
        line = bisect.bisect(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def entry_of(self, offset: int, *, key: bool) -> Entry | None:
        """The entry whose key, or whose value, begins at an offset.

        Args:
            offset: Of its first character in the text.
            key: It is the key that begins there. Else the value, or the key of a value that is
                not written at all.
        """
        by_key = self.keys.get(offset)
        return by_key if key else self.scalars.get(offset, by_key)


@functools.lru_cache(maxsize=2)  # the fixes of a file are looked up one by one
def indexed(content: str) -> IndexedText | None:
    """A text by the offsets of its entries; None if it is no YAML.

    Args:
        content: A whole file, without a byte order mark.
    """
    if (documents := composed(content)) is None:
        return None
    starts = [0, *(found.end() for found in _BREAK.finditer(content))]
    text = IndexedText(starts, {}, {})
    for entry in entries(documents):
        if entry.key is not None:
            text.keys.setdefault(entry.key.start_mark.index, entry)
        if isinstance(entry.value, ScalarNode):
            text.scalars.setdefault(entry.value.start_mark.index, entry)
    return text
