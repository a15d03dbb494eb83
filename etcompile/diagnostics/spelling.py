"""Suggest the nearest known name, or code of a diagnostic, for a misspelt one."""

import re
from collections.abc import Collection, Iterable

_FILLING = re.compile(r"[_\-\s]")


def probably(name: str, known: Collection[str]) -> str | None:
    import difflib  # noqa: PLC0415 - only a complaint needs it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word, whatever its case; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else None


def bare(name: str) -> str:
    return _FILLING.sub("", name).lower()


def probable_code(written: str, codes: Collection[str]) -> str | None:
    """Return the code of a diagnostic that is nearest to a misspelt one; None if none is near.

    The first digits count most, because they are the stage and the group: `ET204` is more likely
    the beginning of ET2040 than ET2104 without its second digit.
    """
    written = written.upper().replace("O", "0")
    for begin in (written[:6], written[:5]):
        codes_with_it = [code for code in codes if len(begin) > 4 and code.startswith(begin)]
        if codes_with_it:
            return min(codes_with_it)
    return probably(written, codes)
