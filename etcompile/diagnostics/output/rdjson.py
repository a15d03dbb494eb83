"""Diagnostics for reviewdog: one document of its Diagnostic Format, `rdjson`.

reviewdog posts them on the lines of a pull request on GitHub, GitLab, Gitea and Bitbucket, and the
fix of a line as a suggestion that can be applied there. The format is that of reviewdog 0.20,
`proto/rdf/reviewdog.proto`.
"""

from collections.abc import Sequence
from typing import Any

from etcompile.diagnostics.catalogue import RULES
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.fix import TextEdit
from etcompile.diagnostics.location import Location
from etcompile.diagnostics.output.audience import STANDARD_INPUT, Audience
from etcompile.diagnostics.output.characters import json_text


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    """The diagnostics as an `rdjson` document, in their order."""
    document = {
        "source": {"name": "etcompile", "url": "https://etcompile.dev"},
        "diagnostics": [_entry(diagnostic, audience) for diagnostic in diagnostics],
    }
    return json_text(document)


def _entry(diagnostic: Diagnostic, audience: Audience) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "message": diagnostic.text,
        "severity": diagnostic.severity.name,
        "code": _code(diagnostic.code),
    }
    place = diagnostic.location
    # A diagnostic without a path is one of the whole change.
    if place is None or place.file == STANDARD_INPUT:
        return entry
    entry["location"] = {"path": audience.name(place.file), **_range(place)}
    if (edit := _edit(diagnostic)) is not None:
        start, end = (
            _position(edit.line, column, place.text) for column in (edit.column, edit.end_column)
        )
        suggestion = {"range": {"start": start, "end": end}, "text": edit.text}
        entry["suggestions"] = [suggestion]
    return entry


def _code(code: str) -> dict[str, str]:
    source = RULES[code].source
    return {"value": code, **({"url": source} if source.startswith("https://") else {})}


def _range(place: Location) -> dict[str, Any]:
    if place.line is None:
        return {}
    start = _position(place.line, place.column, place.text)
    if place.end_column is None:
        return {"range": {"start": start}}
    return {"range": {"start": start, "end": _position(place.line, place.end_column, place.text)}}


def _edit(diagnostic: Diagnostic) -> TextEdit | None:
    """The fix of a diagnostic's line; None if the fix changes more than this line.

    Several suggestions would be alternatives of each other.
    """
    place, fix = diagnostic.location, diagnostic.fix
    if place is None or place.text is None or fix is None or len(fix.edits) != 1:
        return None
    edit = fix.edits[0]
    is_of_line = fix.file == place.file and edit.line == edit.end_line == place.line
    return edit if is_of_line else None


def _position(line: int, column: int | None, text: str | None) -> dict[str, int]:
    """A place whose column is counted in bytes of UTF-8."""
    if column is None:
        return {"line": line}
    before = (text or "")[: column - 1]
    more = len(before.encode("utf-8", "surrogatepass")) - len(before)
    return {"line": line, "column": column + more}
