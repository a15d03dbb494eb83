"""Which warnings a run leaves out, because an option or a comment in the file says so.

A comment `# etcompile: ignore[ET2040]` holds for the line it ends, as with ruff and mypy; alone on
its line it holds for the next one, as with yamllint. `# etcompile: ignore-file[ET2040]` holds for
its whole file. This module decides; finding the comments is the loader's part, because only it
knows what is a comment and what is text.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import codes
from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.diagnostics.diagnostic import Diagnostic, diagnose
from etcompile.diagnostics.location import Location
from etcompile.diagnostics.spelling import probable_code

_UNUSED = codes.UNUSED_IGNORE
_CODES = re.compile(r"[\s,]+")


class IgnoreComment(Struct, frozen=True):
    """A comment that asks for silence.

    Args:
        location: Where the comment stands.
        codes: The codes in its brackets, as they are written; empty if it has none.
        line: The line it holds for; None for the whole file.
    """

    location: Location
    codes: tuple[str, ...]
    line: int | None = None


class Suppressed(Struct, frozen=True):
    """The diagnostics of a run, divided.

    Args:
        told: Those that are told, what is wrong with the wish for silence among them.
        silenced: The others, each marked with what silenced it.
    """

    told: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...] = ()


def codes_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """The codes of `--ignore`: each value may hold several, with commas between them."""
    values = (given,) if isinstance(given, str) else given
    listed = (code for value in values for code in _CODES.split(value))
    return tuple(dict.fromkeys(code.upper() for code in listed if code))


def problem(code: str) -> tuple[str, str] | None:
    """Why a code cannot be ignored, and what to do; None if it can."""
    rule = RULES.get(code.upper())
    if rule is None:
        by_name = next((rule.code for rule in RULES.values() if rule.name == code.lower()), None)
        near = by_name or probable_code(code, RULES)
        advice = f"did you mean {near}?" if near else "docs/diagnostics.md lists all codes"
        return "there is no diagnostic with this code", advice
    if rule.severity is Severity.ERROR:
        advice = f"correct what {code.upper()} reports; `etcompile explain {code.upper()}` says how"
        return "it is an error, and only warnings can be ignored", advice
    return None


def option_problems(given: str | Iterable[str]) -> list[Diagnostic]:
    """An error for each code of an option that cannot be ignored."""
    found = ((code, problem(code)) for code in codes_of(given))
    return [
        diagnose(codes.IGNORE_OPTION, None, found=code, problem=why[0], advice=why[1])
        for code, why in found
        if why is not None
    ]


def by_option(
    diagnostics: Iterable[Diagnostic], ignored: str | Iterable[str]
) -> Iterator[Diagnostic]:
    """The diagnostics; those that the option silences are marked."""
    silenced = frozenset(codes_of(ignored))
    for diagnostic in diagnostics:
        silent = diagnostic.code in silenced and diagnostic.severity is Severity.WARNING
        yield structs.replace(diagnostic, suppressed="external") if silent else diagnostic


def suppressed(
    diagnostics: Sequence[Diagnostic],
    comments: Collection[IgnoreComment],
    ignored: str | Iterable[str] = (),
    *,
    whole: bool,
    unheard: Collection[str] = (),
) -> Suppressed:
    """The diagnostics of a run, divided into those that are told and those that are not.

    Args:
        diagnostics: All of them.
        comments: The comments of the files that were read.
        ignored: The codes of `--ignore`.
        whole: Whether every stage ran, so that a comment that silenced nothing is unused.
        unheard: Codes that the run did not ask about, so that a comment about one may be of use.
    """
    wishes = {_key(comment, code) for comment in comments for code in comment.codes}
    used: set[_Key] = set()
    marked = [_by_comment(diagnostic, wishes, used) for diagnostic in diagnostics]
    more = [
        complaint
        for comment in comments
        for complaint in _problems(comment, {*used, *_assumed(comment, unheard)}, whole=whole)
    ]
    marked += [_by_comment(complaint, wishes, used) for complaint in more]
    marked = list(by_option(marked, ignored))
    return Suppressed(
        told=tuple(diagnostic for diagnostic in marked if diagnostic.suppressed is None),
        silenced=tuple(diagnostic for diagnostic in marked if diagnostic.suppressed is not None),
    )


_Key = tuple[str, int | None, str]
"""A file, one of its lines or all of it, and a code."""


def _key(comment: IgnoreComment, code: str) -> _Key:
    return comment.location.file, comment.line, code.upper()


def _assumed(comment: IgnoreComment, unheard: Collection[str]) -> Iterator[_Key]:
    """What nobody can say of a comment, whether it is used, is taken for a yes."""
    return (_key(comment, code) for code in comment.codes if code.upper() in unheard)


def _by_comment(diagnostic: Diagnostic, wishes: Collection[_Key], used: set[_Key]) -> Diagnostic:
    """The diagnostic, marked if a comment silences it; all comments that do are used."""
    if diagnostic.severity is not Severity.WARNING or diagnostic.location is None:
        return diagnostic
    keys = {
        (diagnostic.location.file, line, diagnostic.code)
        for line in (diagnostic.location.line, None)
    }
    found = keys.intersection(wishes)
    used |= found
    return structs.replace(diagnostic, suppressed="inSource") if found else diagnostic


def _problems(
    comment: IgnoreComment, used: Collection[_Key], *, whole: bool
) -> Iterator[Diagnostic]:
    """What is wrong with a comment."""
    if not comment.codes:
        yield diagnose(codes.MALFORMED_IGNORE, comment.location)
    for written in dict.fromkeys(comment.codes):
        code = written.upper()
        if code not in RULES:
            _, advice = problem(written) or ("", "")
            yield diagnose(
                codes.UNKNOWN_IGNORE_CODE, comment.location, found=written, advice=advice
            )
        elif RULES[code].severity is Severity.ERROR:
            yield diagnose(codes.IGNORED_ERROR, comment.location, found=code)
        elif whole and code != _UNUSED and _key(comment, code) not in used:
            yield diagnose(_UNUSED, comment.location, found=code, where=_where(comment))


def _where(comment: IgnoreComment) -> str:
    if comment.line is None:
        return "in this file"
    same = comment.line == comment.location.line
    return "on this line" if same else f"on line {comment.line}"
