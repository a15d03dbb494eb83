"""Write diagnostics as commands in the log of a GitHub workflow, which become annotations.

GitHub shows 10 errors and 10 warnings of a step and silently drops the others
(reference/gitops.md 6.4). So errors come first, and a last command counts those that are only in
the log.
"""

from collections.abc import Sequence

from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.message_text import printable
from etcompile.diagnostics.output import STANDARD_INPUT, Audience

_SHOWN = 10
"""Annotations of one severity that GitHub shows for a step."""

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    lines: list[str] = []
    left_out: list[str] = []
    for severity in Severity:
        of_severity = [each for each in diagnostics if each.severity is severity]
        for diagnostic in of_severity:
            place, text = diagnostic.location, diagnostic.text
            properties: dict[str, object] = {}
            if place is not None and place.file == STANDARD_INPUT:
                text = f"{place}: {text}"  # standard input is no file that GitHub could annotate
            elif place is not None:
                region = {"line": place.line, "col": place.column, "endColumn": place.end_column}
                properties = {"file": audience.name(place.file)}
                properties |= {name: value for name, value in region.items() if value is not None}
            properties["title"] = f"{diagnostic.code} {RULES[diagnostic.code].name}"
            lines.append(_command(severity.value, properties, text))
        if (left := len(of_severity) - _SHOWN) > 0:
            left_out.append(f"{left} more {severity.value}{'s' if left > 1 else ''}")
    if left_out:
        words = f"GitHub shows {_SHOWN} errors and {_SHOWN} warnings of a step; in the log: "
        lines.append(_command("notice", {"title": "etcompile"}, words + ", ".join(left_out)))
    return "".join(f"{line}\n" for line in lines)


def _command(name: str, properties: dict[str, object], words: str) -> str:
    breaks = "\r\n\t"
    texts = {key: printable(str(value), keep=breaks) for key, value in properties.items()}
    listed = ",".join(f"{key}={text.translate(_PROPERTY)}" for key, text in texts.items())
    return f"::{name} {listed}::{printable(words, keep=breaks).translate(_DATA)}"
