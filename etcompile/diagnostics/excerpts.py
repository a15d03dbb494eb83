"""Parts of long texts for messages.

Two values that are cut at the same place may look the same, so a message about a change shows both
from a little before their first difference.
"""

import itertools

_BEFORE = 15
"""Characters before the first difference that are shown."""


def excerpt(text: str, longest: int) -> str:
    """The beginning of a text.

    Args:
        text: A text of any length.
        longest: Characters of it that are shown.
    """
    return _from(text, 0, longest)


def excerpts(old: str, new: str, longest: int) -> tuple[str, str]:
    """The parts of two texts in which they differ.

    Args:
        old: A text.
        new: Another.
        longest: Characters of each that are shown.

    Returns:
        Both whole if neither is longer; else both from a little before their first difference.
    """
    start = 0
    if max(len(old), len(new)) > longest:
        pairs = zip(old, new, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        start = max(same - _BEFORE, 0)
    return _from(old, start, longest), _from(new, start, longest)


def _from(text: str, start: int, longest: int) -> str:
    shown = text[start : start + longest]
    return f"{'…' if start else ''}{shown}{'…' if start + longest < len(text) else ''}"
