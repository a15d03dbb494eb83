"""The fixes of all diagnostics of a run, carried out: texts before and after, and nothing written.

A fix may bring another problem to light, as what stands below a misspelt field is not looked at.
So the run is made again on the changed texts, which nobody has saved yet, until nothing is left to
fix.
"""

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, has_errors
from etcompile.diagnostics.diagnostic import Fix, Quote, TextEdit
from etcompile.fixes.edits import Splice, spliced, splices
from etcompile.fixes.nodes import indexed
from etcompile.load import access

_ROUNDS = 20
_MARK = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line as YAML and editors count them; Python breaks lines at other characters as well."""


class FixedFile(Struct, frozen=True):
    """A file with the fixes of its problems.

    Args:
        file: Its path, as diagnostics name it.
        before: Its content.
        after: The content that it is to have.
        fixed: What is put right in it, in the order in which that was found.
    """

    file: str
    before: bytes
    after: bytes
    fixed: tuple[Diagnostic, ...]


def fixed_files(
    check: Callable[[], Sequence[Diagnostic]],
    *,
    unsafe: bool = False,
    without: frozenset[tuple[str, str, str]] = frozenset(),
) -> tuple[FixedFile, ...]:
    """What the files of a run look like with the fixes of its diagnostics.

    Args:
        check: Makes the run, and reads its files as it always does.
        unsafe: Carry out unsafe fixes, too.
        without: Diagnostics whose fixes are left out.

    Returns:
        The files that change, by their names.
    """
    known: set[str] = set()
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    done: dict[str, list[Diagnostic]] = {}
    never_again = {*without}
    for _ in range(_ROUNDS):
        with access.instead_of(after):
            found = check()
        known = known or {d.message for d in found}
        todo = [
            d for d in found if _is_wanted(d, unsafe=unsafe) and _identity(d) not in never_again
        ]
        changed = False
        for file, own in _by_file(todo).items():
            if (content := after.get(file) or _content(file)) is None:
                continue
            made, carried_out = _with_fixes(content, own)
            never_again |= {_identity(diagnostic) for diagnostic in carried_out}
            if carried_out:
                before.setdefault(file, content)
                after[file] = made
                done.setdefault(file, []).extend(carried_out)
                changed = True
        if not changed:
            break
    # Where a number that is put in quotes is still refused, the number was the mistake.
    wrong = {_line(d) for d in found if has_errors([d]) and d.message not in known}
    dubious = [d for own in done.values() for d in own if _line(d) in wrong]
    if quoted := {_identity(d) for d in dubious if d.fix and isinstance(d.fix.changes[0], Quote)}:
        return fixed_files(check, unsafe=unsafe, without=without | quoted)
    return tuple(
        FixedFile(file, before[file], after[file], tuple(done[file])) for file in sorted(after)
    )


def with_edits(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics whose fixes say which text they change; without those that cannot be done.

    Args:
        found: Diagnostics of a run.
    """
    told = list(found)
    texts: dict[str, str | None] = {}
    for number, diagnostic in enumerate(told):
        if (fix := diagnostic.fix) is None:
            continue
        file = fix.file
        if file is not None and file not in texts:
            content = _content(file)
            texts[file] = None if content is None else _text(content)
        text = texts[file] if file is not None else None
        parts = None if text is None else splices(text, fix.changes)
        able = None
        if text is not None and parts is not None:
            able = structs.replace(fix, edits=tuple(_text_edit(text, part) for part in parts))
        told[number] = structs.replace(diagnostic, fix=able)
    return told


def _text_edit(text: str, splice: Splice) -> TextEdit:
    at = indexed(text)
    assert at is not None  # noqa: S101 - the splice is from it
    return TextEdit(*at.place(splice.start), *at.place(splice.end), splice.text)


def text_edits(before: str, after: str) -> Iterator[TextEdit]:
    """What of a text is to be replaced so that it becomes another one, from its start to its end.

    Args:
        before: A text.
        after: What it is to become.
    """
    old, new = _LINE.findall(before), _LINE.findall(after)
    # Most of a long text is the same, and nothing need be looked for there.
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    matcher = difflib.SequenceMatcher(
        None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False
    )
    for tag, *within in matcher.get_opcodes():
        if tag == "equal":
            continue
        first, last, new_first, new_last = (head + number for number in within)
        part, wanted = "".join(old[first:last]), "".join(new[new_first:new_last])
        # Of a line that changes, only the part that does.
        alone = last == first + 1
        same = _common(part, wanted) if alone else 0
        rest = _common(part[same:][::-1], wanted[same:][::-1]) if alone else 0
        end = last + 1, 1
        if last and (alone or (last == len(old) and not before.endswith("\n"))):
            end = last, len(old[last - 1]) - rest + 1
        yield TextEdit(first + 1, same + 1, *end, wanted[same : len(wanted) - rest])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many characters two texts, or lines two lists, begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def with_fix(content: str, fix: Fix) -> str | None:
    """A text with one fix; None if it cannot be carried out there.

    Args:
        content: The text for which the fix was made, without a byte order mark.
        fix: One whose changes are all in this text.
    """
    found = splices(content, fix.changes)
    return None if found is None else spliced(content, found)


def _is_wanted(diagnostic: Diagnostic, *, unsafe: bool) -> bool:
    fix = diagnostic.fix
    return fix is not None and diagnostic.suppressed is None and (fix.is_safe or unsafe)


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return diagnostic.code, diagnostic.message, str(diagnostic.location)


def _line(diagnostic: Diagnostic) -> tuple[object, ...]:
    place = diagnostic.location
    return (place.file, place.line) if place else ()


def _by_file(found: Iterable[Diagnostic]) -> dict[str, list[Diagnostic]]:
    """Diagnostics by the one file that their fixes change."""
    files: dict[str, list[Diagnostic]] = {}
    for diagnostic in found:
        if diagnostic.fix is not None and (file := diagnostic.fix.file) is not None:
            files.setdefault(file, []).append(diagnostic)
    return files


def _content(file: str) -> bytes | None:
    try:
        return access.content(file)
    except OSError:
        return None


def _text(content: bytes) -> str | None:
    try:
        return content.decode().removeprefix(_MARK)
    except UnicodeDecodeError:
        return None


def _with_fixes(content: bytes, found: Sequence[Diagnostic]) -> tuple[bytes, list[Diagnostic]]:
    """A file with as many of the fixes as can be carried out together, and which those are.

    Those that exclude each other are for the next round, which sees what is then still wrong.
    """
    text = _text(content)
    if text is None:
        return content, []
    carried_out: list[Diagnostic] = []
    todo: list[Splice] = []
    taken: set[Hashable] = set()
    for diagnostic in found:
        own = splices(text, diagnostic.fix.changes) if diagnostic.fix is not None else None
        claims = {claim for splice in own or () for claim in splice.claims}
        if own and taken.isdisjoint(claims):
            taken |= claims
            todo += own
            carried_out.append(diagnostic)
    mark = _MARK if content.startswith(_MARK.encode()) else ""
    return f"{mark}{spliced(text, todo)}".encode(), carried_out
