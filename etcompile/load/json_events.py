"""The parse events of JSON values one after another.

Apart from `events`, whose libyaml does not read everything that JSON allows: surrogate pairs as
escapes, objects without a separator between them, line separators inside strings. Most texts are
YAML and never come here.
"""

import json
import re
from collections.abc import Iterator

from yaml.error import Mark
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from etcompile.load.events import NotJsonTextError

_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:"
    r"(?P<mark>[{}\[\],:])"
    r'|(?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")'
    r"|(?P<plain>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)"
    r"|(?P<end>\Z))"
)
_BLANKS = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSES = {"{": "}", "[": "]"}


class _Offset(Mark):
    """A mark that knows its offset only, all that is ever asked of one."""

    def __init__(self, index: int) -> None:
        self.index = index


def json_events(content: str) -> Iterator[Event]:
    """The events of JSON values one after another, as `yaml_events` would give them.

    Returns:
        The events; each mark's `index` is a character offset into the text.

    Raises:
        NotJsonTextError: while iterating, where the text is not JSON.
    """
    opened: list[tuple[str, int]] = []
    expected = "a value"
    at = 0
    while True:
        found = _TOKEN.match(content, at)
        if found is None:
            raise _unexpected(content, at, expected, opened)
        kind = found.lastgroup or ""
        start, at = found.span(kind)
        lexeme = found[kind]
        begin, end = _Offset(start), _Offset(at)
        if kind == "end":
            if opened:
                raise _unexpected(content, start, expected, opened)
            yield StreamEndEvent(begin, end)
            return
        if kind != "mark" or lexeme in "{[":
            key = expected.startswith("a key")
            if not (expected.startswith("a value") or (key and kind == "text")):
                raise _unexpected(content, start, expected, opened)
            if not opened:
                yield DocumentStartEvent(begin, begin)
            yield _value_event(kind, lexeme, begin, end)
            if lexeme in _CLOSES:
                opened.append((lexeme, start))
                expected = "a key or '}'" if lexeme == "{" else "a value or ']'"
                continue
            if key:
                expected = "':'"
                continue
        elif f"'{lexeme}'" not in expected:
            raise _unexpected(content, start, expected, opened)
        elif lexeme in "}]":
            opened.pop()
            yield MappingEndEvent(begin, end) if lexeme == "}" else SequenceEndEvent(begin, end)
        else:
            expected = "a key" if lexeme == "," and opened[-1][0] == "{" else "a value"
            continue
        if opened:
            expected = f"',' or '{_CLOSES[opened[-1][0]]}'"
        else:
            yield DocumentEndEvent(end, end)
            expected = "a value"


def _value_event(kind: str, lexeme: str, begin: Mark, end: Mark) -> Event:
    if lexeme == "{":
        return MappingStartEvent(None, None, True, begin, end, True)  # noqa: FBT003
    if lexeme == "[":
        return SequenceStartEvent(None, None, True, begin, end, True)  # noqa: FBT003
    if kind == "text":
        value = _unescaped(lexeme, begin.index)
        return ScalarEvent(None, None, (False, True), value, begin, end, '"')
    return ScalarEvent(None, None, (True, False), lexeme, begin, end)


def _unescaped(lexeme: str, start: int) -> str:
    if "\\" not in lexeme:
        return lexeme[1:-1]
    try:
        value: str = json.loads(lexeme)
    except ValueError:
        raise NotJsonTextError("a string with an unknown escape", start) from None
    # Half of a surrogate pair is no character; Go puts the replacement character.
    return _SURROGATE.sub("\ufffd", value)


def _unexpected(
    content: str, at: int, expected: str, opened: list[tuple[str, int]]
) -> NotJsonTextError:
    blanks = _BLANKS.match(content, at)
    start = blanks.end() if blanks else at
    if start == len(content):
        lexeme, start = opened[-1]
        return NotJsonTextError(f"this '{lexeme}' is never closed", start, len(content))
    if content[start] == '"' and expected.startswith("a "):
        return NotJsonTextError("this quote is not closed on its line", start)
    return NotJsonTextError(f"expected {expected} here", start)
