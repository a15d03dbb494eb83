"""Show the lines in which two texts differ, as `diff -u` does.

A rendered file may have a hundred thousand lines, of which `render --check` shows a few. Therefore
at most 2,000 lines, from the first difference on, are compared.
"""

import difflib
import re
from collections.abc import Iterator

from etcompile.diagnostics.message_text import in_common

_CONTEXT = 3
_COMPARED = 2000
_HUNK = re.compile(r"@@ -([0-9]+)((?:,[0-9]+)?) \+([0-9]+)((?:,[0-9]+)?) @@")


def unified(name: str, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff, without line breaks: the two names, then hunks.

    Far behind the first difference the diff may end early.
    """
    before, after = old.splitlines(), new.splitlines()
    start = in_common(before, after)
    end = in_common(before[start:][::-1], after[start:][::-1])
    offset = max(start - _CONTEXT, 0)
    before = before[offset : len(before) - max(end - _CONTEXT, 0)]
    after = after[offset : len(after) - max(end - _CONTEXT, 0)]
    is_cut = max(len(before), len(after)) > _COMPARED
    before, after = before[:_COMPARED], after[:_COMPARED]
    lines = [*difflib.unified_diff(before, after, n=_CONTEXT, lineterm="")][2:]
    hunks = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if is_cut and len(hunks) > 1:
        # A hunk that the cut has torn would look like a change.
        lines = lines[: hunks[-1]]
    yield f"--- {name if old else '/dev/null'}"
    yield f"+++ {f'{name} (rendered now)' if new else '/dev/null'}"
    for line in lines:
        hunk = _HUNK.fullmatch(line)
        if hunk is None:
            yield line
        else:
            yield f"@@ -{int(hunk[1]) + offset}{hunk[2]} +{int(hunk[3]) + offset}{hunk[4]} @@"
