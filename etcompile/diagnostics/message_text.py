"""Text from unchecked input, made safe for a terminal, a log or JSON, and cut for a message.

A message quotes names, values and lines of its input, which may contain any character.
"""

import json
from collections.abc import Sequence
from typing import Any

_BEFORE = 15
"""Characters before the first difference of two texts that are shown."""


def printable(words: str, *, keep: str = "") -> str:
    """The text without characters that a terminal would act on, except those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else "\ufffd" for c in words)


def well_formed(words: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot encode, replaced."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    """A JSON document in ASCII, which reads the same in every encoding of a log."""
    return json.dumps(_well_formed(value), indent=2) + "\n"


def _well_formed(value: Any) -> Any:
    """The value with all text in it well formed, which JSON for other programs must be."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {key: _well_formed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_well_formed(inner) for inner in value]
    return value


def excerpt(text: str, longest: int, start: int = 0) -> str:
    """At most so many characters of a text, with an ellipsis where there are others."""
    part = text[start : start + longest]
    return f"{'…' if start else ''}{part}{'…' if start + longest < len(text) else ''}"


def in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many characters or lines two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def excerpts(old: str, new: str, longest: int) -> tuple[str, str]:
    """The parts of two texts in which they differ.

    Two values that are cut at the same place may look the same.

    Returns:
        Both whole if neither is longer; else both from a little before their first difference.
    """
    start = 0
    if max(len(old), len(new)) > longest:
        start = max(in_common(old, new) - _BEFORE, 0)
    return excerpt(old, longest, start), excerpt(new, longest, start)
