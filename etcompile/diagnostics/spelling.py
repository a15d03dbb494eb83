"""The nearest known name, or code of a diagnostic, to a misspelt one."""

import re
from collections.abc import Collection, Iterable
from itertools import takewhile

_FILLING = re.compile(r"[_\-\s]")


def probably(name: str, known: Collection[str]) -> str | None:
    """The known name that is nearest to a name; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, whatever its case; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else None


def bare(name: str) -> str:
    """A name in lower case without hyphens, underscores and blanks."""
    return _FILLING.sub("", name).lower()


def probable_code(written: str, codes: Iterable[str]) -> str | None:
    """The code of a diagnostic that is nearest to a misspelt one; None if none is near.

    The first digits count most, because they are the stage and the group: `ET204` is more likely
    the beginning of ET2040 than ET2104 without its second digit.

    Args:
        written: The misspelt code.
        codes: All codes; of several that are equally near, the first is chosen.
    """
    import difflib  # noqa: PLC0415 - only a complaint needs it

    digits = re.sub(r"\D", "", written.upper().replace("O", "0"))

    def nearness(code: str) -> tuple[int, float]:
        pairs = zip(digits, code[2:], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return shared, difflib.SequenceMatcher(None, digits, code[2:]).ratio()

    best = max(codes, key=nearness, default=None)
    return (
        best if best and (nearness(best)[0] >= _SHARED or nearness(best)[1] >= _SIMILAR) else None
    )


_SHARED = 3
_SIMILAR = 0.7
