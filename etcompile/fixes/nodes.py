"""A YAML text as nodes that know where they stand, to the character.

Apart from the loader, which keeps values and forgets how they are written: whoever edits a text
needs the end of every entry, and which lines are its own.
"""

import functools
from collections.abc import Iterator, Sequence

import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where there is one, ten times as fast; it tells the same places."""

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


@functools.lru_cache(maxsize=4)
@functools.lru_cache(maxsize=2)  # the fixes of a file are looked up one by one
def composed(content: str) -> list[Node] | None:
    """The documents of a text; None if it is no YAML.

    Args:
        content: A whole file, without a byte order mark.

    Returns:
        The same list for the same text: not to be changed.
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


def entry_at(documents: Sequence[Node], path: Path) -> Entry | None:
    """The field or item at a path; None if there is none."""
    number = path[0]
    if not isinstance(number, int) or number >= len(documents):
        return None
    found = Entry((number,), None, None, documents[number])
    for length in range(2, len(path) + 1):
        below = [part for part in parts(found) if part.path == path[:length]]
        if len(below) != 1:
            return None  # absent, or there twice
        found = below[0]
    return found


def entry_of(documents: Sequence[Node], offset: int, *, key: bool) -> Entry | None:
    """The entry whose key, or whose value, begins at an offset.

    Args:
        documents: Those of one text.
        offset: Of its first character in the text.
        key: It is the key that begins there. Else the value, or the key of a value that is not
            written at all.
    """
    by_key: Entry | None = None
    by_value: Entry | None = None
    for entry in entries(documents):
        if entry.key is not None and entry.key.start_mark.index == offset:
            by_key = by_key or entry
        if isinstance(entry.value, ScalarNode) and entry.value.start_mark.index == offset:
            by_value = by_value or entry
    return by_key if key else by_value or by_key


def end_of(node: Node) -> int:
    """The offset after the last character of a value; blanks and comments after it are not its."""
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(last, tuple) else last)
