"""Write diagnostics for code scanners as a SARIF 2.1.0 log of one run.

Files are named from the repository's root, so that a scanner finds them in its checkout. A result
has a fingerprint that does not depend on its line, so a dismissed result stays dismissed when it
moves.
"""

import collections
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from etcompile._version import __version__
from etcompile.diagnostics import rule_text
from etcompile.diagnostics.catalogue import RULES, Rule
from etcompile.diagnostics.diagnostic import Diagnostic, has_errors
from etcompile.diagnostics.message_text import json_text, well_formed
from etcompile.diagnostics.output import Audience

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "etcompile/v1"
_PLACES = re.compile(r"\b(line|column) \d+|:\d+:\d+\b")
"""Line and column numbers inside a message: `first on line 3`, `first in jobs/a.yaml:3:1`."""


def render(diagnostics: Sequence[Diagnostic], audience: Audience) -> str:
    used = sorted({diagnostic.code for diagnostic in diagnostics})
    index = {code: number for number, code in enumerate(used)}
    # GitHub refuses a log with a result that has no location, so such a diagnostic is a
    # notification about the run. A notification cannot be marked as suppressed.
    without_file = [
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.location is None and diagnostic.suppressed is None
    ]
    notifications = [
        {
            "associatedRule": {"id": diagnostic.code, "index": index[diagnostic.code]},
            "level": diagnostic.severity.value,
            "message": _message(diagnostic),
        }
        for diagnostic in without_file
    ]
    run = {
        "tool": {
            "driver": {
                "name": "etcompile",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": "https://etcompile.dev",
                "rules": [_rule(RULES[code]) for code in index],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not has_errors(without_file),
                "toolExecutionNotifications": notifications,
            }
        ],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": list(_results(diagnostics, index, audience)),
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule) -> dict[str, Any]:
    # SARIF 2.1.0, 3.49.12: an address with more about the rule.
    page = {"helpUri": rule.source} if rule.source.startswith("https://") else {}
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ").capitalize()},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule_text.as_text(rule), "markdown": rule_text.as_markdown(rule)},
        "defaultConfiguration": {"level": rule.severity.value},
        **page,
    }


def _results(
    diagnostics: Sequence[Diagnostic], index: dict[str, int], audience: Audience
) -> Iterator[dict[str, Any]]:
    seen: collections.Counter[str] = collections.Counter()
    for diagnostic in diagnostics:
        if diagnostic.location is None:
            continue
        artifact = _artifact(audience.name(diagnostic.location.file))
        identity = "\n".join(
            (diagnostic.code, artifact["uri"], _PLACES.sub("", well_formed(diagnostic.message)))
        )
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        seen[digest] += 1
        # GitHub requires a line; the first one stands for a whole file.
        place = diagnostic.location
        region = {"startLine": place.line or 1, "startColumn": place.column}
        region |= {"endColumn": place.end_column}
        region = {name: value for name, value in region.items() if value is not None}
        location = {"artifactLocation": artifact, "region": region}
        # SARIF 2.1.0, 3.27.23: a scanner closes suppressed results and opens none for them.
        by = {"suppressions": [{"kind": diagnostic.suppressed}]} if diagnostic.suppressed else {}
        yield {
            "ruleId": diagnostic.code,
            "ruleIndex": index[diagnostic.code],
            "level": diagnostic.severity.value,
            "message": _message(diagnostic),
            "locations": [{"physicalLocation": location}],
            # The same message twice in a file is distinguished by its order.
            "partialFingerprints": {_FINGERPRINT: f"{digest}:{seen[digest]}"},
            **by,
            **_fixes(diagnostic, audience),
        }


def _fixes(diagnostic: Diagnostic, audience: Audience) -> dict[str, Any]:
    """Return the fix of a result, if there is one (SARIF 2.1.0, 3.27.30, 3.55)."""
    fix = diagnostic.fix
    if fix is None or not fix.edits:
        return {}
    replacements = [
        {
            "deletedRegion": {
                "startLine": edit.line,
                "startColumn": edit.column,
                "endLine": edit.end_line,
                "endColumn": edit.end_column,
            },
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    artifact = _artifact(audience.name(fix.file or ""))
    change = {"artifactLocation": artifact, "replacements": replacements}
    title = fix.title + ("" if fix.is_safe else " (a guess)")
    return {"fixes": [{"description": {"text": title}, "artifactChanges": [change]}]}


def _artifact(name: str) -> dict[str, str]:
    uri = quote(name.encode("utf-8", "surrogatepass"))
    return {"uri": f"file://{uri}"} if name.startswith("/") else {"uri": uri, "uriBaseId": _ROOT}


def _message(diagnostic: Diagnostic) -> dict[str, str]:
    """Return message and hint as SARIF text, in which braces and `[...](...)` have a meaning."""
    # SARIF 2.1.0, 3.11.5: braces are doubled; 3.11.6: a link needs '](' without a blank.
    return {"text": diagnostic.text.replace("{", "{{").replace("}", "}}").replace("](", "] (")}
