"""What a run may open, how much of it, and the one function that opens it.

Who renders on a workstation names files of their own, so there any regular file may be read. The
Argo CD plugin and the KRM function run for whoever can write to a repository: they have a
`Boundary`, and nothing is read that lies outside of it once links are resolved. Every reader of
inputs asks here; the writers of output folders and the clients of a cluster have modules of their
own (`tests/load/test_access.py` lists each with its reason).
"""

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, BinaryIO

from msgspec import Struct

_NAME_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
"""A folder on the way is passed through, and need not be listed."""
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CLOSED = ".git"
"""The folder of a repository that holds credentials and hooks, and never an input."""


class Boundary(Struct, frozen=True):
    """Where everything must lie that a run opens.

    Args:
        besides: Files and folders elsewhere that whoever runs the program has named.
    """

    root: str
    besides: tuple[str, ...] = ()


class Exclude(Struct, frozen=True):
    """Files of folders and globs that are not read: patterns as in `.gitignore`.

    Args:
        folder: The folder that the patterns are seen from.
    """

    patterns: tuple[str, ...]
    folder: str = "."

    def matches(self, path: str) -> bool:
        """Return whether a file is excluded."""
        if not self.patterns:
            return False
        folder, name = os.path.split(path)
        inside = os.path.relpath(os.path.realpath(folder or "."), os.path.realpath(self.folder))
        matches: bool = _spec(self.patterns).match_file(os.path.join(inside, name))  # noqa: PTH118
        return matches and not inside.startswith(os.pardir)


@lru_cache
def _spec(patterns: tuple[str, ...]) -> Any:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few runs exclude anything

    return GitIgnoreSpec.from_lines(patterns)


class Limits(Struct, frozen=True):
    """Bounds that keep a wrong or hostile file from occupying a machine.

    Args:
        file_bytes: Largest file, in bytes.
        depth: Deepest nesting of lists and mappings, aliases expanded, in levels.
        alias_values: How many values the aliases of one file may expand to in all.
        alias_bytes: How many bytes of text the aliases of one file may expand to in all.
        documents: How many documents one file may hold.
        boundary: Where everything must lie that is read; None if any place will do.
        exclude: What is not read unless it is named itself.
    """

    file_bytes: int = 16 * 1024 * 1024
    depth: int = 64
    alias_values: int = 100_000
    alias_bytes: int = 4 * 1024 * 1024
    documents: int = 10_000
    boundary: Boundary | None = None
    exclude: Exclude = Exclude(())


class OutsideError(PermissionError):
    """A path leads out of the boundary, by its name or by a link."""

    def __init__(self, boundary: Boundary) -> None:
        super().__init__(errno.EACCES, f"it leads out of {boundary.root}")
        self.boundary = boundary


class SpecialFileError(OSError):
    """A path names something that is no regular file."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EINVAL, f"it is {what}")
        self.what = what


def resolved(path: str, boundary: Boundary | None) -> str:
    """Where a path leads, if that may be opened: the decision itself.

    Raises:
        OutsideError: it leads out of the boundary, or into the `.git` folder of its root.
        OSError: links lead nowhere.
    """
    if boundary is None:
        return path
    real = PurePath(os.path.realpath(path))
    root = PurePath(os.path.realpath(boundary.root))
    if real.is_relative_to(root) and _CLOSED not in real.relative_to(root).parts:
        return str(real)
    if any(real.is_relative_to(os.path.realpath(folder)) for folder in boundary.besides):
        return str(real)
    raise OutsideError(boundary)


def status(path: str, boundary: Boundary | None = None) -> os.stat_result:
    """What a path names, if that may be opened.

    Raises:
        OutsideError: it leads out of the boundary.
        OSError: there is nothing, or the system does not tell.
    """
    real = resolved(path, boundary)
    try:
        return os.stat(real)  # noqa: PTH116
    except FileNotFoundError:
        if replacement(real) is None:
            raise
        # As for a regular file, which is not there yet; its number is no other file's.
        number = hash(os.path.realpath(real))
        return os.stat_result((stat.S_IFREG | 0o600, number, -1, 1, 0, 0, 0, 0, 0, 0))


_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_INSTEAD: ContextVar[Mapping[str, bytes]] = ContextVar("instead", default=_NOTHING)


@contextmanager
def instead_of(files: Mapping[str, bytes]) -> Iterator[None]:
    """Within the context, whoever reads one of these files reads something else.

    That is what an editor holds that nobody has saved, or what a fix would write. A file that is
    not there yet is found by its name, and not in its folder.

    Args:
        files: What is read instead, by the path of the file; by `-` for standard input.
    """
    replacements = {_identity(path): text for path, text in files.items()}
    token = _INSTEAD.set({**_INSTEAD.get(), **replacements})
    try:
        yield
    finally:
        _INSTEAD.reset(token)


def replacement(path: str) -> bytes | None:
    """What is read instead of a file, or of standard input for `-`; None if that is read itself."""
    replacements = _INSTEAD.get()
    return replacements.get(_identity(path)) if replacements else None


def _identity(path: str) -> str:
    return path if path == "-" else os.path.realpath(path)


@contextmanager
def opened(path: str, boundary: Boundary | None = None) -> Iterator[BinaryIO]:
    """A regular file, open for reading.

    Raises:
        OutsideError: it leads out of the boundary.
        SpecialFileError: it is a folder, a pipe, a device or a socket.
        OSError: the system refuses.
    """
    real = resolved(path, boundary)
    if (instead := replacement(real)) is not None:
        yield io.BytesIO(instead)
        return
    # Opening some devices does something; whoever swaps the file now is caught below.
    _check_regular(os.stat(real))  # noqa: PTH116
    descriptor = _descriptor(real, boundary, _READ)
    try:
        _check_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        yield file


def content(path: str, boundary: Boundary | None = None, limit: int = -1) -> bytes:
    """The bytes of a regular file, or as many of them as the limit says."""
    with opened(path, boundary) as file:
        return file.read(limit)


def names(directory: str, boundary: Boundary | None = None) -> list[str]:
    """The names in a folder."""
    real = resolved(directory, boundary)
    descriptor = _descriptor(real, boundary, _READ | os.O_DIRECTORY)
    try:
        return os.listdir(descriptor)  # noqa: PTH208 - a descriptor has no path
    finally:
        os.close(descriptor)


def special(mode: int) -> str:
    """What a file is that is no regular one, in words."""
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _descriptor(real: str, boundary: Boundary | None, flags: int) -> int:
    """The open file that a resolved path names.

    Inside a boundary the path is walked folder by folder and no link is followed: it had none when
    it was resolved, so one that is there now was put there since.
    """
    if boundary is None:
        return os.open(real, flags)
    folder = os.open(os.sep, _NAME_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = PurePath(real).parts[1:]
    try:
        for part in parts[:-1]:
            way = _NAME_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(part, way, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OutsideError(boundary) from error
        raise
    finally:
        os.close(folder)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SpecialFileError(special(status.st_mode))


class TemplateFolder(Struct, frozen=True):
    """A folder of the user's templates, which are read as any other input.

    What renders them sees texts by name and never a file system.
    """

    path: str
    limits: Limits

    def names(self) -> list[str]:
        """The names of the files in it, sorted; what is no file has none."""
        entries = names(self.path, self.limits.boundary)
        return sorted(name for name in entries if os.path.isfile(self.file(name)))  # noqa: PTH113

    def content(self, name: str) -> bytes:
        """The bytes of a template."""
        if "\0" in name or name.startswith("/") or ".." in PurePath(name).parts:
            raise FileNotFoundError(f"'{name}' is no name of a template")
        limit = self.limits.file_bytes
        text = content(self.file(name), self.limits.boundary, limit + 1)
        if len(text) > limit:
            raise OSError(f"it is larger than {limit} bytes")
        return text

    def file(self, name: str) -> str:
        """The path of a template, for messages."""
        return os.path.join(self.path, name)  # noqa: PTH118 - a template's name may be no path
