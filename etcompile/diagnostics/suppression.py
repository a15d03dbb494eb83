"""Suppress warnings that an option or a comment names.

A comment `# etcompile: ignore[ET2040]` applies to the line it ends, as with ruff and mypy; alone on
its line it applies to the next one, as with yamllint. `# etcompile: ignore-file[ET2040]` applies to
its whole file. The loader finds the comments, because only it can tell comments from text.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import codes
from etcompile.diagnostics.catalogue import RULES, Severity, codes_by_name
from etcompile.diagnostics.diagnostic import Diagnostic, Location, diagnose
from etcompile.diagnostics.spelling import probable_code

_CODES = re.compile(r"[\s,]+")


class IgnoreComment(Struct, frozen=True):
    """A comment that suppresses warnings."""

    location: Location
    codes: tuple[str, ...]
    line: int | None = None  # the line it applies to; None for the whole file


def codes_of(option: str | Iterable[str]) -> tuple[str, ...]:
    """Return the codes of `--ignore`; each value may hold several, separated by commas."""
    values = (option,) if isinstance(option, str) else option
    listed = (code for value in values for code in _CODES.split(value))
    return tuple(dict.fromkeys(code.upper() for code in listed if code))


def option_problems(ignored: str | Iterable[str]) -> Iterator[Diagnostic]:
    for code in codes_of(ignored):
        rule = RULES.get(code)
        if rule is None:
            facts = {"problem": "there is no diagnostic with this code", "advice": _nearest(code)}
            yield diagnose(codes.IGNORE_OPTION, None, found=code, **facts)
        elif rule.severity is Severity.ERROR:
            problem = "it is an error, and only warnings can be ignored"
            advice = f"correct what {code} reports; `etcompile explain {code}` says how"
            yield diagnose(codes.IGNORE_OPTION, None, found=code, problem=problem, advice=advice)


def _nearest(written: str) -> str:
    near = codes_by_name().get(written.lower()) or probable_code(written, RULES)
    return f"did you mean {near}?" if near else "`etcompile explain --all` lists all codes"


def by_option(
    diagnostics: Iterable[Diagnostic], ignored: str | Iterable[str]
) -> Iterator[Diagnostic]:
    suppressed_codes = frozenset(codes_of(ignored))
    for diagnostic in diagnostics:
        matches = diagnostic.code in suppressed_codes and diagnostic.severity is Severity.WARNING
        yield structs.replace(diagnostic, suppressed="external") if matches else diagnostic


def marked(
    diagnostics: Sequence[Diagnostic],
    comments: Collection[IgnoreComment],
    ignored: str | Iterable[str] = (),
    *,
    complete: bool,
    linted: bool,
) -> list[Diagnostic]:
    """Mark the suppressed diagnostics of a run, and report faulty comments.

    Args:
        complete: Every stage ran, so a comment that suppressed nothing is unused.
        linted: The run gave advice, which comments may suppress.
    """
    requested = {
        (comment.location.file, comment.line, code.upper())
        for comment in comments
        for code in comment.codes
    }
    used = {key for key in requested if key[-1].startswith("ET9") and not linted}
    result = [_by_comment(diagnostic, requested, used) for diagnostic in diagnostics]
    # Collected before any of them is marked, which would count its comment as used.
    problems = []
    for comment in comments:
        place = comment.location
        if not comment.codes:
            problems.append(diagnose(codes.MALFORMED_IGNORE, place))
        for written in dict.fromkeys(comment.codes):
            code = written.upper()
            rule, key = RULES.get(code), (place.file, comment.line, code)
            if rule is None:
                advice = _nearest(written)
                facts = {"found": written, "advice": advice}
                problems.append(diagnose(codes.UNKNOWN_IGNORE_CODE, place, **facts))
            elif rule.severity is Severity.ERROR:
                problems.append(diagnose(codes.IGNORED_ERROR, place, found=code))
            elif complete and code != codes.UNUSED_IGNORE and key not in used:
                where = "on this line" if comment.line == place.line else f"on line {comment.line}"
                where = "in this file" if comment.line is None else where
                problems.append(diagnose(codes.UNUSED_IGNORE, place, found=code, where=where))
    result += [_by_comment(diagnostic, requested, used) for diagnostic in problems]
    return list(by_option(result, ignored))


_Key = tuple[str, int | None, str]
"""A file, a line of it or None for all, and a code."""


def _by_comment(diagnostic: Diagnostic, requested: set[_Key], used: set[_Key]) -> Diagnostic:
    """Mark the diagnostic if comments suppress it, and add these to `used`."""
    if diagnostic.severity is not Severity.WARNING or diagnostic.location is None:
        return diagnostic
    file, line = diagnostic.location.file, diagnostic.location.line
    matching = requested & {(file, line, diagnostic.code), (file, None, diagnostic.code)}
    used |= matching
    return structs.replace(diagnostic, suppressed="inSource") if matching else diagnostic
