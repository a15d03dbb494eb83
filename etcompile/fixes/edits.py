"""Changes of a YAML text at the places of its keys and scalars, and not a character besides.

A text is edited where the scalar stands; nothing is parsed and printed again, so that comments,
order, quotes, blank lines and line breaks are left as they are. A scalar is replaced by one that
means the same wherever it stands.
"""

import bisect
import functools
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from yaml import YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    ScalarEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from etcompile.diagnostics.diagnostic import Change, Quote, Rename, Replace, TextEdit
from etcompile.load.yaml_events import span, yaml_events

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line as YAML and editors count them; Python breaks lines at other characters as well."""
_PATCH_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Splice(Struct, frozen=True):
    """A part of a text, and what replaces it.

    Args:
        claims: Two splices that share one of these exclude each other.
    """

    start: int
    end: int
    text: str
    claims: frozenset[Hashable]


class _Scalar(Struct, frozen=True):
    """A key or a value that is written out.

    Args:
        start: The offset of its first character: of its tag or anchor, if it has one.
        end: The offset after its last one.
        style: Its quotes, or `|` and `>`; None for a plain one.
        siblings: For a key, the keys of its mapping.
    """

    start: int
    end: int
    style: str | None
    siblings: list[str] | None = None


class _Text(Struct, frozen=True):
    """A text by the offsets of its lines, its keys and its other scalars."""

    lines: list[int]
    keys: dict[int, _Scalar]
    values: dict[int, _Scalar]

    def place(self, offset: int) -> tuple[int, int]:
        """The line and the column of an offset, both from 1."""
        line = bisect.bisect(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1


class _Open(Struct):
    """A list or mapping that is being read; a mapping's next node is a key or a value."""

    keys: list[str] | None
    at_key: bool


@functools.lru_cache(maxsize=2)  # the fixes of a file are looked up one by one
def _indexed(content: str) -> _Text | None:
    """A whole text without a byte order mark, by its offsets; None if it is no YAML."""
    text = _Text([0, *(match.end() for match in _BREAK.finditer(content))], {}, {})
    opened: list[_Open] = [_Open(None, at_key=False)]
    event: Any
    try:
        for event in yaml_events(content):
            if isinstance(event, CollectionEndEvent):
                opened.pop()
                continue
            if not isinstance(event, ScalarEvent | CollectionStartEvent | AliasEvent):
                continue
            holder = opened[-1]
            is_key = holder.at_key
            if holder.keys is not None:
                holder.at_key = not is_key
            if isinstance(event, CollectionStartEvent):
                is_mapping = isinstance(event, MappingStartEvent)
                opened.append(_Open([] if is_mapping else None, at_key=is_mapping))
            elif isinstance(event, ScalarEvent):
                start, end = span(event)
                style = event.style or None
                if is_key and holder.keys is not None:
                    holder.keys.append(event.value)
                    text.keys[start] = _Scalar(start, end, style, holder.keys)
                else:
                    text.values[start] = _Scalar(start, end, style)
    except YAMLError:
        return None
    return text


def splices(content: str, changes: Sequence[Change]) -> list[Splice] | None:
    """What of a text changes; None if one of the changes cannot be made."""
    if (text := _indexed(content)) is None:
        return None
    parts: list[Splice] = []
    for change in changes:
        place = change.at
        if place.line is None or place.column is None or place.line > len(text.lines):
            return None
        offset = text.lines[place.line - 1] + place.column - 1
        scalar = (text.keys if isinstance(change, Rename) else text.values).get(offset)
        if scalar is None:
            return None
        old = content[scalar.start : scalar.end]
        if not old or old[0] in "&!*" or _BREAK.search(old):
            return None
        claims: set[Hashable] = {scalar.start}
        match change:
            case Rename(name=name):
                if old[0] == "?" or scalar.siblings is None or name in scalar.siblings:
                    return None
                new = _written(name, scalar.style)
                claims.add((id(scalar.siblings), name))
            case Quote():
                if scalar.style:
                    return None
                new = json.dumps(old, ensure_ascii=False)
            case Replace(value=str(value)):
                if old[0] in "|>":
                    return None
                new = _written(value, scalar.style)
            case Replace(value=value):
                if old[0] in "|>":
                    return None
                new = json.dumps(value)
        parts.append(Splice(scalar.start, scalar.end, new, frozenset(claims)))
    return parts


def spliced(content: str, parts: Iterable[Splice]) -> str:
    """A text with parts of it replaced, none of which overlap."""
    texts: list[str] = []
    end = 0
    for part in sorted(parts, key=lambda part: part.start):
        texts += content[end : part.start], part.text
        end = part.end
    return "".join((*texts, content[end:]))


def splice_edits(content: str, parts: Iterable[Splice]) -> tuple[TextEdit, ...]:
    """The same parts by line and column."""
    text = _indexed(content)
    assert text is not None  # noqa: S101 - the parts are from it
    return tuple(
        TextEdit(*text.place(part.start), *text.place(part.end), part.text) for part in parts
    )


def _written(text: str, style: str | None) -> str:
    """A text as a scalar, in the quotes that stood there before."""
    if style == "'":
        return "'" + text.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(text):
        resolver: Any = Resolver()
        if resolver.resolve(ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str":
            return text
    return json.dumps(text, ensure_ascii=False)


# The difference of two texts --------------------------------------------------------------------


def lines_of(text: str) -> list[str]:
    """The lines of a text, as patches count them, each with its end.

    Python breaks lines at other characters as well, which may stand in a text.
    """
    return _PATCH_LINE.findall(text)


def text_edits(before: str, after: str) -> Iterator[TextEdit]:
    """What makes a text another one: the lines from the first that differs to the last, if any."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    last = len(old) - tail
    if head < max(last, len(new) - tail):
        is_open = last == len(old) > 0 and not old[-1].endswith(("\n", "\r"))
        end = (last, len(old[-1]) + 1) if is_open else (last + 1, 1)
        yield TextEdit(head + 1, 1, *end, "".join(new[head : len(new) - tail]))


def _common(lines: Sequence[str], others: Sequence[str]) -> int:
    """How many lines two texts begin with in common."""
    pairs = enumerate(zip(lines, others, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(lines), len(others)))
