"""One error or warning at one place of the input, made from its entry in the catalogue."""

import re
from collections.abc import Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.diagnostics.fix import Fix
from etcompile.diagnostics.location import Location

Suppression = Literal["inSource", "external"]
"""What suppressed a warning, in the words of SARIF 2.1.0, 3.35.2: a comment, or an option."""

_LONG_WORD = r"\b(?!age1)[A-Za-z0-9+/=]{24,}"
"""A word that may be a part of a key; a recipient of age is public."""

ValuePath = tuple[str | int, ...]
"""A place inside a document: mapping keys and list indexes, outermost first."""


class Source(Protocol):
    """A document that knows where its values were written.

    Frontends and the model see the loader's documents through this protocol only, so that they
    do not depend on YAML.
    """

    @property
    def data(self) -> Any:
        """The JSON value of the document."""

    @property
    def relative(self) -> str:
        """Its file's name, the same in whichever directory etcompile runs."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of the value at `path`, of its key if `key`; the nearest parent if absent."""


class Diagnostic(Struct, frozen=True):
    """An error or a warning.

    Args:
        code: The catalogue's code, `ET` and four digits.
        severity: Error or warning; the catalogue's.
        message: What is wrong, in one line, with the values that matter.
        location: Where; None if the cause is in no input file.
        hint: What to do about it.
        suppressed: What suppressed it; None if it is reported.
        where: The field that it is about, as the message names it: `spec.containers[0].image`;
            empty if it names none.
        fix: A correction of the file, if there is one.
    """

    code: str
    severity: Severity
    message: str
    location: Location | None
    hint: str | None
    suppressed: Suppression | None = None
    where: str = ""
    fix: Fix | None = None

    @property
    def text(self) -> str:
        """The message, and the hint on a line of its own, for forms that have one text."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def diagnose(code: str, location: Location | None, **facts: object) -> Diagnostic:
    """Makes the diagnostic `code` from its catalogue entry.

    Args:
        code: A code of the catalogue.
        location: Where the problem is, if it is in a file.
        **facts: The values that the entry's message and hint name in braces.

    Returns:
        The diagnostic, with message and hint filled in.

    Raises:
        KeyError: the catalogue has no such code, or the entry names a fact that is missing:
            a mistake in etcompile, never in its input.
    """
    rule = RULES[code]
    hidden = location is not None and location.hidden
    if hidden and "found" in facts:
        facts["found"] = "(hidden)"
    return Diagnostic(
        code=code,
        severity=rule.severity,
        message=_shown(rule.message.format_map(facts), hidden=hidden),
        location=location,
        hint=_shown(rule.hint.format_map(facts), hidden=hidden) or None,
        where=str(facts.get("where", "")),
    )


def _shown(words: str, *, hidden: bool) -> str:
    """The text of a message without private keys and credentials."""
    from etcompile.diagnostics.redaction import HIDDEN, redacted  # noqa: PLC0415 - few need it

    words = redacted(words)
    # A single line of a key has no form that `redacted` knows, so all long words are hidden.
    return re.sub(_LONG_WORD, HIDDEN, words) if hidden else words


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them is an error: then nothing is rendered."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
