"""How a diagnostic's cause can be put right in the file: changes of the text, by their places.

A fix only says what is to change and where. Whoever carries it out (`etcompile.fixes`) finds the
places in the text again and changes nothing else of it.
"""

from msgspec import Struct

from etcompile.diagnostics.location import Location


class Rename(Struct, frozen=True):
    """Give a field another name.

    Args:
        at: The place of its key.
        name: The name that it is to have.
    """

    at: Location
    name: str


class Quote(Struct, frozen=True):
    """Make text of a value that is written without quotes: `1` becomes `"1"`.

    Args:
        at: The place of the value.
    """

    at: Location


class Replace(Struct, frozen=True):
    """Write another scalar in the place of one.

    Args:
        at: The place of the value.
        value: What is to stand there.
    """

    at: Location
    value: str | int | float | bool


Change = Rename | Quote | Replace


class TextEdit(Struct, frozen=True, rename="camel"):
    """A part of a file's text, and what is to stand in its place.

    Args:
        line: Its first line, from 1.
        column: Its first character, from 1.
        end_line: The line on which it ends.
        end_column: The character after its last one.
        text: The new text; empty to take the part away.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Fix(Struct, frozen=True):
    """What puts a diagnostic's cause right.

    Args:
        title: What it does, as a command: `rename 'replica' to 'replicas'`.
        changes: All or none of them are to be made.
        is_safe: It cannot change what was meant. If not, it is likely what was meant.
        edits: The same as edits of the text, once somebody has looked at that.
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
