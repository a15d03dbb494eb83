"""The diagnostics of a run as it reports them: each once, in the order of the files.

A text that breaks a rule may be a template's that nobody has filled in: a file with `${IMAGE}` is
meant for envsubst, one with `{{ .Values.image }}` for Helm. Whatever the rule, what to do is the
same, so that it is said here.
"""

import re
from collections.abc import Collection, Sequence

from msgspec import structs

from etcompile.compiler.load import Sources
from etcompile.diagnostics import Diagnostic, Severity, codes, has_errors

_INDEX = r"\[[0-9]+\]"
_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_.]*(?::?[-=?+][^}\n]*)?\}|\$[A-Z_][A-Z0-9_]*\b"
_EXPRESSION = r"\{\{.*?\}\}"
_SYNTAX = frozenset({codes.YAML_SYNTAX, codes.UNSUPPORTED_YAML, codes.DUPLICATE_KEY})


def reported(
    problems: Sequence[Diagnostic], sources: Sources
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """The diagnostics that a run reports, and those that an option or a comment suppresses."""
    options, failed = sources.options, has_errors(problems)
    if failed:
        # What is refused first is corrected first; advice is for what can run.
        problems = [problem for problem in problems if not problem.code.startswith("ET9")]
    suppressed: Sequence[Diagnostic] = ()
    if options.ignore or sources.comments:
        from etcompile.diagnostics import suppression  # noqa: PLC0415 - few runs need it

        unchecked: frozenset[str] = frozenset()
        if sources.comments and not failed:
            selected = suppression.codes_of(options.select)
            unchecked = suppression.not_reported(linted=options.lint, selected=selected)
        problems = suppression.marked(
            problems, sources.comments, options.ignore, whole=not failed, unchecked=unchecked
        )
        suppressed = [problem for problem in problems if problem.suppressed is not None]
        problems = [problem for problem in problems if problem.suppressed is None]
    files, overlay_files = sources.files, sources.environment.files
    return _in_order(problems, files, overlay_files), _in_order(suppressed, files, overlay_files)


def _in_order(
    diagnostics: Sequence[Diagnostic], files: Sequence[str], overlay_files: Collection[str]
) -> tuple[Diagnostic, ...]:
    """The diagnostics in the order of the files, each with its lines in order."""
    if not diagnostics:
        return ()
    numbers = {file: number for number, file in enumerate(files)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        location = diagnostic.location
        if location is None:
            return (len(numbers) + 1, 0, 0)
        return (numbers.get(location.file, -1), location.line or 0, location.column or 0)

    once = _each_once(diagnostics, overlay_files)
    return tuple(sorted(map(_with_placeholder_hint, once), key=place))


def _each_once(diagnostics: Sequence[Diagnostic], files: Collection[str]) -> list[Diagnostic]:
    """The diagnostics; one in an overlay only once, however many objects it is about."""
    different: dict[object, Diagnostic] = {}
    for number, diagnostic in enumerate(diagnostics):
        place = diagnostic.location
        # What never was text has no lines, by which to tell two mistakes apart.
        if not (
            place and place.file in files and (place.line or diagnostic.code.startswith("ET6"))
        ):
            different[number] = diagnostic
            continue
        # A failed patch names the object, and a place in a list may differ between objects.
        words = re.sub(_INDEX, "", diagnostic.message)
        if diagnostic.code == codes.OVERLAY_PATCH:
            words = ""
        different.setdefault((diagnostic.code, place, words), diagnostic)
    return list(different.values())


def _with_placeholder_hint(diagnostic: Diagnostic) -> Diagnostic:
    """An error, with a hint how to fill the template in where it is about a template's text."""
    place = diagnostic.location
    if diagnostic.severity is not Severity.ERROR or place is None or not place.text:
        return diagnostic
    start = (place.column or 1) - 1
    file = "FILE" if place.file in ("-", "") or place.file.startswith("<") else place.file
    if diagnostic.code in _SYNTAX:
        # The parser stops somewhere near; its own hint stands for `{{`.
        near = [match for match in re.finditer(_VARIABLE, place.text) if _is_bare(match)]
        if not near:
            return diagnostic
        name = min(near, key=lambda match: abs(match.start() - start))[0]
        hint = (
            f"if {name} is a placeholder of a template, fill it in first, for example envsubst"
            f" < {file} | etcompile render -; if it is a variable of the shell, put it in quotes"
        )
        return structs.replace(diagnostic, hint=hint)
    text = place.text[start : start + place.width]
    if placeholder := re.search(_VARIABLE, text):
        command = f"envsubst < {file} | etcompile render -"
    elif placeholder := re.search(_EXPRESSION, text):
        command = "helm template CHART | etcompile render -"
    else:
        return diagnostic
    name = placeholder[0]
    hint = f"{name} is a placeholder of a template: fill it in first, for example {command}"
    return structs.replace(diagnostic, hint=hint)


def _is_bare(match: re.Match[str]) -> bool:
    """Whether it is `${NAME}` outside of quotes, where YAML takes its brace for one of its own."""
    before = match.string[: match.start()]
    return match[0].startswith("${") and not before.count("'") % 2 and not before.count('"') % 2
