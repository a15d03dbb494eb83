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

        problems = suppression.marked(
            problems, sources.comments, options.ignore, whole=not failed, linted=options.lint
        )
        suppressed = [problem for problem in problems if problem.suppressed is not None]
        problems = [problem for problem in problems if problem.suppressed is None]
    files = sources.files
    overlay_files = {document.file for document in sources.environment.documents}
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

    # One in an overlay only once, however many objects it is about.
    different: dict[object, Diagnostic] = {}
    for number, diagnostic in enumerate(diagnostics):
        at = diagnostic.location
        # What never was text has no lines, by which to tell two mistakes apart.
        if at and at.file in overlay_files and (at.line or diagnostic.code.startswith("ET6")):
            # A failed patch names the object, and a place in a list may differ between objects.
            is_patch = diagnostic.code == codes.OVERLAY_PATCH
            words = "" if is_patch else re.sub(_INDEX, "", diagnostic.message)
            different.setdefault((diagnostic.code, at, words), diagnostic)
        else:
            different[number] = diagnostic
    return tuple(sorted(map(_with_placeholder_hint, different.values()), key=place))


def _with_placeholder_hint(diagnostic: Diagnostic) -> Diagnostic:
    """An error, with a hint how to fill the template in where it is about a template's text."""
    place = diagnostic.location
    if diagnostic.severity is not Severity.ERROR or place is None or not place.text:
        return diagnostic
    start = (place.column or 1) - 1
    file = "FILE" if place.file in ("-", "") or place.file.startswith("<") else place.file
    command = f"envsubst < {file} | etcompile render -"
    if diagnostic.code in _SYNTAX:
        # YAML takes the brace of `${NAME}` for one of its own. The parser's own hint covers `{{`.
        for match in re.finditer(_VARIABLE, place.text):
            before = match.string[: match.start()]
            is_quoted = before.count("'") % 2 or before.count('"') % 2
            if match[0].startswith("${") and not is_quoted:
                hint = (
                    f"if {match[0]} is a placeholder of a template, fill it in first, for example"
                    f" {command}; if it is a variable of the shell, put it in quotes"
                )
                return structs.replace(diagnostic, hint=hint)
        return diagnostic
    text = place.text[start : start + place.width]
    if (placeholder := re.search(_VARIABLE, text)) is None:
        placeholder = re.search(_EXPRESSION, text)
        command = "helm template CHART | etcompile render -"
    if placeholder is None:
        return diagnostic
    name = placeholder[0]
    hint = f"{name} is a placeholder of a template: fill it in first, for example {command}"
    return structs.replace(diagnostic, hint=hint)
