"""Who reads diagnostics: whether they see colours, and how they name files.

A person names files from the directory they are in; a code scanner names them from the root of the
repository.
"""

import contextlib
import os
from pathlib import Path, PurePath

from msgspec import Struct

STANDARD_INPUT = "-"
"""What a location calls standard input."""


class Audience(Struct, frozen=True):
    """Who reads.

    Args:
        color: Whether ANSI escapes are understood.
        root: The folder that files are named from; None if they are named as the user did.
    """

    color: bool = False
    root: Path | None = None

    def name(self, file: str) -> str:
        """What the readers call a file: its path from the root, absolute if it is outside."""
        if self.root is None or file == STANDARD_INPUT:
            return file
        path = os.path.abspath(file)  # noqa: PTH100 - Path has no way to fold '..' alone
        spellings = [PurePath(path)]
        with contextlib.suppress(ValueError):  # what no file system can hold, such as a NUL
            spellings.append(PurePath(os.path.realpath(path)))
        for spelling in spellings:
            if spelling.is_relative_to(self.root):
                return spelling.relative_to(self.root).as_posix()
        return path


def repository(directory: Path) -> Path:
    """The root of the Git repository around a directory; the directory itself if there is none."""
    for folder in (directory, *directory.parents):
        # A worktree and a submodule have a file there.
        if os.path.lexists(folder / ".git"):
            return folder
    return directory
