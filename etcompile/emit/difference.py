"""Two texts to the lines that differ, as `diff -u` shows them.

A rendered file may have a hundred thousand lines, and `render --check` shows a few of them. So no
more than 2,000 lines from the first difference on are compared.
"""

import difflib
from collections.abc import Iterator

_CONTEXT = 3
_COMPARED = 2000
"""Lines of either text, from the first difference on, that are compared."""


def unified(name: str, old: str, new: str) -> Iterator[str]:
    """The lines of a unified diff, each without its line break.

    Args:
        name: What both texts are called.
        old: The text before; empty for a file that is not there.
        new: The text after; empty for a file that goes.

    Yields:
        The two names, then hunks. Far behind the first difference the diff may end early.
    """
    before, after = old.splitlines(), new.splitlines()
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    offset = max(start - _CONTEXT, 0)
    before = before[offset : len(before) - max(end - _CONTEXT, 0)]
    after = after[offset : len(after) - max(end - _CONTEXT, 0)]
    cut = max(len(before), len(after)) > _COMPARED
    before, after = before[:_COMPARED], after[:_COMPARED]
    yield f"--- {name if old else '/dev/null'}"
    yield f"+++ {f'{name} (rendered now)' if new else '/dev/null'}"
    groups = list(difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT))
    if cut and len(groups) > 1:
        # What the cut has torn apart would look like a change.
        groups.pop()
    for group in groups:
        yield from _hunk(group, before, after, offset)


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _hunk(
    group: list[tuple[str, int, int, int, int]], before: list[str], after: list[str], offset: int
) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_range(first[1], last[2], offset)} +{_range(first[3], last[4], offset)} @@"
    for tag, i, j, k, m in group:
        if tag == "equal":
            yield from (f" {line}" for line in before[i:j])
            continue
        yield from (f"-{line}" for line in before[i:j])
        yield from (f"+{line}" for line in after[k:m])


def _range(start: int, stop: int, offset: int) -> str:
    length = stop - start
    first = offset + start + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"
