"""Write texts that hurt a backtracking matcher, and find a pattern that takes long for one.

The texts are built from the pattern's own tree. What grows with the square of a text takes a second
for one of this length, and what grows with the text some milliseconds. Only the time of the
processor counts, so that a busy machine changes nothing.
"""

import re
import signal
from collections.abc import Callable, Iterator
from itertools import product
from re import _compiler, _parser
from re import _constants as op

LENGTH = 40_000
SECONDS = 0.4
"""Of the processor, for a text of that length."""
_MOST = 3
"""How often at most a counted repetition such as `{5,300}` is written."""
_END = "\0\n\0"
"""What follows, so that no pattern matches to the end of the text."""
_ONE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_PROBES = "aA0 -_.\n\t/:=\"'{}[](),;@#$<>|\\+*?&%!~^`"


class _SlowError(Exception):
    """The time is over."""


def _alone(kind: object, of: object, flags: int) -> re.Pattern[str]:
    """A pattern of nothing but one node of another, which takes one character."""
    return _compiler.compile(_parser.SubPattern(_parser.State(), [(kind, of)]), flags)


def _flat(nodes, flags: int, choice: int) -> Iterator[tuple]:
    """The nodes of a pattern in a row, with the flags of each: groups opened, a branch chosen."""
    for kind, of in nodes:
        if kind is op.SUBPATTERN:
            yield from _flat(of[3], (flags | of[1]) & ~of[2], choice)
        elif kind is op.ATOMIC_GROUP:
            yield from _flat(of, flags, choice)
        elif kind is op.BRANCH:
            yield from _flat(of[1][choice % len(of[1])], flags, choice)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            if choice and of[0] > 0:
                yield from _flat(of[1], flags, choice)
        elif kind not in (op.AT, op.GROUPREF):
            yield kind, of, flags


def _sample(row, choice: int, filling: str = "") -> str:
    """A text that a row of nodes takes, if what it looks around for allows.

    Args:
        filling: What stands where any number of any such characters may stand.
    """
    text = ""
    for kind, of, flags in row:
        if kind in _ONE:
            literals = [chr(v) for k, v in of if k is op.LITERAL] if kind is op.IN else []
            probes = [chr(of)] if kind is op.LITERAL else [*literals, *_PROBES]
            matching = [*filter(_alone(kind, of, flags).fullmatch, probes)] or ["?"]
            text += matching[choice % len(matching)]
            continue
        least, most, part = of
        fits = len(part) == 1 and part[0][0] in _ONE and most > _MOST and filling
        if fits and all(map(_alone(*part[0], flags).fullmatch, filling)):
            text += filling
        else:
            times = max(min(least, _MOST), most > 0)
            text += _sample([*_flat(part, flags, choice)], choice, filling) * times
    return text


def hostile_pieces(nodes, flags: int, before: str = "") -> Iterator[tuple[str, str]]:
    """What to repeat behind which beginning: for each repetition of a pattern what leads to it."""
    for choice in range(2):
        row = [*_flat(nodes, flags, choice)]
        for place, (kind, of, inner) in enumerate(row):
            if kind not in _REPEATS:
                continue
            head = before + _sample(row[:place], choice)
            if of[1] is op.MAXREPEAT:
                starts = [n for n in range(place + 1) if n == 0 or row[n - 1][0] is not op.LITERAL]
                for start, filling in product(starts, ("", head)):
                    part = row[start : place + 1]
                    yield before + _sample(row[:start], choice), _sample(part, choice, filling)
                yield head, _sample([*_flat(of[2], inner, choice)], choice, head)
            if len(of[2]) > 1 or of[2][0][0] not in _ONE:
                yield from hostile_pieces(of[2], inner, head)


def slow_text(pattern: str, flags: int, use: str) -> tuple[str, str] | None:
    """A text for which `re.search`, `re.match`, `re.fullmatch` or `re.finditer` takes too long.

    Returns:
        The beginning of the text, and what is repeated behind it; None if there is none.
    """
    tree = _parser.parse(pattern, flags)
    compiled = re.compile(pattern, flags)
    apply = getattr(compiled, use if use in ("search", "match", "fullmatch") else "findall")
    for before, piece in dict.fromkeys(hostile_pieces(tree, tree.state.flags)):
        text = before + piece * (LENGTH // max(len(piece), 1)) + _END
        if piece and _is_slow(lambda text=text: apply(text)):
            return before, piece
    return None


def _is_slow(match: Callable[[], object]) -> bool:
    def interrupt(*_: object) -> None:
        raise _SlowError

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        match()
    except _SlowError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return False
