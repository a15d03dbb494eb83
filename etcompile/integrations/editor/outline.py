"""Finds the fields of a text that somebody is writing, and the one at the cursor.

While somebody types, the text is often not valid YAML. So it is read line by line, by indentation.
Fields in brackets, or in a block of text, are not found.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_KEY = re.compile(r"""("[^"]*"|'[^']*'|[^\s#:'"\-\[{&*!|>][^:#]*?)\s*:(?=\s|$)""")
_BLOCK = re.compile(r"(?:.*:\s+|)(?:[&!]\S+\s+)*[|>][-+\d]*\s*(?:#.*)?$")
_DOCUMENT = re.compile(r"(---|\.\.\.)(\s|$)")

Path = tuple[str | int, ...]


class Field(Struct, frozen=True):
    """A field, where it is written.

    Args:
        path: Keys and indexes from the document's root.
        line: The line, from 0.
        start: The first character of its key, from 0.
        end: The character after its key.
        value: What is written behind it on the line, without blanks and quotes.
    """

    path: Path
    line: int
    start: int
    end: int
    value: str


class Cursor(Struct, frozen=True):
    """Where somebody writes.

    Args:
        api_version: That of the document; empty if it has none yet.
        kind: Likewise.
        path: The mapping in which a key is being written, or the field whose value is.
        key: The key, as far as it is there; None where a value is being written.
        start: The first character of the word, from 0.
        beside: The keys that the mapping has besides.
    """

    api_version: str
    kind: str
    path: Path
    key: str | None
    start: int
    beside: frozenset[str]


def fields(lines: Sequence[str]) -> Iterator[Field]:
    """The fields of a document, from its first line to its last."""
    above: list[tuple[int, str | int]] = []
    text_below: int | None = None
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        words = line[indent:].rstrip()
        if not words or words.startswith("#"):
            continue
        if text_below is not None and indent > text_below:
            continue
        text_below, left = None, indent
        while words == "-" or words.startswith("- "):
            _enter_item(above, indent)
            rest = words[1:].lstrip(" ")
            indent += len(words) - len(rest)
            words = rest
        found = _KEY.match(words)
        if found is None:
            text_below = left if _BLOCK.match(words) else None
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, found[1].strip("\"'")))
        value = words[found.end() :].partition(" #")[0].strip(" \"'")
        end = indent + len(found[1])
        yield Field(tuple(step for _, step in above), number, indent, end, value)
        if _BLOCK.match(words):
            text_below = indent


def _enter_item(above: list[tuple[int, str | int]], indent: int) -> None:
    """Goes to the next item of a list whose dashes stand so far in."""
    while above and above[-1][0] > indent:
        above.pop()
    index = 0
    if above and above[-1][0] == indent and isinstance(above[-1][1], int):
        index = above.pop()[1] + 1  # type: ignore[operator]
    above.append((indent, index))


def document_at(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first line of the document that holds a line, and the one after its last."""
    start = line
    while start > 0 and not _DOCUMENT.match(lines[start - 1]):
        start -= 1
    end = line + 1
    while end < len(lines) and not _DOCUMENT.match(lines[end]):
        end += 1
    return start, end


def header(found: Sequence[Field]) -> tuple[str, str]:
    """The apiVersion and the kind that the fields of a document say; empty if they do not."""
    said = {field.path: field.value for field in found if len(field.path) == 1}
    return said.get(("apiVersion",), ""), said.get(("kind",), "")


def cursor(lines: Sequence[str], line: int, column: int) -> Cursor:
    """Where somebody writes; `line` and `column` count from 0."""
    start, end = document_at(lines, line)
    own = lines[start:end]
    version, kind = header(list(fields(own)))
    written = lines[line][:column]
    # A key that will stand here finds its place as one that is there does.
    lead = re.match(r"[ ]*(?:- +)*", written)
    at = lead.end() if lead else 0
    words = written[at:]
    complete = _KEY.match(words)
    stand_in = f"{written[:at]}{words if complete else 'x:'}"
    here = [
        field for field in fields([*own[: line - start], stand_in]) if field.line == line - start
    ]
    path = here[-1].path if here else ()
    if complete:
        value = words[complete.end() :]
        first = at + complete.end() + len(value) - len(value.lstrip())
        return Cursor(version, kind, path, None, first, frozenset())
    lines_now = [*own[: line - start], stand_in, *own[line - start + 1 :]]
    beside = frozenset(
        str(field.path[-1])
        for field in fields(lines_now)
        if field.path[:-1] == path[:-1] and field.line != line - start
    )
    return Cursor(version, kind, path[:-1], words, at, beside)
