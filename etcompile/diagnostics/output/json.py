"""Diagnostics for scripts: one JSON object, described by `schemas/diagnostics.json`.

Files are named as the user named them, so that a script can open them. All beyond ASCII is
escaped.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.location import Location
from etcompile.diagnostics.output.audience import Audience
from etcompile.diagnostics.output.characters import json_text

VERSION = 1
"""Raised when a field changes its meaning or goes; a new field may come at any time."""


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:  # noqa: ARG001
    """The diagnostics as a JSON document, in their order."""
    reported = [diagnostic for diagnostic in diagnostics if diagnostic.suppressed is None]
    suppressed = [diagnostic for diagnostic in diagnostics if diagnostic.suppressed is not None]
    document = {
        "version": VERSION,
        "diagnostics": [_entry(diagnostic) for diagnostic in reported],
        "counts": {
            severity.value: sum(diagnostic.severity is severity for diagnostic in reported)
            for severity in Severity
        },
        "suppressed": [_entry(diagnostic) for diagnostic in suppressed],
    }
    return json_text(document)


def _entry(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "name": RULES[diagnostic.code].name,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        **_place(diagnostic.location),
        "fix": _fix(diagnostic),
    }


def _fix(diagnostic: Diagnostic) -> dict[str, Any] | None:
    fix = diagnostic.fix
    if fix is None or not fix.edits:
        return None
    edits = msgspec.to_builtins(fix.edits)
    return {"title": fix.title, "safe": fix.is_safe, "file": fix.file or "", "edits": edits}


def _place(location: Location | None) -> dict[str, str | int | None]:
    if location is None:
        return {"file": None, "line": None, "column": None, "endColumn": None}
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column,
        "endColumn": location.end_column,
    }
