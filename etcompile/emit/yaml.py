"""A JSON value to its one canonical YAML text.

A writer of our own, because the text is committed to Git: it must be the same bytes on every
platform and with every version of a library, and every reader (YAML 1.1, 1.2, kubectl) must
read the same value back (reference/gitops.md 7).
"""

import functools
import math
import re
from collections.abc import Iterable
from typing import Any

_FIRST_KEYS = ("apiVersion", "kind", "metadata")

_LONGEST_SIMPLE_KEY = 1000
"""Readers look 1,024 characters ahead for a key's colon; a longer key needs the `?` form."""

# What YAML text may hold as it is, without line breaks. Left out: C0 and C1 controls, and the
# line and paragraph separators and the byte order mark, which YAML 1.1 and 1.2 read differently.
_PRINTABLE = r"\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"

_NEEDS_ESCAPES = re.compile(rf"[^{_PRINTABLE}]")
_UNPRINTABLE = re.compile(rf"[^{_PRINTABLE}\t\n]")
_NOT_BLANK = re.compile(r"[^ \t\n]")
_STARTS_BLANK = re.compile(r"\n*[ \t]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_NEEDS_QUOTES = re.compile(
    r"""
    \A [ ?:,\[\]{}#&*!|>'"%@`]      # an indicator, or a blank that would be lost
    | \A - (?: [ ] | \Z)            # a list entry
    | \A (?: --- | \.\.\. )         # a document marker
    | :(?: [ ] | \Z)                # a mapping
    | [ ]\#                         # a comment
    | [ ]\Z
    """,
    re.VERBOSE,
)

# Broader than any single reader: one pattern covers the YAML 1.1 types as PyYAML resolves them,
# the YAML 1.2 core schema, and go-yaml, which drops every `_` before it looks for a number.
_READS_AS_ANOTHER_TYPE = re.compile(
    r"""
    | ~ | = | <<
    | null | true | false | yes | no | on | off | y | n
    | [-+]? [0-9_]* (?: \.[0-9_]* )? (?: e [-+]? [0-9_]+ )?
    | [-+]? 0 [xbo] [0-9a-f_]+
    | [-+]? [0-9][0-9_]* (?: : [0-9_]+ )+ (?: \.[0-9_]* )?
    | [-+]? \. (?: inf | nan )
    | [0-9]{4} - [0-9]{1,2} - [0-9]{1,2} (?: [t ] .* )?
    """,
    re.VERBOSE | re.IGNORECASE,
)

_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(rf'[^{_PRINTABLE}]|[\\"]')


def to_yaml(value: Any) -> str:
    """The canonical YAML of a JSON value.

    Block style, indented by two, entries of a list in the column of their key, lines as long as
    they come, no aliases; keys in alphabetical order, but apiVersion, kind and metadata first at
    the top; text of several lines as a literal block wherever that is exact
    (reference/gitops.md 7).

    Args:
        value: dict (of string keys), list or tuple, str, int, float, bool or None, nested.

    Returns:
        One YAML document without markers, ending with a line break.

    Raises:
        TypeError: the value, or one inside it, is not a JSON value.
        ValueError: a number is infinite or not a number, or a text holds half a surrogate pair;
            neither can be written.
    """
    out: list[str] = []
    if isinstance(value, dict) and value:
        first = [(key, value[key]) for key in _FIRST_KEYS if key in value]
        rest = [(key, value[key]) for key in _sorted_keys(value) if key not in _FIRST_KEYS]
        _mapping(first + rest, "", "", out)
    elif isinstance(value, list | tuple) and value:
        _sequence(value, "", "", out)
    elif isinstance(value, str) and "\n" in value:
        # Readers disagree on what an indentation indicator counts from at the root.
        literal = None if _STARTS_BLANK.match(value) else _literal(value, "  ")
        out.append(literal or _double_quoted(value) + "\n")
    else:
        out.append(_scalar(value) + "\n")
    return "".join(out)


def _mapping(items: Iterable[tuple[str, Any]], indent: str, lead: str, out: list[str]) -> None:
    """Writes a block mapping; its first line starts with `lead`, as `- ` may precede it."""
    for key, value in items:
        written = _text(key)
        if len(written) > _LONGEST_SIMPLE_KEY:
            written = f"? {written}\n{indent}"
        out.append(f"{lead}{written}:")
        lead = indent
        if isinstance(value, dict) and value:
            out.append("\n")
            deeper = indent + "  "
            _mapping(_sorted_items(value), deeper, deeper, out)
        elif isinstance(value, list | tuple) and value:
            out.append("\n")
            _sequence(value, indent, indent, out)
        else:
            out.append(" " + _leaf(value, indent))


def _sequence(values: Iterable[Any], indent: str, lead: str, out: list[str]) -> None:
    """Writes a block sequence; its first line starts with `lead`, as `- ` may precede it."""
    for value in values:
        out.append(f"{lead}- ")
        lead = indent
        if isinstance(value, dict) and value:
            _mapping(_sorted_items(value), indent + "  ", "", out)
        elif isinstance(value, list | tuple) and value:
            _sequence(value, indent + "  ", "", out)
        else:
            out.append(_leaf(value, indent))


def _leaf(value: Any, indent: str) -> str:
    """A value without children, with its line break; `indent` is its key's or its dash's."""
    if isinstance(value, str) and "\n" in value:
        return _literal(value, indent + "  ") or _double_quoted(value) + "\n"
    return _scalar(value) + "\n"


def _scalar(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    written = repr(value)
    # 1e+20 is a text to YAML 1.1, whose floats have a point.
    return written if "." in written else written.replace("e", ".0e")


@functools.lru_cache(maxsize=8192)
def _text(text: str) -> str:
    """A text on one line, in the plainest style that every reader reads as this text."""
    if _NEEDS_ESCAPES.search(text):
        return _double_quoted(text)
    if _NEEDS_QUOTES.search(text) or _READS_AS_ANOTHER_TYPE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _double_quoted(text: str) -> str:
    if _SURROGATE.search(text):
        raise ValueError("half a surrogate pair is not text")
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if short := _SHORT_ESCAPES.get(character):
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


@functools.lru_cache(maxsize=1024)
def _literal(text: str, indent: str) -> str | None:
    """A text as a literal block after its `|`, or None if that would not be exact."""
    if _UNPRINTABLE.search(text) or not _NOT_BLANK.search(text):
        return None
    # A reader takes the indentation from the first line that is not empty, so a blank in front
    # of that line must be told apart from it.
    indicator = "2" if _STARTS_BLANK.match(text) else ""
    chomping = "-" if text[-1] != "\n" else "+" if text[-2:] == "\n\n" else ""
    lines = text.removesuffix("\n").split("\n")
    block = "\n".join(indent + line if line else "" for line in lines)
    return f"|{indicator}{chomping}\n{block}\n"


def _sorted_keys(mapping: dict[str, Any]) -> list[str]:
    if not all(isinstance(key, str) for key in mapping):
        raise TypeError("a key of a JSON mapping must be a text")
    return sorted(mapping)


def _sorted_items(mapping: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key, mapping[key]) for key in _sorted_keys(mapping)]
