"""Make unchecked input safe for a terminal, a log or JSON, and cut it for a message.

A message quotes names, values and lines of its input, which may contain any character.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

_BEFORE = 15
"""Characters to show before the first difference of two texts."""


def printable(words: str, *, keep: str = "") -> str:
    """Replace characters that a terminal would act on, except those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else "\ufffd" for c in words)


def painted(words: str, style: str, *, color: bool) -> str:
    """Return words in a style of a terminal: `1;31`; as they are without a style or color."""
    return f"\x1b[{style}m{words}\x1b[0m" if color and style else words


def well_formed(words: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    return json.dumps(with_texts(value, well_formed), indent=2) + "\n"


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change the texts in a JSON value, except its keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: with_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(inner, change) for inner in value]
    return value


WIDEST = 60
"""Characters of a value in a message."""


def cut_value(value: str) -> str:
    return value if len(value) <= WIDEST else f"{value[:WIDEST]}..."


def excerpt(text: str, longest: int, start: int = 0) -> str:
    part = text[start : start + longest]
    return f"{'…' if start else ''}{part}{'…' if start + longest < len(text) else ''}"


def in_common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def excerpts(old: str, new: str, longest: int) -> tuple[str, str]:
    """Return the parts of two texts in which they differ.

    Both are whole if neither is longer; else both start shortly before their first difference,
    because values that are cut at the same place may look equal.
    """
    start = 0
    if max(len(old), len(new)) > longest:
        start = max(in_common(old, new) - _BEFORE, 0)
    return excerpt(old, longest, start), excerpt(new, longest, start)
