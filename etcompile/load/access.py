"""Open input files, and decide which files a run may open and how much of them it reads.

On a workstation, any regular file that the user names may be read. The Argo CD plugin and the KRM
function run for anybody who can write to a repository, so they have a `Boundary`: nothing outside
of it is read, after links are resolved. All readers of inputs use this module.
`tests/load/test_access.py` lists the few modules that open files without it, each with its reason.
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

_NAME_ONLY = getattr(os, "O_PATH", os.O_RDONLY)  # folders of a path need not be readable
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CLOSED = ".git"
"""The folder of a repository with credentials and hooks, which never holds an input."""


class Boundary(Struct, frozen=True):
    """The folder that holds everything that a run may open.

    Args:
        besides: Files and folders elsewhere that the person who runs the program has named.
    """

    root: str
    besides: tuple[str, ...] = ()


class Exclude(Struct, frozen=True):
    """Files of folders and globs that are not read: patterns as in `.gitignore`.

    Args:
        folder: The folder to which the patterns are relative.
    """

    patterns: tuple[str, ...]
    folder: str = "."

    def matches(self, path: str) -> bool:
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
        boundary: Where all files must be; None for anywhere.
        exclude: What is not read unless its path is given explicitly.
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
    """Resolve a path that may be opened, or raise OutsideError."""
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
    """Return the status of a path that may be opened."""
    real = resolved(path, boundary)
    try:
        return os.stat(real)  # noqa: PTH116
    except FileNotFoundError:
        if replacement(real) is None:
            raise
        # The status of a regular file that does not exist yet, with a unique inode number.
        number = hash(os.path.realpath(real))
        return os.stat_result((stat.S_IFREG | 0o600, number, -1, 1, 0, 0, 0, 0, 0, 0))


_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_INSTEAD: ContextVar[Mapping[str, bytes]] = ContextVar("instead", default=_NOTHING)


@contextmanager
def instead_of(files: Mapping[str, bytes]) -> Iterator[None]:
    """Replace the contents of files, by path, within the context; `-` is standard input.

    The replacement is the unsaved text of an editor, or what a fix would write. A file that does
    not exist yet is accessible by its name, but not listed in its folder.
    """
    replacements = {_identity(path): text for path, text in files.items()}
    token = _INSTEAD.set({**_INSTEAD.get(), **replacements})
    try:
        yield
    finally:
        _INSTEAD.reset(token)


def replacement(path: str) -> bytes | None:
    replacements = _INSTEAD.get()
    return replacements.get(_identity(path)) if replacements else None


def _identity(path: str) -> str:
    return path if path == "-" else os.path.realpath(path)


@contextmanager
def opened(path: str, boundary: Boundary | None = None) -> Iterator[BinaryIO]:
    """Open a regular file that is inside of the boundary, for reading."""
    real = resolved(path, boundary)
    if (instead := replacement(real)) is not None:
        yield io.BytesIO(instead)
        return
    # Check before opening, which has an effect on some devices, and again afterwards.
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
    """Read a regular file, at most `limit` bytes unless that is -1."""
    with opened(path, boundary) as file:
        return file.read(limit)


def names(directory: str, boundary: Boundary | None = None) -> list[str]:
    real = resolved(directory, boundary)
    descriptor = _descriptor(real, boundary, _READ | os.O_DIRECTORY)
    try:
        return os.listdir(descriptor)  # noqa: PTH208 - a descriptor has no path
    finally:
        os.close(descriptor)


def special(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _descriptor(real: str, boundary: Boundary | None, flags: int) -> int:
    """Open a resolved path.

    Within a boundary, walk the path folder by folder and follow no link: it had none when it was
    resolved, so a link must have been put there since.
    """
    if boundary is None:
        return os.open(real, flags)
    folder = os.open(os.sep, _NAME_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = PurePath(real).parts[1:]
    try:
        for part in parts[:-1]:
            folder_flags = _NAME_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(part, folder_flags, dir_fd=folder)
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
    """A folder of the user's templates, which are read like any other input.

    The renderer gets texts by name and has no access to a file system.
    """

    path: str
    limits: Limits

    def names(self) -> list[str]:
        entries = names(self.path, self.limits.boundary)
        return sorted(name for name in entries if os.path.isfile(self.file(name)))  # noqa: PTH113

    def content(self, name: str) -> bytes:
        if "\0" in name or name.startswith("/") or ".." in PurePath(name).parts:
            raise FileNotFoundError(f"'{name}' is no name of a template")
        limit = self.limits.file_bytes
        text = content(self.file(name), self.limits.boundary, limit + 1)
        if len(text) > limit:
            raise OSError(f"it is larger than {limit} bytes")
        return text

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)  # noqa: PTH118 - a template's name may be no path
