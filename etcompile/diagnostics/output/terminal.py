"""Write diagnostics for people, in the manner of rustc and ruff.

error[ET2003]: worker.replicas 12 is above maxReplicas 9
  --> jobs/bert.yaml:14:17
   |
14 |       replicas: 12
   |                 ^^
   = hint: raise maxReplicas or lower worker.replicas
"""

from collections.abc import Sequence

from etcompile.diagnostics.catalogue import Severity
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.message_text import painted, printable
from etcompile.diagnostics.output import Audience

_STYLE = {Severity.ERROR: "1;31", Severity.WARNING: "1;33"}
_BOLD, _DIM, _HINT = "1", "34", "36"
_WIDEST = 160
"""Characters of a source line to show; a minified file has lines of megabytes."""


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    if not diagnostics:
        return ""

    def paint(style: str, words: str) -> str:
        return painted(words, style, color=audience.color)

    blocks = []
    for diagnostic in diagnostics:
        style = _STYLE[diagnostic.severity]
        head = paint(style, f"{diagnostic.severity.value}[{diagnostic.code}]")
        lines = [f"{head}{paint(_BOLD, f': {printable(diagnostic.message)}')}"]
        margin = ""
        if place := diagnostic.location:
            margin = " " * (len(str(place.line)) if place.line else 1)
            lines.append(f"{margin}{paint(_DIM, '-->')} {printable(str(place))}")
            if place.text is not None and place.line is not None:
                column, bar = place.column or 1, paint(_DIM, "|")
                start = max(0, column - 1 - _WIDEST // 2) if column > _WIDEST else 0
                shown = printable(place.text.replace("\t", " "))[start : start + _WIDEST]
                before = column - 1 - start
                carets = "^" * max(1, min(place.width, len(shown) - before))
                lines += (f"{margin} {bar}", f"{place.line} {bar} {shown}")
                lines.append(f"{margin} {bar} {paint(style, ' ' * before + carets)}")
        if diagnostic.hint:
            lines.append(f"{margin} {paint(_HINT, '= hint:')} {printable(diagnostic.hint)}")
        blocks.append("".join(f"{line}\n" for line in lines))
    counts = []
    for severity in Severity:
        if number := sum(diagnostic.severity is severity for diagnostic in diagnostics):
            words = f"{number} {severity.value}{'s' if number > 1 else ''}"
            counts.append(paint(_STYLE[severity], words))
    return "\n".join([*blocks, ", ".join(counts) + "\n"])
