"""A place in an input file, as diagnostics and their fixes name it."""

from msgspec import Struct


class Location(Struct, frozen=True):
    """A place in an input file.

    Args:
        file: The file as the user named it (`-` for standard input).
        line: Line number, from 1; None when the whole file is meant.
        column: Column in characters, from 1; None when the whole line or file is meant.
        text: That source line without its line break, when there is one to show.
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
        """The column after the last character that is underlined; None if there is no column."""
        return None if self.column is None else self.column + self.width

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)
