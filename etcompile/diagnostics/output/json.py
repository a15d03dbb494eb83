"""Write diagnostics as one JSON object for scripts, described by `schemas/diagnostics.json`.

Files are named as the user named them, so that a script can open them. Everything beyond ASCII is
escaped.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.message_text import json_text
from etcompile.diagnostics.output import Audience

VERSION = 1
"""Incremented when a field changes its meaning or disappears, not when one is added."""


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:  # noqa: ARG001
    reported = [each for each in diagnostics if each.suppressed is None]
    counts = {s.value: sum(each.severity is s for each in reported) for s in Severity}
    document = {
        "version": VERSION,
        "diagnostics": [_entry(each) for each in reported],
        "counts": counts,
        "suppressed": [_entry(each) for each in diagnostics if each.suppressed is not None],
    }
    return json_text(document)


def _entry(diagnostic: Diagnostic) -> dict[str, Any]:
    place, fix = diagnostic.location, diagnostic.fix
    entry: dict[str, Any] = {
        "code": diagnostic.code,
        "name": RULES[diagnostic.code].name,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "file": place and place.file,
        "line": place and place.line,
        "column": place and place.column,
        "endColumn": place and place.end_column,
        "fix": None,
    }
    if fix is not None and fix.edits:
        edits = msgspec.to_builtins(fix.edits)
        named = {"title": fix.title, "safe": fix.is_safe, "file": fix.file or ""}
        entry["fix"] = {**named, "edits": edits}
    return entry
