"""Apply the fixes of all diagnostics of a run, and return the texts before and after.

A fix may reveal another problem, because fields below a misspelt one are not checked. Therefore the
run is repeated on the changed texts, before they are saved, until nothing is left to fix.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, has_errors
from etcompile.diagnostics.diagnostic import Fix, Quote
from etcompile.fixes.edits import Splice, splice_edits, spliced, splices
from etcompile.load import access

_ROUNDS = 20
_MARK = "\ufeff"


class FixedFile(Struct, frozen=True):
    """A file with the fixes of its problems."""

    file: str
    before: bytes
    after: bytes
    fixed: tuple[Diagnostic, ...]  # in the order in which they were reported


def fixed_files(
    check: Callable[[], Sequence[Diagnostic]],
    *,
    unsafe: bool = False,
    without: frozenset[tuple[str, str, str]] = frozenset(),
) -> tuple[FixedFile, ...]:
    """Return the files of a run with the fixes of its diagnostics.

    Args:
        without: Diagnostics not to fix.
    """
    known: set[str] = set()
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    done: dict[str, list[Diagnostic]] = {}
    never_again = {*without}
    for _ in range(_ROUNDS):
        with access.instead_of(after):
            problems = check()
        known = known or {problem.message for problem in problems}
        by_file: dict[str, list[Diagnostic]] = {}
        for problem in problems:
            fix = problem.fix
            if fix is None or fix.file is None or problem.suppressed is not None:
                continue
            if (fix.is_safe or unsafe) and _identity(problem) not in never_again:
                by_file.setdefault(fix.file, []).append(problem)
        changed = False
        for file, problems_of_file in by_file.items():
            if (content := after.get(file) or _content(file)) is None:
                continue
            corrected, applied = _with_fixes(content, problems_of_file)
            never_again |= {_identity(problem) for problem in applied}
            if applied:
                before.setdefault(file, content)
                after[file] = corrected
                done.setdefault(file, []).extend(applied)
                changed = True
        if not changed:
            break
    # If a number is still refused after it was put in quotes, the number was the mistake.
    wrong = {_line(d) for d in problems if has_errors([d]) and d.message not in known}
    dubious = [d for applied in done.values() for d in applied if _line(d) in wrong]
    if quoted := {_identity(d) for d in dubious if d.fix and isinstance(d.fix.changes[0], Quote)}:
        return fixed_files(check, unsafe=unsafe, without=without | quoted)
    return tuple(
        FixedFile(file, before[file], after[file], tuple(done[file])) for file in sorted(after)
    )


def with_edits(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Add to fixes which text they change; drop fixes that cannot be made."""
    result: list[Diagnostic] = []
    texts: dict[str, str | None] = {}
    for problem in problems:
        if (fix := problem.fix) is None:
            result.append(problem)
            continue
        file = fix.file
        if file is not None and file not in texts:
            content = _content(file)
            texts[file] = None if content is None else _text(content)
        text = texts[file] if file is not None else None
        edited = None
        if text is not None and (parts := splices(text, fix.changes)) is not None:
            edited = structs.replace(fix, edits=splice_edits(text, parts))
        result.append(structs.replace(problem, fix=edited))
    return result


def with_fix(content: str, fix: Fix) -> str | None:
    parts = splices(content, fix.changes)
    return None if parts is None else spliced(content, parts)


def _identity(problem: Diagnostic) -> tuple[str, str, str]:
    return problem.code, problem.message, str(problem.location)


def _line(problem: Diagnostic) -> tuple[object, ...]:
    place = problem.location
    return (place.file, place.line) if place else ()


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


def _with_fixes(content: bytes, problems: Sequence[Diagnostic]) -> tuple[bytes, list[Diagnostic]]:
    """Apply as many fixes to a file as are possible together, and return them.

    The next round checks again, and makes those that were excluded if they are still needed.
    """
    text = _text(content)
    if text is None:
        return content, []
    applied: list[Diagnostic] = []
    parts: list[Splice] = []
    claimed: set[Hashable] = set()
    for problem in problems:
        changes = splices(text, problem.fix.changes) if problem.fix is not None else None
        claims = {claim for part in changes or () for claim in part.claims}
        if changes and claimed.isdisjoint(claims):
            claimed |= claims
            parts += changes
            applied.append(problem)
    mark = _MARK if content.startswith(_MARK.encode()) else ""
    return f"{mark}{spliced(text, parts)}".encode(), applied
