"""Long texts as a message shows them: a part of each, and of two always the part that differs.

Two values that are cut at the same place look like one. Apart from the messages, so that every
one of them which names a value before and after shows the first difference.
"""

import itertools

_BEFORE = 15
"""Characters before the first difference that are shown, to find it."""


def excerpt(text: str, longest: int) -> str:
    """The begin of a text.

    Args:
        text: A text of any length.
        longest: Characters of it that are shown.
    """
    return _from(text, 0, longest)


def excerpts(old: str, new: str, longest: int) -> tuple[str, str]:
    """A part of each of two texts, in which they differ.

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
