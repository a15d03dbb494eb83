"""One change of a YAML text, and not a character besides.

A text is edited where the entry stands, by its position; nothing is parsed and printed again, so
that comments, order, quotes, blank lines and line breaks are left as they are. A scalar is replaced
by one that means the same wherever it stands.
"""

import itertools
import json
import re
from collections.abc import Sequence

from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode

from etcompile.diagnostics import Location
from etcompile.diagnostics.fix import Change, Quote, Rename, Replace
from etcompile.fixes.nodes import Entry, Path, composed, entry_at, entry_of

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def lines_of(text: str) -> list[str]:
    """The lines of a text, as patches count them, each with its end.

    Python breaks lines at other characters as well, which may stand in a text.
    """
    return _LINE.findall(text)


class Step(Struct, frozen=True):
    """A change whose place was found in the text as it was read.

    Args:
        change: What to do.
        path: The entry that it is about.
    """

    change: Change
    path: Path


def steps(content: str, changes: Sequence[Change]) -> list[Step] | None:
    """Where changes are to be made; None if one of their places is not there.

    Args:
        content: The text for which they were made.
        changes: What is to be done, in any order.
    """
    documents = composed(content)
    if documents is None:
        return None
    starts = [0, *(found.end() for found in _BREAK.finditer(content))]
    found: list[Step] = []
    for change in changes:
        offset = _offset(change.at, starts)
        at_key = isinstance(change, Rename)
        entry = None if offset is None else entry_of(documents, offset, key=at_key)
        if entry is None:
            return None
        found.append(Step(change, entry.path))
    # What stands inside comes before what is around it, whose name may change.
    return sorted(found, key=lambda step: -len(step.path))


def edited(content: str, todo: Sequence[Step]) -> str | None:
    """The text with all of these changes; None if it cannot be had.

    Each key and scalar is written so that it stands for itself anywhere.

    Args:
        content: The text.
        todo: The changes.
    """
    documents = composed(content)
    if documents is None:
        return None
    spans: list[tuple[int, int, str]] = []
    for step in todo:
        entry = entry_at(documents, step.path)
        match step.change:
            case Rename(name=name):
                made = _renamed(content, entry, name) if entry is not None else None
            case Quote():
                made = _quoted(content, entry) if entry is not None else None
            case Replace(value=value):
                made = _replaced(content, entry, value) if entry is not None else None
            case _:
                made = None
        if made is None:
            return None
        spans.append(made)
    spans.sort(reverse=True)
    if any(later[0] < earlier[1] for later, earlier in itertools.pairwise(spans)):
        return None  # two changes of one scalar
    for start, end, text in spans:
        content = f"{content[:start]}{text}{content[end:]}"
    return content


def _offset(place: Location, starts: Sequence[int]) -> int | None:
    if place.line is None or place.column is None or place.line > len(starts):
        return None
    return starts[place.line - 1] + place.column - 1


_Splice = tuple[int, int, str]
"""The first character of a part, the one after its last, and what is to stand there."""


def _renamed(content: str, entry: Entry, name: str) -> _Splice | None:
    key = entry.key
    if key is None or content[key.start_mark.index] in "&!*?" or name in _keys(entry.holder):
        return None
    return key.start_mark.index, key.end_mark.index, _written(name, key.style)


def _keys(node: Node | None) -> list[str]:
    return [key.value for key, _ in node.value] if isinstance(node, MappingNode) else []


def _quoted(content: str, entry: Entry) -> _Splice | None:
    node = entry.value
    start, end = node.start_mark.index, node.end_mark.index
    text = content[start:end]
    if not isinstance(node, ScalarNode) or node.style or not text or text[0] in "&!*":
        return None
    return None if _BREAK.search(text) else (start, end, json.dumps(text, ensure_ascii=False))


def _replaced(content: str, entry: Entry, value: str | float) -> _Splice | None:
    node = entry.value
    start, end = node.start_mark.index, node.end_mark.index
    old = content[start:end]
    if not isinstance(node, ScalarNode) or not old or old[0] in "&!*|>" or _BREAK.search(old):
        return None
    return start, end, _written(value, node.style) if isinstance(value, str) else json.dumps(value)


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
