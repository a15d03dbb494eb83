"""Sort and list names as people do: digits count as numbers, so scale-2 is before scale-10.

Files are read in this order, and objects are written in it.
"""

import re
import sys
from collections.abc import Iterable

_DIGITS = re.compile(r"[0-9]+")

Natural = tuple[str, str]


def natural(text: str) -> Natural:
    """Return a sort key under which runs of digits compare as numbers.

    It differs from the key of every other text, leading zeros included.
    """
    return _DIGITS.sub(_number, text), text


def _number(match: re.Match[str]) -> str:
    # Their count before the digits makes texts compare as numbers. The NUL, which no name contains,
    # sorts a number before all letters, as if the text ended there.
    digits = match[0].lstrip("0")
    return f"\0{chr(min(len(digits), sys.maxunicode))}{digits}"


def some(names: Iterable[str], most: int = 3) -> str:
    known = [*dict.fromkeys(names)]
    first = ", ".join(known[:most])
    return f"{first} and {len(known) - most} more" if len(known) > most else first
