"""The parse events of a text: those of libyaml for YAML, and the same for JSON.

Values and positions are both read from events, so that neither pays for the other and both see
the same text. JSON has a reader of its own because libyaml does not read everything that JSON
allows: surrogate pairs as escapes, objects without a separator between them, line separators
inside strings.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

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

from etcompile.load.scalars import key_text, plain_key, tagged

try:
    from yaml import CBaseLoader as _Parser
except ImportError:  # PyYAML was built without libyaml
    from yaml import BaseLoader as _Parser  # type: ignore[assignment]

Events = Callable[[str], Iterator[Event]]
"""A reader: from a text to its parse events."""

_JSON = re.compile(r"[ \t\r\n]*([{\[])")
# A text, which `re` compiles for the few inputs that are JSON.
_LEXEME = (
    r"[ \t\r\n]*+(?:"
    r"(?P<mark>[{}\[\],:])"
    r'|(?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")'
    r"|(?P<plain>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)"
    r"|(?P<end>\Z))"
)
_CLOSES = {"{": "}", "[": "]"}


def yaml_events(content: str) -> Iterator[Event]:
    """The events of a YAML stream.

    Returns:
        The events; each mark's `index` is a character offset into the text.

    Raises:
        yaml.YAMLError: while iterating, where the text is not YAML.
    """
    return iter(_Parser(content).get_event, None)


def span(event: Any) -> tuple[int, int]:
    """The offsets of an event's first character, and of the one after its last."""
    return event.start_mark.index, event.end_mark.index


def mapping_key(event: Any) -> str:
    """The JSON key that a scalar is, as a mapping's key.

    Raises:
        NotJsonError: it is null, or has a tag that is not one of JSON's types.
    """
    if event.tag is not None:
        return key_text(tagged(event.tag, event.value))
    value: str = event.value
    return plain_key(value) if event.implicit[0] else value


def is_merge_key(event: Any) -> bool:
    """Whether the event, in the place of a key, is the merge key `<<`, not the text "<<"."""
    return isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]


def merged_in(written: dict[Any, Any], merges: list[tuple[int, list[dict[Any, Any]]]]) -> Any:
    """A mapping with its merges, as kubectl's parser makes it.

    It merges where the merge key stands: a key written below it wins, and one written above it
    loses. Of two mappings in one merge the earlier one wins.

    Args:
        written: The keys that are written out, in order.
        merges: For each merge, how many keys stand above it, and the mappings it merges.
    """
    keys = list(written)
    value: dict[Any, Any] = {}
    done = 0
    for above, bases in merges:
        value.update((key, written[key]) for key in keys[done:above])
        for base in reversed(bases):
            value.update(base)
        done = above
    value.update((key, written[key]) for key in keys[done:])
    return value


# JSON -----------------------------------------------------------------------------------------


class NotJsonTextError(ValueError):
    """The text is not JSON from `start` on.

    Args:
        problem: What is wrong there.
        start: Offset to point at.
        reached: Offset at which that was noticed; `start` if None.
    """

    def __init__(self, problem: str, start: int, reached: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.start = start
        self.reached = start if reached is None else reached


def looks_like_json(content: str) -> bool:
    """Whether the first character that is not blank opens an object or a list."""
    return _JSON.match(content) is not None


class _Offset(Mark):
    """A mark that knows its offset only: nothing else of a mark is read."""

    def __init__(self, index: int) -> None:
        self.index = index


def json_events(content: str) -> Iterator[Event]:
    """The events of JSON values one after another, as `yaml_events` would give them.

    Returns:
        The events; each mark's `index` is a character offset into the text.

    Raises:
        NotJsonTextError: while iterating, where the text is not JSON.
    """
    token = re.compile(_LEXEME)
    opened: list[tuple[str, int]] = []
    expected = "a value"
    at = 0
    while True:
        match = token.match(content, at)
        if match is None:
            raise _unexpected(content, at, expected, opened)
        kind = match.lastgroup or ""
        start, at = match.span(kind)
        lexeme = match[kind]
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
            if lexeme == "{":
                yield MappingStartEvent(None, None, True, begin, end, True)  # noqa: FBT003
            elif lexeme == "[":
                yield SequenceStartEvent(None, None, True, begin, end, True)  # noqa: FBT003
            elif kind == "text":
                text = _unescaped(lexeme, start)
                yield ScalarEvent(None, None, (False, True), text, begin, end, '"')
            else:
                yield ScalarEvent(None, None, (True, False), lexeme, begin, end)
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


def _unescaped(lexeme: str, start: int) -> str:
    if "\\" not in lexeme:
        return lexeme[1:-1]
    try:
        value: str = json.loads(lexeme)
    except ValueError:
        raise NotJsonTextError("a string with an unknown escape", start) from None
    # Half of a surrogate pair is no character; Go puts the replacement character.
    return re.sub("[\ud800-\udfff]", "\ufffd", value)


def _unexpected(
    content: str, at: int, expected: str, opened: list[tuple[str, int]]
) -> NotJsonTextError:
    start = at + len(content[at:]) - len(content[at:].lstrip(" \t\r\n"))
    if start == len(content):
        lexeme, start = opened[-1]
        return NotJsonTextError(f"this '{lexeme}' is never closed", start, len(content))
    if content[start] == '"' and expected.startswith("a "):
        return NotJsonTextError("this quote is not closed on its line", start)
    return NotJsonTextError(f"expected {expected} here", start)
