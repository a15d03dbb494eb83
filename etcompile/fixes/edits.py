"""One change of a YAML text, and not a character besides.

A text is edited where the entry stands, by its position; nothing is parsed and printed again, so
that comments, order, quotes, blank lines and line breaks are left as they are. A scalar is replaced
by one that means the same wherever it stands.
"""

import json
import re
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode

from etcompile.diagnostics.diagnostic import Change, Quote, Rename, Replace
from etcompile.fixes.nodes import Entry, composed, indexed

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def lines_of(text: str) -> list[str]:
    """The lines of a text, as patches count them, each with its end.

    Python breaks lines at other characters as well, which may stand in a text.
    """
    return _LINE.findall(text)


class Splice(Struct, frozen=True):
    """A part of a text, and what replaces it.

    Args:
        start: The offset of its first character.
        end: The offset after its last one.
        text: What replaces it.
        claims: Two splices that share one of these exclude each other.
    """

    start: int
    end: int
    text: str
    claims: frozenset[Hashable]


def splices(content: str, changes: Sequence[Change]) -> list[Splice] | None:
    """What of a text changes; None if one of the changes cannot be made.

    Each key and scalar is written so that it stands for itself anywhere.

    Args:
        content: The text for which the changes were made, without a byte order mark.
        changes: What is to be done, in any order.
    """
    if (text := indexed(content)) is None:
        return None
    found: list[Splice] = []
    for change in changes:
        offset = text.offset(change.at)
        at_key = isinstance(change, Rename)
        entry = None if offset is None else text.entry_of(offset, key=at_key)
        if entry is None:
            return None
        match change:
            case Rename(name=name):
                made = _renamed(content, entry, name)
            case Quote():
                made = _quoted(content, entry)
            case Replace(value=value):
                made = _replaced(content, entry, value)
        if made is None:
            return None
        found.append(made)
    return found


def spliced(content: str, found: Iterable[Splice]) -> str:
    """A text with parts of it replaced, none of which overlap."""
    parts: list[str] = []
    end = 0
    for splice in sorted(found, key=lambda splice: splice.start):
        parts += content[end : splice.start], splice.text
        end = splice.end
    return "".join((*parts, content[end:]))


def _splice(node: Node, text: str, *claims: Hashable) -> Splice:
    start, end = node.start_mark.index, node.end_mark.index
    return Splice(start, end, text, frozenset((start, *claims)))


def _renamed(content: str, entry: Entry, name: str) -> Splice | None:
    key = entry.key
    if key is None or name in _keys(entry.holder):
        return None
    old = content[key.start_mark.index : key.end_mark.index]
    if old[0] in "&!*?" or _BREAK.search(old):
        return None
    return _splice(key, _written(name, key.style), (id(entry.holder), name))


def _keys(node: Node | None) -> list[str]:
    return [key.value for key, _ in node.value] if isinstance(node, MappingNode) else []


def _quoted(content: str, entry: Entry) -> Splice | None:
    node = entry.value
    text = content[node.start_mark.index : node.end_mark.index]
    if not isinstance(node, ScalarNode) or node.style or not text or text[0] in "&!*":
        return None
    return None if _BREAK.search(text) else _splice(node, json.dumps(text, ensure_ascii=False))


def _replaced(content: str, entry: Entry, value: str | float) -> Splice | None:
    node = entry.value
    old = content[node.start_mark.index : node.end_mark.index]
    if not isinstance(node, ScalarNode) or not old or old[0] in "&!*|>" or _BREAK.search(old):
        return None
    new = _written(value, node.style) if isinstance(value, str) else json.dumps(value)
    return _splice(node, new)


def _scalar(text: str) -> ScalarNode | None:
    """What a text is read as by itself, if that is a scalar."""
    found = composed(text) or []
    return found[0] if len(found) == 1 and isinstance(found[0], ScalarNode) else None


def _written(text: str, style: str | None) -> str:
    """A text as a scalar, in the quotes that stood there before."""
    if style == "'":
        return "'" + text.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(text):
        node = _scalar(text)
        if node is not None and node.tag == "tag:yaml.org,2002:str":
            return text
    return json.dumps(text, ensure_ascii=False)
