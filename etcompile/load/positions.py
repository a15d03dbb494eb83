"""Find the positions of values and comments in a text, on demand.

Reading values stores no positions. When a diagnostic needs one, the text of its document is read
again, and the positions are cached for further diagnostics. The position of a merged or aliased
value is where it is written.

Parsers drop comments, so suppressions (`# etcompile: ignore[ET2040]`) are matched by a pattern, and
ignored inside quoted and block scalars, which may be scripts that contain such a line.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from yaml import YAMLError
from yaml.events import AliasEvent, CollectionStartEvent, MappingStartEvent, NodeEvent, ScalarEvent

from etcompile.diagnostics import Location, ValuePath
from etcompile.load.source_text import Text
from etcompile.load.yaml_events import mapping_key, merged_in, span, yaml_events

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment

# Patterns as texts, which `re` compiles for the few files that have such comments.
_COMMENT = (
    r"(?<![^ \t\r\n])#[ \t]*etcompile:[ \t]*"
    r"(?:(?P<verb>ignore-file|ignore)(?![\w-])[ \t]*(?:\[(?P<codes>[^\]\r\n]*)\])?|[\w-]+[ \t]*\[)"
)
"""Also matches another word with codes in brackets, so that a misspelt comment is reported."""
_SURROGATE = r"\\u[dD][89a-fA-F]"
_INSIGNIFICANT = r"[ \t]*(#[^\r\n]*)?(\r\n|\r|\n|\Z)"


class Place(Struct, eq=False):
    """The position of a value.

    Args:
        end: Offset after the last character of the scalar, or of an opening bracket.
        block: It is a list or mapping without brackets.
        entries: The places of its items by key or index, each with the span of the key.
    """

    start: int
    end: int
    block: bool = False
    entries: dict[str | int, tuple[int, int, "Place"]] = field(default_factory=dict)


class Origin(Struct, eq=False):
    """The part of a text that holds one document, from an offset to that after its end."""

    text: Text
    start: int
    end: int
    _root: Place | None = field(default=None)

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """Locate a value or its nearest parent.

        A list or mapping without brackets begins on the line after its key, so the key is returned.
        """
        if self._root is None:
            content = self.text.content
            # Include the indentation of the first value, so that the other lines align.
            while self.start > 0 and content[self.start - 1] == " ":
                self.start -= 1
            # JSON may have halves of surrogate pairs, which YAML has not. Values do not matter.
            written = re.sub(_SURROGATE, r"\\ufe", content[self.start : self.end])
            try:
                self._root = next(places(written))
            except YAMLError:
                self._root = Place(0, 0)  # other JSON that is not YAML
        place, span = self._root, None
        for step in path:
            entry = place.entries.get(step)
            if entry is None:
                key = True
                break
            span, place = entry[:2], entry[2]
        if span is None or not (key or place.block or place.start == place.end):
            span = place.start, place.end
        return self.text.location(self.start + span[0], self.start + span[1])


def places(content: str) -> Iterator[Place]:
    """Yield the places of each document of a YAML stream, as long as it is valid."""
    events: Iterator[Any] = yaml_events(content)
    for event in events:
        if isinstance(event, NodeEvent):
            yield _place(event, events, {})


def _place(event: Any, events: Iterator[Any], anchors: dict[str, tuple[Place, Any]]) -> Place:
    if isinstance(event, AliasEvent):
        return anchors[event.anchor or ""][0]
    place = Place(event.start_mark.index, event.end_mark.index)
    if event.anchor is not None:
        anchors[event.anchor] = (place, event)
    if not isinstance(event, CollectionStartEvent):
        return place
    # A node with an anchor begins on the line of its key.
    place.block = not event.flow_style and event.anchor is None
    if not isinstance(event, MappingStartEvent):
        while isinstance(event := next(events), NodeEvent):
            item = _place(event, events, anchors)
            place.entries[len(place.entries)] = (item.start, item.end, item)
        return place
    merges: list[tuple[int, list[dict[Any, Any]]]] = []
    while isinstance(event := next(events), NodeEvent):
        at = _place(event, events, anchors)
        value = _place(next(events), events, anchors)
        if place.block and not place.entries:
            place.end = max(place.end, at.end)
        if isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]:
            listed = [entry[2] for key, entry in value.entries.items() if isinstance(key, int)]
            merges.append((len(place.entries), [base.entries for base in listed or [value]]))
        else:
            written = anchors[event.anchor or ""][1] if isinstance(event, AliasEvent) else event
            if not isinstance(written, ScalarEvent):
                raise ValueError("a list or a mapping used as a key")
            place.entries[mapping_key(written)] = (at.start, at.end, value)
    place.entries = merged_in(place.entries, merges)
    return place


def ignore_comments(text: Text) -> "tuple[IgnoreComment, ...]":
    # Most files have no such comment: one search is enough.
    if "etcompile:" not in text.content or not re.search(_COMMENT, text.content):
        return ()
    from etcompile.diagnostics.suppression import IgnoreComment  # noqa: PLC0415 - few files need it

    starts, ends = _scalars(text.content)
    comments: list[IgnoreComment] = []
    targets: dict[int, int] = {}
    for match in reversed([*re.finditer(_COMMENT, text.content)]):
        start, end = match.span()
        number = bisect_right(starts, start) - 1
        if number >= 0 and start < ends[number]:
            continue  # part of a scalar
        codes = tuple(code for code in re.split(r"[\s,]+", match["codes"] or "") if code)
        line = None if match["verb"] == "ignore-file" else _target_line(start, text, targets)
        comments.append(IgnoreComment(text.location(start, end), codes, line))
    return tuple(reversed(comments))


def _scalars(content: str) -> tuple[list[int], list[int]]:
    """Return the offsets at which scalars start and end, up to a syntax error."""
    starts: list[int] = []
    ends: list[int] = []
    try:
        for event in yaml_events(content):
            if isinstance(event, ScalarEvent):
                start, end = span(event)
                if event.style in ("|", ">"):
                    # The header's line may end in a comment: `run: |  # etcompile: ignore[...]`.
                    start = content.find("\n", start, end)
                    start = end if start < 0 else start + 1
                starts.append(start)
                ends.append(end)
    except YAMLError:
        pass  # reported when the values are read
    return starts, ends


def _target_line(offset: int, text: Text, known: dict[int, int]) -> int:
    """Return the line of a comment, or the next with content if it is alone on its line."""
    content, line = text.content, text.line(offset)
    at = begin = text.line_start(line)
    if re.compile(r"\S").search(content, begin, offset):
        return line
    insignificant = re.compile(_INSIGNIFICANT)
    while at not in known and at < len(content) and (skip := insignificant.match(content, at)):
        at = skip.end()
    known[begin] = known.get(at) or text.line(min(at, len(content)))
    return known[begin]
