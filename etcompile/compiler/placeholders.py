"""Errors about values that are no values yet: a template's, which nobody has filled in.

A file with `${IMAGE}` is meant for envsubst, one with `{{ .Values.image }}` for Helm. Whatever rule
such a text breaks, what to do is the same, so that it is said here and not by every rule.
"""

import re

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Severity, codes

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_.]*(?::?[-=?+][^}\n]*)?\}|\$[A-Z_][A-Z0-9_]*\b")
_EXPRESSION = re.compile(r"\{\{.*?\}\}")
_SYNTAX = frozenset({codes.YAML_SYNTAX, codes.UNSUPPORTED_YAML, codes.DUPLICATE_KEY})


def with_placeholder_hint(diagnostic: Diagnostic) -> Diagnostic:
    """An error, with a hint how to fill the template in where it is about a template's text.

    Args:
        diagnostic: Any diagnostic; one that is no error, or about other text, comes back as it is.
    """
    place = diagnostic.location
    if diagnostic.severity is not Severity.ERROR or place is None or not place.text:
        return diagnostic
    start = (place.column or 1) - 1
    file = "FILE" if place.file in ("-", "") or place.file.startswith("<") else place.file
    if diagnostic.code in _SYNTAX:
        # The parser stops somewhere near; its own hint stands for `{{`.
        near = [found for found in _VARIABLE.finditer(place.text) if _is_bare(found)]
        if not near:
            return diagnostic
        name = min(near, key=lambda found: abs(found.start() - start))[0]
        hint = (
            f"if {name} is a placeholder of a template, fill it in first, for example envsubst"
            f" < {file} | etcompile render -; if it is a variable of the shell, put it in quotes"
        )
        return structs.replace(diagnostic, hint=hint)
    text = place.text[start : start + place.width]
    if found := _VARIABLE.search(text):
        filled = f"envsubst < {file} | etcompile render -"
    elif found := _EXPRESSION.search(text):
        filled = "helm template CHART | etcompile render -"
    else:
        return diagnostic
    hint = f"{found[0]} is a placeholder of a template: fill it in first, for example {filled}"
    return structs.replace(diagnostic, hint=hint)


def _is_bare(found: re.Match[str]) -> bool:
    """Whether it is `${NAME}` outside of quotes, where YAML takes its brace for one of its own."""
    before = found.string[: found.start()]
    return found[0].startswith("${") and not before.count("'") % 2 and not before.count('"') % 2
