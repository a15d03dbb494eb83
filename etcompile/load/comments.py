"""The comments of a text that speak to etcompile: `# etcompile: ignore[ET2040]`.

Parsers drop comments, so they are found by their form and kept where the parser sees no scalar:
what stands inside a quoted or a block scalar is text (a script that etcompile itself ships may
hold such a line). A text without such a form pays for one search.
"""

import re
from bisect import bisect_right
from typing import Any

from yaml import YAMLError
from yaml.events import ScalarEvent

from etcompile.diagnostics.suppression import IgnoreComment
from etcompile.load.events import NotJsonTextError
from etcompile.load.text import Text
from etcompile.load.values import Events

_COMMENT = re.compile(
    r"(?<![^ \t\r\n])#[ \t]*etcompile:[ \t]*"
    r"(?:(?P<verb>ignore-file|ignore)(?![\w-])[ \t]*(?:\[(?P<codes>[^\]\r\n]*)\])?|[\w-]+[ \t]*\[)"
)
"""Also what has codes in brackets behind another word: a misspelt wish is told."""
_INSIGNIFICANT = re.compile(r"[ \t]*(#[^\r\n]*)?(\r\n|\r|\n|\Z)")


def ignore_comments(text: Text, events: Events) -> tuple[IgnoreComment, ...]:
    """The comments that ask for silence, in their order.

    Args:
        text: The text of a file, decoded.
        events: The reader that the text was made for.
    """
    found = list(_COMMENT.finditer(text.content))
    if not found:
        return ()
    inside = _Scalars(text, events)
    return tuple(_comment(match, text) for match in found if not inside.hold(match.start()))


class _Scalars:
    """The spans of all scalars of a text, up to where it can be read."""

    def __init__(self, text: Text, events: Events) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        try:
            for event in events(text.content):
                if isinstance(event, ScalarEvent):
                    self._add(event, text.content)
        except (YAMLError, NotJsonTextError):
            pass  # it is told where the values are read

    def _add(self, event: Any, content: str) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if event.style in ("|", ">"):
            # The header's line may end in a comment: `run: |  # etcompile: ignore[ET2041]`.
            start = content.find("\n", start, end)
            start = end if start < 0 else start + 1
        self._starts.append(start)
        self._ends.append(end)

    def hold(self, offset: int) -> bool:
        """Whether the character at `offset` is part of a scalar."""
        number = bisect_right(self._starts, offset) - 1
        return number >= 0 and offset < self._ends[number]


def _comment(found: re.Match[str], text: Text) -> IgnoreComment:
    codes = re.split(r"[\s,]+", found["codes"] or "")
    line = None if found["verb"] == "ignore-file" else _line_meant(found.start(), text)
    return IgnoreComment(
        text.location(found.start(), found.end()), tuple(code for code in codes if code), line
    )


def _line_meant(offset: int, text: Text) -> int:
    """The line a comment holds for: its own, or the next that says something if it is alone."""
    content = text.content
    begin = max(content.rfind("\n", 0, offset), content.rfind("\r", 0, offset)) + 1
    if content[begin:offset].strip():
        return text.line(offset)
    at = begin
    while at < len(content) and (insignificant := _INSIGNIFICANT.match(content, at)):
        at = insignificant.end()
    return text.line(min(at, len(content)))
