"""Count the steps in which a backtracking matcher tries a pattern, and write texts that hurt it.

The steps of `re` cannot be counted, and a clock says little on a busy machine. This matcher walks
the same tree in the same order, so it grows as `re` does. Counts such as `{1,300}` are cut to 3, as
they only multiply; what is left grows with the text.
"""

import re
from collections.abc import Iterator
from itertools import product
from re import _constants as op
from re import _parser

SMALL = 48
"""Characters of the smaller of two texts."""
_MOST = 3
_FEW = 8
"""Steps for each character of the smaller text that are not looked into: a square is 24."""
_TOO_MANY = 100_000
_ENDLESS = 10**9
_END = "\0\n\0"
"""What follows, so that no pattern matches to the end of the text."""
_ONE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_PROBES = "aA0 -_.\n\t/:=\"'{}[](),;@#$<>|\\+*?&%!~^`"


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _in_category(category: object, char: str) -> bool:
    return {
        op.CATEGORY_DIGIT: char.isdigit(),
        op.CATEGORY_NOT_DIGIT: not char.isdigit(),
        op.CATEGORY_SPACE: char.isspace(),
        op.CATEGORY_NOT_SPACE: not char.isspace(),
        op.CATEGORY_WORD: _is_word(char),
        op.CATEGORY_NOT_WORD: not _is_word(char),
    }[category]


def _takes(kind: object, of: object, char: str, flags: int) -> bool:
    """Whether a node for one character takes this one."""
    if kind is op.ANY:
        return bool(flags & re.DOTALL) or char != "\n"
    cases = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
    if kind in (op.LITERAL, op.NOT_LITERAL):
        return (chr(of) in cases) == (kind is op.LITERAL)
    negated = bool(of) and of[0][0] is op.NEGATE
    hit = any(
        ord(one) == value
        if sort is op.LITERAL
        else value[0] <= ord(one) <= value[1]
        if sort is op.RANGE
        else _in_category(value, one)
        for sort, value in of[negated:]
        for one in cases
        if len(one) == 1
    )
    return hit != negated


def _bounds(least: int, most: int) -> tuple[int, int]:
    most = 10**9 if most is op.MAXREPEAT else min(most, _MOST)
    return min(least, _MOST), most


class _EndlessError(Exception):
    """A pattern takes more steps than any that grows with the square of these texts."""


class Matcher:
    """A pattern as `re` reads it."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.tree = _parser.parse(pattern, flags)
        self.flags = self.tree.state.flags

    def steps(self, text: str, use: str) -> int:
        """The steps of `re.search`, `re.match`, `re.fullmatch` or, for all else, `re.finditer`."""
        self._text, self._steps = text, 0
        at = 0
        while at <= len(text):
            try:
                match = self._run(self.tree, 0, at, {}, self.flags, self._end(use))
            except _EndlessError:
                return _ENDLESS
            if use in ("match", "fullmatch") or (use == "search" and match):
                break
            at = match[0] if match and match[0] > at else at + 1
        return self._steps

    def _end(self, use: str):
        whole = len(self._text)
        if use == "fullmatch":
            return lambda at, groups: (at, groups) if at == whole else None
        return lambda at, groups: (at, groups)

    def _run(self, nodes, number, at, groups, flags, then):
        """Match the nodes from a number on, and then the rest; None if that fails."""
        if number == len(nodes):
            return then(at, groups)
        self._steps += 1
        if self._steps > _TOO_MANY:
            raise _EndlessError
        kind, of = nodes[number]
        text = self._text

        def rest(at, groups):
            return self._run(nodes, number + 1, at, groups, flags, then)

        def alone(part, at):
            return self._run(part, 0, at, groups, flags, lambda at, groups: (at, groups))

        if kind in _ONE:
            fits = at < len(text) and _takes(kind, of, text[at], flags)
            return rest(at + 1, groups) if fits else None
        if kind is op.BRANCH:
            tries = (self._run(branch, 0, at, groups, flags, rest) for branch in of[1])
            return next((match for match in tries if match), None)
        if kind is op.SUBPATTERN:
            name, added, removed, part = of
            inner = (flags | added) & ~removed
            return self._run(
                part, 0, at, groups, inner, lambda end, g: rest(end, {**g, name: (at, end)})
            )
        if kind is op.AT:
            return rest(at, groups) if self._is_at(of, at, flags) else None
        if kind in (op.ASSERT, op.ASSERT_NOT):
            direction, part = of
            start = at - part.getwidth()[0] if direction < 0 else at
            match = alone(part, start) if start >= 0 else None
            if bool(match) != (kind is op.ASSERT):
                return None
            return rest(at, match[1] if match else groups)
        if kind is op.GROUPREF:
            start, end = groups.get(of, (0, -1))
            self._steps += max(end - start, 0)
            fits = end >= start and text.startswith(text[start:end], at)
            return rest(at + end - start, groups) if fits else None
        if kind is op.ATOMIC_GROUP:
            match = alone(of, at)
            return rest(*match) if match else None
        assert kind in _REPEATS, kind
        return self._repeat(kind, of, at, groups, flags, rest)

    def _is_at(self, place, at, flags) -> bool:
        text = self._text
        lines = bool(flags & re.MULTILINE)
        if place in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0 or (lines and place is op.AT_BEGINNING and text[at - 1] == "\n")
        if place is op.AT_END:
            return at == len(text) or (text[at] == "\n" and (lines or at == len(text) - 1))
        if place is op.AT_END_STRING:
            return at == len(text)
        sides = [_is_word(text[n]) for n in (at - 1, at) if 0 <= n < len(text)]
        return (sum(sides) == 1) == (place is op.AT_BOUNDARY)

    def _repeat(self, kind, of, at, groups, flags, rest):
        least, most = _bounds(*of[:2])
        part = of[2]
        if len(part) == 1 and part[0][0] in _ONE and kind is not op.MIN_REPEAT:
            end = at
            while end < len(self._text) and end - at < most:
                self._steps += 1
                if not _takes(*part[0], self._text[end], flags):
                    break
                end += 1
            ends = range(end, at + least - 1, -1)
            if kind is op.POSSESSIVE_REPEAT:
                ends = ends[:1]
            for end in ends:
                self._steps += 1
                if match := rest(end, groups):
                    return match
            return None
        if kind is op.POSSESSIVE_REPEAT:
            for count in range(most):
                match = self._run(part, 0, at, groups, flags, lambda at, groups: (at, groups))
                if not match or (match[0] == at and count >= least):
                    return rest(at, groups) if count >= least else None
                at, groups = match
            return rest(at, groups)

        def again(count, at, groups, before):
            self._steps += 1

            def more():
                if count >= most or (at == before and count > least):
                    return None
                return self._run(
                    part, 0, at, groups, flags, lambda end, g: again(count + 1, end, g, at)
                )

            if count < least:
                return more()
            if kind is op.MIN_REPEAT:
                return rest(at, groups) or more()
            return more() or rest(at, groups)

        return again(0, at, groups, -1)


# Texts ------------------------------------------------------------------------------------------


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
            matching = [char for char in probes if _takes(kind, of, char, flags)] or ["?"]
            text += matching[choice % len(matching)]
            continue
        least, most = _bounds(*of[:2])
        part = of[2]
        fits = len(part) == 1 and part[0][0] in _ONE and most > _MOST and filling
        if fits and all(_takes(*part[0], char, flags) for char in filling):
            text += filling
        else:
            text += _sample([*_flat(part, flags, choice)], choice, filling) * max(least, most > 0)
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


def growth(pattern: str, flags: int, use: str) -> tuple[float, str, str]:
    """By how much the steps grow at most if a text doubles, and with which text that is.

    Returns:
        About 2 for what is linear and 4 for what is quadratic; 0 if that takes a few steps for each
        character. Then the beginning of the text, and what is repeated behind it.
    """
    matcher = Matcher(pattern, flags)
    worst = 0.0, "", ""
    for before, piece in dict.fromkeys(hostile_pieces(matcher.tree, matcher.flags)):
        count = -(-SMALL // max(len(piece), 1))
        small = matcher.steps(before + piece * count + _END, use)
        if piece and small > _FEW * (len(before) + SMALL):
            least = matcher.steps(before + _END, use)
            large = matcher.steps(before + piece * 2 * count + _END, use)
            if small == _ENDLESS:
                return float("inf"), before, piece
            worst = max(worst, ((large - least) / (small - least), before, piece))
    return worst
