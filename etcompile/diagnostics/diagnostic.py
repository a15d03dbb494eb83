"""One thing wrong, or worth knowing, at one place of the input.

Apart from the catalogue because the catalogue is data: this module is the small algebra that
every stage uses (make one, ask whether any is an error).
"""

from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import Struct

from etcompile.diagnostics.catalogue import RULES, Severity

ValuePath = tuple[str | int, ...]
"""A place inside a document: mapping keys and list indexes, outermost first."""


class Location(Struct, frozen=True):
    """A place in an input file.

    Args:
        file: The file as the user named it (`-` for standard input).
        line: Line number, from 1; None when the whole file is meant.
        column: Column in characters, from 1; None when the whole line or file is meant.
        text: That source line without its line break, when there is one to show.
        width: How many characters the caret underlines, at least 1.
    """

    file: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    width: int = 1

    @property
    def end_column(self) -> int | None:
        """The column after the last character that is underlined; None if there is no column."""
        return None if self.column is None else self.column + self.width

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)


class Source(Protocol):
    """A document that can tell where its values stand.

    The loader's documents are sources; frontends and the model see them through this protocol
    only, so that they need not know that there is such a thing as YAML.
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
    """A finding.

    Args:
        code: The catalogue's code, `ET` and four digits.
        severity: Error or warning; the catalogue's.
        message: What is wrong, in one line, with the values that matter.
        location: Where; None when no input file is to blame.
        hint: What to do about it.
    """

    code: str
    severity: Severity
    message: str
    location: Location | None
    hint: str | None


def diagnose(code: str, location: Location | None, **facts: object) -> Diagnostic:
    """Makes the diagnostic `code` from its catalogue entry.

    Args:
        code: A code of the catalogue.
        location: Where the problem stands, if a file is to blame.
        **facts: The values that the entry's message and hint name in braces.

    Returns:
        The diagnostic, with message and hint filled in.

    Raises:
        KeyError: the catalogue has no such code, or the entry names a fact that is missing:
            a mistake in etcompile, never in its input.
    """
    rule = RULES[code]
    return Diagnostic(
        code=code,
        severity=rule.severity,
        message=rule.message.format_map(facts),
        location=location,
        hint=rule.hint.format_map(facts) or None,
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them is an error: then nothing is rendered."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
