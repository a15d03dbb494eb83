"""Corrections of the file that a diagnostic is about: changes, by their places.

A fix only says what to change and where. `etcompile.fixes` finds the places in the text and changes
nothing else.
"""

from msgspec import Struct

from etcompile.diagnostics.location import Location


class Rename(Struct, frozen=True):
    """Gives a field another name.

    Args:
        at: The place of its key.
        name: The new name.
    """

    at: Location
    name: str


class Quote(Struct, frozen=True):
    """Makes text of a value that is written without quotes: `1` becomes `"1"`.

    Args:
        at: The place of the value.
    """

    at: Location


class Replace(Struct, frozen=True):
    """Replaces a scalar by another.

    Args:
        at: The place of the value.
        value: The new value.
    """

    at: Location
    value: str | int | float | bool


Change = Rename | Quote | Replace


class TextEdit(Struct, frozen=True, rename="camel"):
    """A part of a file's text, and its replacement.

    Args:
        line: Its first line, from 1.
        column: Its first character, from 1.
        end_line: The line on which it ends.
        end_column: The character after its last one.
        text: The new text; empty to remove the part.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Fix(Struct, frozen=True):
    """A correction of the cause of a diagnostic.

    Args:
        title: What it does, as a command: `rename 'replica' to 'replicas'`.
        changes: Applied all together or not at all.
        is_safe: Whether it certainly keeps the meaning; if not, it is a good guess.
        edits: The changes as edits of the text, once `etcompile.fixes` has found them there.
    """

    title: str
    changes: tuple[Change, ...]
    is_safe: bool
    edits: tuple[TextEdit, ...] = ()

    @property
    def file(self) -> str | None:
        """The file that it changes, as the user named it; None if it is more than one."""
        named = {change.at.file for change in self.changes}
        return named.pop() if len(named) == 1 else None
