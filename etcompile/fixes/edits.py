"""Change keys and scalars in a YAML text, and not a character besides.

A text is edited in place; nothing is parsed and printed again, so comments, order, quotes, blank
lines and line breaks stay. The new scalar has the same meaning wherever it stands.
"""

import bisect
import functools
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from yaml import YAMLError
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from etcompile.diagnostics.diagnostic import Change, Quote, Rename, Replace, TextEdit
from etcompile.diagnostics.message_text import in_common
from etcompile.load.positions import Place, places

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line as YAML and editors count them; Python also breaks lines at other characters."""
_PATCH_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Splice(Struct, frozen=True):
    """A part of a text, and its replacement."""

    start: int
    end: int
    text: str
    claims: frozenset[Hashable]  # two splices that share one exclude each other


class _Text(Struct, frozen=True):
    """A text by the offsets of its lines, its keys and its values."""

    lines: list[int]
    keys: dict[int, tuple[int, Place]]  # the end of each key, and its mapping
    values: dict[int, int]

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1


@functools.lru_cache(maxsize=2)  # the fixes of a file are looked up one by one
def _indexed(content: str) -> _Text | None:
    """Index a whole text without a byte order mark by offsets; None if it cannot be read."""
    text = _Text([0, *(match.end() for match in _BREAK.finditer(content))], {}, {})
    try:
        waiting = [*places(content)]
    except (YAMLError, KeyError, ValueError, RecursionError):
        return None
    seen: set[int] = set()  # aliases repeat places
    while waiting:
        place = waiting.pop()
        if id(place) not in seen:
            seen.add(id(place))
            text.values[place.start] = place.end
            for key, (start, end, inner) in place.entries.items():
                if isinstance(key, str):
                    text.keys[start] = end, place
                waiting.append(inner)
    return text


def splices(content: str, changes: Sequence[Change]) -> list[Splice] | None:
    if (text := _indexed(content)) is None:
        return None
    parts: list[Splice] = []
    for change in changes:
        place = change.at
        if place.line is None or place.column is None or place.line > len(text.lines):
            return None
        offset = text.lines[place.line - 1] + place.column - 1
        end, holder = text.values.get(offset, offset), None
        if isinstance(change, Rename):
            end, holder = text.keys.get(offset, (offset, None))
        old = content[offset:end]
        if not old or old[0] in "&!*[{" or _BREAK.search(old):
            return None
        claims: set[Hashable] = {offset}
        match change:
            case Rename(name=name):
                if old[0] == "?" or holder is None or name in holder.entries:
                    return None
                new = _written(name, old[0])
                claims.add((id(holder), name))
            case Quote():
                if old[0] in "'\"|>":
                    return None
                new = json.dumps(old, ensure_ascii=False)
            case Replace(value=value):
                if old[0] in "|>":
                    return None
                new = _written(value, old[0]) if isinstance(value, str) else json.dumps(value)
        parts.append(Splice(offset, end, new, frozenset(claims)))
    return parts


def spliced(content: str, parts: Iterable[Splice]) -> str:
    texts: list[str] = []
    end = 0
    for part in sorted(parts, key=lambda part: part.start):
        texts += content[end : part.start], part.text
        end = part.end
    return "".join((*texts, content[end:]))


def splice_edits(content: str, parts: Iterable[Splice]) -> tuple[TextEdit, ...]:
    text = _indexed(content)
    assert text is not None  # noqa: S101 - the parts are from it
    return tuple(
        TextEdit(*text.place(part.start), *text.place(part.end), part.text) for part in parts
    )


def _written(text: str, first: str) -> str:
    """Write a text as a scalar, in the quotes of the previous one, which began with `first`."""
    if first == "'":
        return "'" + text.replace("'", "''") + "'"
    if first != '"' and _PLAIN.fullmatch(text):
        resolver: Any = Resolver()
        if resolver.resolve(ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str":
            return text
    return json.dumps(text, ensure_ascii=False)


# The difference of two texts --------------------------------------------------------------------


def lines_of(text: str) -> list[str]:
    """Split a text into lines as patches count them, each with its end.

    Python also breaks lines at other characters, which a text may contain.
    """
    return _PATCH_LINE.findall(text)


def text_edits(before: str, after: str) -> Iterator[TextEdit]:
    old, new = _LINE.findall(before), _LINE.findall(after)
    head = in_common(old, new)
    tail = in_common(old[head:][::-1], new[head:][::-1])
    last = len(old) - tail
    if head < max(last, len(new) - tail):
        is_open = last == len(old) > 0 and not old[-1].endswith(("\n", "\r"))
        end = (last, len(old[-1]) + 1) if is_open else (last + 1, 1)
        yield TextEdit(head + 1, 1, *end, "".join(new[head : len(new) - tail]))
