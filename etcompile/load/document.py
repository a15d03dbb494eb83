"""A document: a JSON value that remembers where it was written.

It is what the rest of the compiler sees of a file, and implements `diagnostics.Source`, so that
every later stage can point at a line without knowing of YAML.
"""

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from etcompile.diagnostics import Location, ValuePath

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
        comments: Those of its file that ask for silence about a warning.
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

        Args:
            path: Keys and indexes from this document's root.
            key: Point at the value's key instead.

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
        return _text(self.data.get("apiVersion"))

    @property
    def kind(self) -> str | None:
        """The document's kind."""
        return _text(self.data.get("kind"))

    @property
    def name(self) -> str | None:
        """metadata.name, None when absent."""
        return self._metadata("name")

    @property
    def namespace(self) -> str | None:
        """metadata.namespace, None when absent."""
        return self._metadata("namespace")

    @property
    def label(self) -> str:
        """What to call it in a message: `TrainingJob ns/name`."""
        name = self.name or self._metadata("generateName") or "(no name)"
        return f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"

    def _metadata(self, field: str) -> str | None:
        metadata = self.data.get("metadata")
        return _text(metadata.get(field)) if isinstance(metadata, dict) else None


def _text(value: object) -> str | None:
    """The value if it is text that says something."""
    return value if isinstance(value, str) and value else None
