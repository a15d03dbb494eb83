"""Write a JSON value as canonical YAML.

The text is committed to Git. It must be the same bytes on every platform and with every version of
a library, and every reader (YAML 1.1, 1.2, kubectl) must read the same value back
(reference/gitops.md 7). No library promises that.
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

_FIRST_KEYS = ("apiVersion", "kind", "metadata")

_CONTAINERS = (dict, list, tuple)
_KEY = itemgetter(0)

_LONGEST_SIMPLE_KEY = 1000
"""Readers look for a key's colon in 1,024 characters; a longer key needs the `?` form."""

# Characters that YAML text may contain unescaped, without line breaks. Left out: C0 and C1
# controls, and the separators and byte order mark that YAML 1.1 and 1.2 read differently.
_PRINTABLE = r"\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"

_NOT_BLANK = re.compile(r"[^ \t\n]")
_STARTS_BLANK = re.compile(r"\n*[ \t]")

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

# Stricter than any single reader: the pattern covers the YAML 1.1 types as PyYAML resolves them,
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


_Written = dict[tuple[int, str, str], tuple[Any, str]]
"""Lines of values that were written, by identity and indentation."""
_MOST_WRITTEN = 1024
"""Values to remember: more than an object shares with the next."""
_LONGEST_WRITTEN = 20_000
"""In characters; the host lists of a thousand Pods are longer, and not shared."""


def to_yaml(value: Any) -> str:
    """Return the canonical YAML of a JSON value.

    Block style, indented by two, entries of a list in the column of their key, lines of any length,
    no aliases; keys in alphabetical order, but apiVersion, kind and metadata first at the top; text
    of several lines as a literal block wherever that is exact (reference/gitops.md 7).

    Args:
        value: dict (of string keys), list or tuple, str, int, float, bool or None, nested.

    Raises:
        TypeError: The value, or one inside it, is not a JSON value.
        ValueError: A number is infinite or not a number, or a text holds half a surrogate pair.
    """
    return next(to_documents((value,)))


def to_documents(values: Iterable[Any]) -> Iterator[str]:
    """Yield the canonical YAML of each value, which must not change meanwhile.

    What a value shares with the previous one is written once: a role's Pods differ in their
    metadata and share the rest.
    """
    written: _Written = {}
    for value in values:
        out: list[str] = []
        if isinstance(value, dict) and value:
            first = [(key, value[key]) for key in _FIRST_KEYS if key in value]
            others = sorted(value.items(), key=_KEY)
            rest = [item for item in others if item[0] not in _FIRST_KEYS]
            _mapping(first + rest, "", "", out, written)
        elif isinstance(value, list | tuple) and value:
            _sequence(value, "", "", out, written)
        elif isinstance(value, str) and "\n" in value:
            # At the root, readers disagree on the base of an indentation indicator.
            literal = None if _STARTS_BLANK.match(value) else _literal(value, "  ")
            out.append(literal or _double_quoted(value) + "\n")
        else:
            out.append(_leaf(value, ""))
        yield "".join(out)


def _mapping(
    items: Iterable[tuple[str, Any]], indent: str, lead: str, out: list[str], written: _Written
) -> None:
    """Write a block mapping; its first line starts with `lead`, because `- ` may precede it."""
    for key, value in items:
        if type(value) is str and len(value) < _LONGEST_SIMPLE_KEY:
            out.append(lead + _entry(key, value, indent))
        elif isinstance(value, _CONTAINERS) and value:
            deeper = indent + "  " if isinstance(value, dict) else indent
            out += (f"{lead}{_key(key, indent)}:\n", _children(value, deeper, deeper, written))
        else:
            out.append(f"{lead}{_key(key, indent)}: {_leaf(value, indent)}")
        lead = indent


def _sequence(
    values: Iterable[Any], indent: str, lead: str, out: list[str], written: _Written
) -> None:
    for value in values:
        if isinstance(value, _CONTAINERS) and value:
            out += (f"{lead}- ", _children(value, indent + "  ", "", written))
        else:
            out.append(f"{lead}- {_leaf(value, indent)}")
        lead = indent


def _children(value: Any, indent: str, lead: str, written: _Written) -> str:
    """Return the lines of a mapping or sequence; shared values are written once."""
    key = (id(value), indent, lead)
    if key not in written:
        out: list[str] = []
        if isinstance(value, dict):
            _mapping(sorted(value.items(), key=_KEY), indent, lead, out, written)
        else:
            _sequence(value, indent, lead, out, written)
        text = "".join(out)
        if len(text) > _LONGEST_WRITTEN:
            return text
        if len(written) >= _MOST_WRITTEN:
            written.clear()
        written[key] = value, text  # storing the value keeps its id from being reused
    return written[key][1]


@functools.lru_cache(maxsize=8192)
def _entry(key: str, text: str, indent: str) -> str:
    return f"{_key(key, indent)}: {_leaf(text, indent)}"


def _key(key: str, indent: str) -> str:
    written = _text(key)
    return written if len(written) <= _LONGEST_SIMPLE_KEY else f"? {written}\n{indent}"


def _leaf(value: Any, indent: str) -> str:
    """Return a value without children, with its line break; `indent` is its key's or dash's."""
    match value:
        case str():
            if "\n" in value:
                return _literal(value, indent + "  ") or _double_quoted(value) + "\n"
            # The host lists of a thousand Pods would fill the cache.
            return (_text if len(value) < _LONGEST_SIMPLE_KEY else _text.__wrapped__)(value) + "\n"
        case None:
            return "null\n"
        case bool():
            return "true\n" if value else "false\n"
        case int():
            return f"{value}\n"
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            written = repr(value)
            # YAML 1.1 reads 1e+20 as a text, because its floats have a point.
            return (written if "." in written else written.replace("e", ".0e")) + "\n"
        case dict():
            return "{}\n"
        case list() | tuple():
            return "[]\n"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


@functools.lru_cache(maxsize=8192)
def _text(text: str) -> str:
    """Return a text on one line, in the plainest style that every reader reads as this text."""
    if not isinstance(text, str):
        raise TypeError("a key of a JSON mapping must be a text")
    if not _is_printable(text):
        return _double_quoted(text)
    if _NEEDS_QUOTES.search(text) or _READS_AS_ANOTHER_TYPE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_printable(text: str) -> bool:
    # Everything that Python prints, YAML does. The pattern also allows blanks that Python does not
    # print; it takes milliseconds to compile, and hardly any text needs it.
    return text.isprintable() or not re.search(rf"[^{_PRINTABLE}]", text)


def _double_quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is not text") from None
    return '"' + re.sub(rf'[^{_PRINTABLE}]|[\\"]', _escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if short := _SHORT_ESCAPES.get(character):
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


@functools.lru_cache(maxsize=64)
def _literal(text: str, indent: str) -> str | None:
    """Return a text as a literal block after its `|`; None if that would not be exact."""
    on_lines = text.replace("\n", "").replace("\t", "")
    if not _is_printable(on_lines) or not _NOT_BLANK.search(text):
        return None
    # A reader takes the indentation from the first non-empty line, so a blank at the start of that
    # line needs an indicator.
    indicator = "2" if _STARTS_BLANK.match(text) else ""
    chomping = "-" if text[-1] != "\n" else "+" if text[-2:] == "\n\n" else ""
    lines = text.removesuffix("\n").split("\n")
    block = "\n".join(indent + line if line else "" for line in lines)
    return f"|{indicator}{chomping}\n{block}\n"
