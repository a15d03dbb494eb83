"""Make diagnostics from the catalogue: one error or warning at one place of the input.

A diagnostic may have a fix of the file, which says only what to change and where; `etcompile.fixes`
finds the places in the text.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from etcompile.diagnostics.catalogue import RULES, Severity
from etcompile.exitcodes import REFUSED

Suppression = Literal["inSource", "external"]
"""What suppressed a warning, in terms of SARIF 2.1.0, 3.35.2: a comment, or an option."""

_LONG_WORD = r"\b(?!age1)[A-Za-z0-9+/=]{24,}"
"""A word that may be part of a key; a recipient of age is public."""

ValuePath = tuple[str | int, ...]
"""A place inside a document: mapping keys and list indexes, outermost first."""


class Location(Struct, frozen=True):
    """A place in an input file.

    Args:
        file: The file as the user named it (`-` for standard input).
        line: Line number, from 1; None for the whole file.
        column: Column in characters, from 1; None for the whole line or file.
        text: That source line without its line break, if it can be shown.
        width: How many characters the caret underlines, at least 1.
        hidden: The line holds a private key or a credential and is not shown.
    """

    file: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    width: int = 1
    hidden: bool = False

    @property
    def end_column(self) -> int | None:
        """Return the column after the last underlined character; None if there is no column."""
        return None if self.column is None else self.column + self.width

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)


class Source(Protocol):
    """A document that knows where its values were written.

    Frontends and the model see the loader's documents through this protocol only, so that they
    do not depend on YAML.
    """

    @property
    def data(self) -> Any:
        """Return the JSON value of the document."""

    @property
    def relative(self) -> str:
        """Return its file's name, the same whatever the working directory."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """Locate the value at `path`, or its key; the nearest parent if it is absent."""


class Rename(Struct, frozen=True):
    """Give a field another name."""

    at: Location
    name: str


class Quote(Struct, frozen=True):
    """Turn a value that is written without quotes into text: `1` becomes `"1"`."""

    at: Location


class Replace(Struct, frozen=True):
    """Replace a scalar by another."""

    at: Location
    value: str | int | float | bool


Change = Rename | Quote | Replace


class TextEdit(Struct, frozen=True, rename="camel"):
    """A part of a file's text, and its replacement."""

    line: int  # from 1, as columns
    column: int
    end_line: int
    end_column: int  # of the character after the last one
    text: str


class Fix(Struct, frozen=True):
    """A correction of the cause of a diagnostic."""

    title: str  # what it does, as a command: `rename 'replica' to 'replicas'`
    changes: tuple[Change, ...]  # all of them are applied, or none
    is_safe: bool  # it certainly preserves the meaning; otherwise it is a good guess
    edits: tuple[TextEdit, ...] = ()  # the changes in the text, after `etcompile.fixes`

    @property
    def file(self) -> str | None:
        named = {change.at.file for change in self.changes}
        return named.pop() if len(named) == 1 else None


class Diagnostic(Struct, frozen=True):
    """An error or a warning.

    Args:
        code: The catalogue's code, `ET` and four digits.
        message: What is wrong, in one line, with the relevant values.
        location: None if the cause is in no input file.
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
        """Return the message, and the hint on the next line, for forms with a single text."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def diagnose(code: str, location: Location | None, **facts: object) -> Diagnostic:
    """Make the diagnostic `code` from its catalogue entry.

    Args:
        **facts: Values for the names in braces in the entry's message and hint.

    Raises:
        KeyError: The catalogue has no such code, or a fact of the entry is missing: a mistake in
            etcompile, never in its input.
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
        where=_shown(str(facts.get("where", "")), hidden=False),
    )


def _shown(words: str, *, hidden: bool) -> str:
    from etcompile.diagnostics.redaction import HIDDEN, cut  # noqa: PLC0415 - few need it

    words = cut(words)
    # `redacted` cannot recognise a single line of a key, so all long words are hidden.
    return re.sub(_LONG_WORD, HIDDEN, words) if hidden else words


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)


class RefusedError(Exception):
    """Raised when a request cannot be done; a command reports why and exits with the code."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = REFUSED) -> None:
        super().__init__(
            "; ".join(
                f"{d.location}: {d.message}" if d.location else d.message for d in diagnostics
            )
        )
        self._diagnostics = tuple(diagnostics)
        self.code = code

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._diagnostics
