"""Write diagnostics for reviewdog as one document of its Diagnostic Format, `rdjson`.

reviewdog posts them on the lines of a pull request on GitHub, GitLab, Gitea and Bitbucket, and the
fix of a line as a suggestion that can be applied there. The format is that of reviewdog 0.20,
`proto/rdf/reviewdog.proto`.
"""

from collections.abc import Sequence
from typing import Any

from etcompile.diagnostics.catalogue import RULES
from etcompile.diagnostics.diagnostic import Diagnostic
from etcompile.diagnostics.message_text import json_text
from etcompile.diagnostics.output import STANDARD_INPUT, Audience


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    entries = []
    for diagnostic in diagnostics:
        source = RULES[diagnostic.code].source
        url = {"url": source} if source.startswith("https://") else {}
        entry: dict[str, Any] = {
            "message": diagnostic.text,
            "severity": diagnostic.severity.name,
            "code": {"value": diagnostic.code, **url},
        }
        entries.append(entry)
        place, fix = diagnostic.location, diagnostic.fix
        # A diagnostic without a path is about the whole change.
        if place is None or place.file == STANDARD_INPUT:
            continue
        entry["location"] = {"path": audience.name(place.file)}
        if place.line is not None:
            span = {"start": _position(place.line, place.column, place.text)}
            if place.end_column is not None:
                span["end"] = _position(place.line, place.end_column, place.text)
            entry["location"]["range"] = span
        # reviewdog shows several suggestions as alternatives, and each belongs to one line.
        if place.text is not None and fix is not None and len(fix.edits) == 1:
            edit = fix.edits[0]
            if fix.file == place.file and edit.line == edit.end_line == place.line:
                start = _position(edit.line, edit.column, place.text)
                end = _position(edit.line, edit.end_column, place.text)
                entry["suggestions"] = [{"range": {"start": start, "end": end}, "text": edit.text}]
    origin = {"name": "etcompile", "url": "https://etcompile.dev"}
    return json_text({"source": origin, "diagnostics": entries})


def _position(line: int, column: int | None, text: str | None) -> dict[str, int]:
    """Return a position whose column counts bytes of UTF-8."""
    if column is None:
        return {"line": line}
    before = (text or "")[: column - 1]
    more = len(before.encode("utf-8", "surrogatepass")) - len(before)
    return {"line": line, "column": column + more}
