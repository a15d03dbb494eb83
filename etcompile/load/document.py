"""A document: a JSON value that remembers where it was written.

It is what the rest of the compiler sees of a file, and implements `diagnostics.Source`, so that
every later stage can point at a line without knowing of YAML.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field, structs

from etcompile.diagnostics import Location, ValuePath
from etcompile.k8s.path import value_at

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment


class Places(Protocol):
    """Something that knows where values were written: a text, or texts laid over each other."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of the value at `path`, or of its nearest parent; of its key if `key`."""


class Document(Struct, frozen=True, eq=False):
    """One object of the input.

    Args:
        file: The file as shown to the user: the path as given, joined for the members of a
            directory; `-` for standard input.
        relative: A name that does not depend on the working directory: the path inside the
            directory that was named, else the file's base name.
        index: The document's number in its file, from 0; the items of a List count one by one.
        data: A JSON value, a mapping with apiVersion and kind. Parts of it may be shared: treat
            it as immutable.
        origin: Where its values were written; None if they never were text.
        path: Where in that text's document it stands: `("items", 3)` for an item of a List.
        digest: The SHA-256 of its file, in hexadecimal; None if it comes from no file.
        comments: Those of its file that suppress a warning.
    """

    file: str
    relative: str
    index: int
    data: dict[str, Any]
    origin: Places | None = field(default=None)
    path: ValuePath = ()
    digest: str | None = field(default=None)
    comments: "tuple[IgnoreComment, ...]" = ()

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of the value at `path`.

        Returns:
            Its place, or that of the nearest parent that exists; the file alone for a document
            that never was text.
        """
        if self.origin is None:
            return Location(self.file)
        return self.origin.locate((*self.path, *path), key=key)

    @property
    def api_version(self) -> str | None:
        """The document's apiVersion."""
        return self._text("apiVersion")

    @property
    def kind(self) -> str | None:
        """The document's kind."""
        return self._text("kind")

    @property
    def name(self) -> str | None:
        """metadata.name, None when absent."""
        return self._text("metadata", "name")

    @property
    def namespace(self) -> str | None:
        """metadata.namespace, None when absent."""
        return self._text("metadata", "namespace")

    @property
    def label(self) -> str:
        """What to call it in a message: `TrainingJob ns/name`."""
        name = self.name or self._text("metadata", "generateName") or "(no name)"
        return f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"

    def _text(self, *path: str) -> str | None:
        """The text at a path; None if there is none or it is empty."""
        value = value_at(self.data, path)
        return value if isinstance(value, str) and value else None


class _MovedPlaces(Struct, frozen=True, eq=False):
    """The places of a document, by where its fields stand now."""

    written: Document
    moved: Mapping[ValuePath, ValuePath]
    """A path now to the path in the text."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value in the text, or of its nearest parent."""
        for length in range(len(path), 0, -1):
            before = self.moved.get(path[:length])
            if before is not None:
                return self.written.locate((*before, *path[length:]), key=key)
        return self.written.locate(path, key=key)


def relocated(
    document: Document, data: Mapping[str, Any], moved: Mapping[ValuePath, ValuePath]
) -> Document:
    """A document whose fields stand elsewhere than they were written.

    What an older API version, or a habit of another tool, has somewhere else is put where its kind
    reads it, once, before anything looks at the document; a diagnostic about such a field still
    points at the line that somebody wrote.

    Args:
        moved: The path of each field that has moved, to its path in the text.
    """
    if document.origin is None:
        return structs.replace(document, data=dict(data))
    places = _MovedPlaces(document, dict(moved))
    return structs.replace(document, data=dict(data), origin=places, path=())
