"""A folder of the user's templates to their texts.

Apart from what renders them, because a template is read as any other input: within the boundary,
and up to a limit. What renders them sees texts by name and never a file system.
"""

import os
from pathlib import PurePosixPath

from msgspec import Struct

from etcompile.load import access
from etcompile.load.limits import Limits


class TemplateFolder(Struct, frozen=True):
    """A folder of templates.

    Args:
        path: The folder.
        limits: How much to read of each, and where it must lie.
    """

    path: str
    limits: Limits

    def names(self) -> list[str]:
        """The names of the files in it, sorted; what is no file has none.

        Raises:
            OSError: the folder cannot be listed, or is outside of the boundary.
        """
        found = access.names(self.path, self.limits.boundary)
        return sorted(name for name in found if os.path.isfile(self.file(name)))  # noqa: PTH113

    def content(self, name: str) -> bytes:
        """The bytes of a template.

        Args:
            name: Its path in the folder, with `/`.

        Raises:
            OSError: it is not there, cannot be read, is too large, or leads out of the folder.
        """
        parts = PurePosixPath(name).parts
        if "\0" in name or name.startswith("/") or ".." in parts:
            raise FileNotFoundError(f"'{name}' is no name of a template")
        limit = self.limits.file_bytes
        content = access.content(self.file(name), self.limits.boundary, limit + 1)
        if len(content) > limit:
            raise OSError(f"it is larger than {limit} bytes")
        return content

    def file(self, name: str) -> str:
        """The path of a template, for messages."""
        return os.path.join(self.path, name)  # noqa: PTH118 - a template's name may be no path
