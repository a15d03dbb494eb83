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
    reported: list[dict[str, Any]] = []
    suppressed: list[dict[str, Any]] = []
    for diagnostic in diagnostics:
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
        (reported if diagnostic.suppressed is None else suppressed).append(entry)
    document = {
        "version": VERSION,
        "diagnostics": reported,
        "counts": {s.value: sum(e["severity"] == s.value for e in reported) for s in Severity},
        "suppressed": suppressed,
    }
    return json_text(document)
