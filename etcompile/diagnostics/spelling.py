"""The name, or the code of a diagnostic, that was probably meant by a misspelt one."""

import re
from collections.abc import Collection, Iterable
from itertools import takewhile

_FILLING = re.compile(r"[_\-\s]")


def probably(name: str, known: Collection[str]) -> str | None:
    """The known name nearest to a name; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def bare(name: str) -> str:
    """A name without what differs between ways of spelling it: case, hyphens, underscores."""
    return _FILLING.sub("", name).lower()


def probable_code(written: str, codes: Iterable[str]) -> str | None:
    """The code of a diagnostic that was probably meant: digits count, from the first one.

    Letters are the same in all codes, and a code begins with its stage and group, so that `ET204`
    is more likely a part of ET2040 than ET2104 without its second digit.

    Args:
        written: What was written.
        codes: The codes that there are; of several that are equally near, the first.
    """
    import difflib  # noqa: PLC0415 - only a complaint needs it

    digits = re.sub(r"\D", "", written.upper().replace("O", "0"))

    def nearness(code: str) -> tuple[int, float]:
        pairs = zip(digits, code[2:], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return shared, difflib.SequenceMatcher(None, digits, code[2:]).ratio()

    best = max(codes, key=nearness, default=None)
    return best if best and (nearness(best)[0] >= _SHARED or nearness(best)[1] >= _ALIKE) else None


_SHARED = 3
_ALIKE = 0.7
