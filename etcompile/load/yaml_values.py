"""Read a text's documents as JSON values, in one pass over its events.

No position is computed unless there is a problem (`positions` does that on demand). A value that
has no JSON form or exceeds a limit becomes a diagnostic.
"""

import json
import re
from typing import Any, Final

from msgspec import Struct, field
from yaml import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.load.access import Limits
from etcompile.load.scalars import (
    FIRST_CHARACTERS,
    PLAIN,
    NotJsonError,
    Scalar,
    key_text,
    plain,
    short_tag,
    tagged,
)
from etcompile.load.source_text import Text
from etcompile.load.yaml_events import mapping_key, merged_in, span, yaml_events


class DocumentValue(Struct, frozen=True):
    """One document of a text.

    Args:
        value: Its JSON value; aliases are shared objects, so treat it as immutable.
        sound: False if it is incomplete because something in it has no JSON form.
    """

    value: Any
    start: int
    end: int
    sound: bool


class Reading(Struct):
    """The result of reading a text.

    Args:
        documents: The documents up to the end, or up to where reading broke off.
        broken: Reading broke off.
        is_json: The text is JSON, which has no comments.
    """

    documents: list[DocumentValue] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    broken: bool = False
    is_json: bool = False


# What the next node of a container is, if not the value of a key.
_ITEM: Final = object()
_KEY: Final = object()
_MERGE: Final = object()
_DROP: Final = object()
_MAPPING_TAGS: Final = ("!", "!!map")
_LIST_TAGS: Final = ("!", "!!seq")
_JSON = re.compile(r"[ \t\r\n]*[{\[]")
_BLANKS = re.compile(r"[ \t\r\n]*")
# A pattern as text, which `re` compiles for the few inputs with an escape.
_ESCAPE = r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\."
"""An escape of JSON; one of six characters is half of a surrogate pair."""


def read(text: Text, limits: Limits) -> Reading:
    """Read the documents of a printable text, YAML or JSON, as kubectl does."""
    documents = _json_documents(text.content, limits) if _JSON.match(text.content) else None
    if isinstance(documents, list):
        return Reading(documents, is_json=True)
    reading = Reading()
    try:
        _read_events(reading, text, limits)
    except _StopError as error:
        reading.broken = True
        place = text.location(error.start, error.end)
        reading.problems.append(diagnose(error.code, place, **error.facts))
    except (YAMLError, UnicodeError) as error:
        from etcompile.load import syntax  # noqa: PLC0415 - most texts are sound

        reading.broken = True
        reading.problems.append(syntax.syntax_problem(text, error, limits))
    if reading.broken and documents is not None:
        # The text is neither JSON nor YAML: report the error that is further down.
        place, by_yaml = text.location(documents.pos), reading.problems[-1]
        if by_yaml.code == codes.YAML_SYNTAX and line_and_column(by_yaml) <= (
            place.line,
            place.column,
        ):
            facts = {
                "problem": documents.msg.lower().removesuffix(" at"),
                "advice": "correct the JSON here",
            }
            reading.problems[-1] = diagnose(codes.YAML_SYNTAX, place, **facts)
    if reading.broken:
        from etcompile.load.syntax import merge_conflict  # noqa: PLC0415 - few texts are broken

        if (conflict := merge_conflict(text)) is not None:
            reading.problems[-1] = conflict
    return reading


def line_and_column(problem: Diagnostic) -> tuple[int, int]:
    place = problem.location
    return (place.line or 0, place.column or 0) if place else (0, 0)


def _json_documents(
    content: str, limits: Limits
) -> list[DocumentValue] | json.JSONDecodeError | None:
    """Return the documents of a JSON text or its first error; None if YAML rules must apply."""
    if "\\ud" in content.lower():
        # Go replaces half of a surrogate pair by the replacement character.
        content = re.sub(_ESCAPE, lambda m: "\\ufffd" if len(m[0]) == 6 else m[0], content)
    decoder = json.JSONDecoder(
        object_pairs_hook=_mapping, parse_int=plain, parse_float=plain, parse_constant=_refused
    )
    documents: list[DocumentValue] = []
    at = 0
    while (start := _BLANKS.match(content, at).end()) < len(content):  # type: ignore[union-attr]
        try:
            value, at = decoder.raw_decode(content, start)
            if _levels(value) > limits.depth:
                return None
        except json.JSONDecodeError as error:
            return error
        except (ValueError, RecursionError):
            return None
        documents.append(DocumentValue(value, start, at, sound=True))
        if len(documents) > limits.documents:
            break
    return documents


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("duplicate keys")
    return mapping


def _refused(constant: str) -> None:
    raise ValueError(constant)  # NaN is no JSON


def _levels(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)


class _StopError(Exception):
    """Reading cannot go on: a limit is exceeded, or an alias has no anchor."""

    def __init__(self, event: Event, code: str, **facts: object) -> None:
        super().__init__(code)
        self.start, self.end = span(event)
        self.code, self.facts = code, facts


def _read_events(reading: Reading, text: Text, limits: Limits) -> None:
    """Read all events; most of the time of loading is spent here.

    The function is long because a call per event would cost as much as the event. `target` is the
    container that is being filled, and `key` the place of its next node: a key's text, or one of
    the markers above. Sizes and heights count values and levels with every alias expanded.
    """
    event: Any
    root: list[Any] = []
    target: Any = root
    key: Any = _ITEM
    merges: list[tuple[int, list[dict[str, Any]]]] | None = None
    keys: dict[str, int] = {}  # where the keys of the mapping are that is being filled
    stack: list[tuple[Any, ...]] = []
    anchors: dict[str, tuple[Any, int, int] | None] = {}
    lengths: dict[str, tuple[Any, int]] = {}
    size = height = expanded = repeated = documents = start = refused = refused_before = 0

    for event in yaml_events(text.content):
        kind = event.__class__
        if kind is ScalarEvent:
            value = event.value
            # Most scalars are text, and take neither branch.
            special = event.tag is not None or (value[:1] in FIRST_CHARACTERS and event.implicit[0])
            if key is _KEY:
                if value == "<<" and event.implicit[0]:
                    key = _MERGE
                    continue
                try:
                    if event.anchor is not None:
                        anchors[event.anchor] = (_scalar(event), 1, 0)
                    key = mapping_key(event) if special else value
                except NotJsonError as error:
                    reading.problems.append(_not_json(text, event, str(error)))
                    refused += 1
                    key = _DROP
                    continue
                if key in target:
                    reading.problems.append(_duplicate(text, event, key, keys))
                else:
                    keys[key] = event.start_mark.index
                continue
            size += 1
            if special:
                try:
                    value = _scalar(event)
                except NotJsonError as error:
                    reading.problems.append(_not_json(text, event, str(error)))
                    refused += 1
            if event.anchor is not None:
                anchors[event.anchor] = (value, 1, 0)
            opening = event
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if len(stack) >= limits.depth:
                raise _StopError(event, codes.NESTING_TOO_DEEP, limit=limits.depth)
            mapping = kind is MappingStartEvent
            if event.tag is not None and short_tag(event.tag) not in (
                _MAPPING_TAGS if mapping else _LIST_TAGS
            ):
                reading.problems.append(_not_json(text, event, f"the tag {short_tag(event.tag)}"))
                refused += 1
            if event.anchor is not None:
                anchors[event.anchor] = None
            stack.append((target, key, merges, keys, size, height, event.anchor, event))
            size += 1
            height = 0
            merges = None
            target, key = ({}, _KEY) if mapping else ([], _ITEM)
            keys = {}
            continue
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            value = merged_in(target, merges) if merges else target
            below = height + 1
            target, key, merges, keys, before, height, anchor, opening = stack.pop()
            height = max(height, below)
            if anchor is not None and anchors[anchor] is None:
                anchors[anchor] = (value, size - before, below)
        elif kind is AliasEvent:
            value, values, levels = _aliased(event, anchors)
            size += values
            expanded += values
            # Count the bytes of all texts and keys once for each anchor.
            counted = lengths.get(event.anchor)
            if counted is None or counted[0] is not value:
                counted = lengths[event.anchor] = (value, text_bytes(value))
            repeated += counted[1]
            if repeated > limits.alias_bytes:
                raise _StopError(event, codes.ALIAS_BYTES, limit=limits.alias_bytes // 2**20)
            height = max(height, levels)
            if expanded > limits.alias_values:
                raise _StopError(event, codes.ALIAS_EXPANSION, limit=limits.alias_values)
            if len(stack) + levels > limits.depth:
                raise _StopError(event, codes.NESTING_TOO_DEEP, limit=limits.depth)
            opening = event
        elif kind is DocumentStartEvent:
            documents += 1
            if documents > limits.documents:
                raise _StopError(event, codes.TOO_MANY_DOCUMENTS, limit=limits.documents)
            root = []
            target, key, merges, keys, anchors = root, _ITEM, None, {}, {}
            size = height = 0
            start, refused_before = event.start_mark.index, refused
            continue
        elif kind is DocumentEndEvent:
            end, sound = event.end_mark.index, refused == refused_before
            reading.documents.append(DocumentValue(root[0], start, end, sound))
            continue
        else:
            continue

        # A node is complete: add it to its container.
        if key.__class__ is str:
            target[key] = value
            key = _KEY
        elif key is _ITEM:
            target.append(value)
        elif key is _MERGE:
            key = _KEY
            # As in go-yaml, a list must be written in place: an alias of a list is refused.
            is_list = isinstance(value, list) and kind is not AliasEvent
            bases = value if is_list else [value]
            if not all(isinstance(base, dict) for base in bases):
                place = text.location(*span(opening))
                reading.problems.append(diagnose(codes.MERGE_KEY, place))
                refused += 1
            else:
                merges = merges or []
                merges.append((len(target), bases))
        elif key is _KEY:
            try:
                key = key_text(value)
            except NotJsonError as error:
                problem = _template(text, opening) or _not_json(text, opening, str(error))
                reading.problems.append(problem)
                refused += 1
                key = _DROP
                continue
            if key in target:
                reading.problems.append(_duplicate(text, opening, key, keys))
            else:
                keys[key] = opening.start_mark.index
        else:
            key = _KEY


def _scalar(event: Any) -> Scalar:
    if event.tag is not None:
        return tagged(event.tag, event.value)
    value: str = event.value
    return plain(value) if event.implicit[0] else value


def _aliased(event: Any, anchors: dict[str, tuple[Any, int, int] | None]) -> tuple[Any, int, int]:
    name = event.anchor
    if name not in anchors:
        problem = f"no value above has the anchor &{name}"
        advice = f"put &{name} before the value it repeats, or quote the text"
        raise _StopError(event, codes.YAML_SYNTAX, problem=problem, advice=advice)
    aliased = anchors[name]
    if aliased is None:
        problem = f"*{name} stands inside the value it repeats"
        raise _StopError(event, codes.YAML_SYNTAX, problem=problem, advice="write it out")
    return aliased


def text_bytes(value: Any) -> int:
    """Return the length of all texts and keys in a JSON value, about its size as a file."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + text_bytes(inner) for key, inner in value.items())
    return sum(map(text_bytes, value)) if isinstance(value, list) else 0


def _not_json(text: Text, event: Any, what: str) -> Diagnostic:
    return diagnose(codes.UNSUPPORTED_YAML, text.location(*span(event)), what=what, advice=PLAIN)


def _template(text: Text, event: Any) -> Diagnostic | None:
    """Report a template: `{{ .Values.x }}` is a mapping with a mapping for a key."""
    start = event.start_mark.index
    if not text.content.startswith("{{", start):
        start -= 1  # the event may be the second bracket's
    if start < 0 or not text.content.startswith("{{", start):
        return None
    end = text.content.find("}}", start)
    line = text.content.find("\n", start)
    end = end + 2 if end >= 0 and (line < 0 or end < line) else start + 2
    what = "a template ({{ ... }})"
    return diagnose(codes.UNSUPPORTED_YAML, text.location(start, end), what=what, advice=PLAIN)


def _duplicate(text: Text, event: Any, key: str, keys: dict[str, int]) -> Diagnostic:
    place = text.location(*span(event))
    return diagnose(codes.DUPLICATE_KEY, place, key=key, first=text.line(keys[key]))
