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
from etcompile.diagnostics.diagnostic import Diagnostic, Location
from etcompile.diagnostics.message_text import printable
from etcompile.diagnostics.output import Audience

_STYLE = {Severity.ERROR: "1;31", Severity.WARNING: "1;33"}
_BOLD, _DIM, _HINT = "1", "34", "36"
_WIDEST = 160
"""Characters of a source line to show; a minified file has lines of megabytes."""


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    if not diagnostics:
        return ""
    color = audience.color
    parts = [
        "".join(f"{line}\n" for line in _lines(diagnostic, color=color))
        for diagnostic in diagnostics
    ]
    counts = []
    for severity in Severity:
        if number := sum(diagnostic.severity is severity for diagnostic in diagnostics):
            words = f"{number} {severity.value}{'s' if number > 1 else ''}"
            counts.append(f"\x1b[{_STYLE[severity]}m{words}\x1b[0m" if color else words)
    return "\n".join([*parts, ", ".join(counts) + "\n"])


def _lines(diagnostic: Diagnostic, *, color: bool) -> list[str]:
    def paint(style: str, words: str) -> str:
        return f"\x1b[{style}m{words}\x1b[0m" if color else words

    style = _STYLE[diagnostic.severity]
    head = paint(style, f"{diagnostic.severity.value}[{diagnostic.code}]")
    lines = [f"{head}{paint(_BOLD, f': {printable(diagnostic.message)}')}"]
    margin = 0
    if place := diagnostic.location:
        margin = len(str(place.line)) if place.line else 1
        lines.append(f"{' ' * margin}{paint(_DIM, '-->')} {printable(str(place))}")
        lines += _snippet(place, margin, paint(_DIM, "|"), style, color=color)
    if diagnostic.hint:
        lines.append(f"{' ' * (margin + 1)}{paint(_HINT, '= hint:')} {printable(diagnostic.hint)}")
    return lines


def _snippet(place: Location, margin: int, bar: str, style: str, *, color: bool) -> Sequence[str]:
    if place.text is None or place.line is None:
        return ()
    column = place.column or 1
    start = max(0, column - 1 - _WIDEST // 2) if column > _WIDEST else 0
    shown = printable(place.text.replace("\t", " "))[start : start + _WIDEST]
    width = max(1, min(place.width, len(shown) - (column - 1 - start)))
    caret = f"{' ' * (column - 1 - start)}{'^' * width}"
    if color:
        caret = f"\x1b[{style}m{caret}\x1b[0m"
    blank = " " * margin
    return (f"{blank} {bar}", f"{place.line} {bar} {shown}", f"{blank} {bar} {caret}")
