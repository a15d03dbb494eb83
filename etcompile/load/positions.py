"""The place of every value of one document, found when somebody asks.

Reading values keeps no positions. When a diagnostic needs one, the document's own part of the
text is read a second time, and the places are kept for the next question about the same
document. A value that was merged or aliased has its place where it is written.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
)

from etcompile.diagnostics import Location, ValuePath
from etcompile.load.text import Text
from etcompile.load.values import Events, is_merge_key, mapping_key, merged_in


class Place(Struct, eq=False):
    """Where a value is written.

    Args:
        start: Offset of its first character.
        end: Offset after the last character of the scalar, or of an opening bracket.
        block: Whether it is a list or mapping without brackets.
        entries: The places of what it holds, by key or index; each with the span of its key.
    """

    start: int
    end: int
    block: bool = False
    entries: dict[str | int, tuple[int, int, "Place"]] = field(default_factory=dict)


class Origin(Struct, eq=False):
    """The part of a text that holds one document.

    Args:
        text: The file's text, shared by all its documents.
        start: Offset of the document's first character.
        end: Offset after its last one.
        events: The reader that the text was made for.
    """

    text: Text
    start: int
    end: int
    events: Events
    _root: Place | None = field(default=None)

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value.

        Args:
            path: Keys and indexes from the document's root.
            key: Point at the value's key instead, where it has one.

        Returns:
            The place of the value, or of the nearest parent that exists. A list or mapping
            without brackets begins on the line after its key, which says nothing: then the
            place is that of the key.
        """
        if self._root is None:
            self._root = self._places()
        place, span = self._root, None
        for step in path:
            found = place.entries.get(step)
            if found is None:
                key = True
                break
            span, place = found[:2], found[2]
        if span is None or not (key or place.block or place.start == place.end):
            span = place.start, place.end
        return self.text.location(self.start + span[0], self.start + span[1])

    def _places(self) -> Place:
        content = self.text.content
        # Indentation before the first value belongs to it: without it the rest would not align.
        while self.start > 0 and content[self.start - 1] == " ":
            self.start -= 1
        events: Iterator[Any] = self.events(content[self.start : self.end])
        # The stream and the document begin before the first node does.
        first = next(event for event in events if isinstance(event, NodeEvent))
        return _place(first, events, {})


_Anchors = dict[str, tuple[Place, Any]]


def _place(event: Any, events: Iterator[Any], anchors: _Anchors) -> Place:
    """The place of the node that begins with `event`, and of all it holds."""
    if isinstance(event, AliasEvent):
        return anchors[event.anchor or ""][0]
    place = Place(event.start_mark.index, event.end_mark.index)
    if event.anchor is not None:
        anchors[event.anchor] = (place, event)
    if isinstance(event, CollectionStartEvent):
        # One with an anchor has something to point at on the line of its key.
        place.block = not event.flow_style and event.anchor is None
        fill = _fill_mapping if isinstance(event, MappingStartEvent) else _fill_list
        fill(place, events, anchors)
    return place


def _fill_list(place: Place, events: Iterator[Any], anchors: _Anchors) -> None:
    index = 0
    while isinstance(event := next(events), NodeEvent):
        item = _place(event, events, anchors)
        place.entries[index] = (item.start, item.end, item)
        index += 1


def _fill_mapping(place: Place, events: Iterator[Any], anchors: _Anchors) -> None:
    merges: list[tuple[int, list[dict[Any, Any]]]] = []
    while isinstance(event := next(events), NodeEvent):
        at = _place(event, events, anchors)
        value = _place(next(events), events, anchors)
        if place.block and not place.entries:
            place.end = max(place.end, at.end)
        if is_merge_key(event):
            listed = [entry[2] for key, entry in value.entries.items() if isinstance(key, int)]
            merges.append((len(place.entries), [base.entries for base in listed or [value]]))
        else:
            written = anchors[event.anchor or ""][1] if isinstance(event, AliasEvent) else event
            place.entries[mapping_key(written)] = (at.start, at.end, value)
    place.entries = merged_in(place.entries, merges)
