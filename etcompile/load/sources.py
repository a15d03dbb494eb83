"""The files that paths, directories and globs name, and their bytes.

Finding them is apart from reading them because most of what can go wrong here (loops, pipes,
permissions) has nothing to do with YAML, and because the order of files is part of what makes
output deterministic: names sort by code point, whatever the file system or locale says.
"""

import os
import re
import stat
from collections.abc import Iterator
from fnmatch import translate
from typing import BinaryIO, Literal

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.load import access
from etcompile.load.configuration import upwards
from etcompile.naming import natural

_SUFFIXES = (".yaml", ".yml", ".json")
LOCK = "etcompile.lock.json"
"""The lock file of an output folder, which holds no objects."""
_MAGIC = re.compile(r"[*?\[]")
_MEBIBYTE = 1024 * 1024
_OUTSIDE = codes.OUTSIDE_THE_BOUNDARY

Identity = tuple[int, int]
"""Device and inode: two paths to one file have the same."""


class SourceFile(Struct, frozen=True):
    """A regular file to read."""

    path: str
    shown: str
    relative: str
    identity: Identity


class Sources(Struct, frozen=True):
    """What one argument names."""

    kind: Literal["file", "directory", "glob"]
    files: tuple[SourceFile | Diagnostic, ...]


def sources(path: str, boundary: access.Boundary | None = None) -> Sources:
    """The files that a path on the command line names.

    Args:
        path: A file, a directory or a glob. A path that exists is not a glob.

    Returns:
        For a file, itself. For a directory, its YAML and JSON files at any depth, hidden ones
        left out. For a glob, its matches: a directory among them counts with all its files,
        and a pattern that ends in `*` or `**` takes YAML and JSON files only.
    """
    if _MAGIC.search(path) and not os.path.lexists(path):
        return Sources("glob", tuple(_glob_files(path, boundary)))
    status = _status(path, boundary)
    if isinstance(status, Diagnostic):
        return Sources("file", (status,))
    if stat.S_ISDIR(status.st_mode):
        return Sources("directory", tuple(_directory_files(path, boundary)))
    return Sources("file", (_file(path, os.path.basename(path), status),))  # noqa: PTH119


def output_folder(folder: str, top: str, own: str | None = None) -> str | None:
    """Return the output folder that a folder is or lies in, without links; None if there is none.

    Args:
        top: The folder above which nothing counts: the root of the repository.
        own: An output folder even without a lock file.
    """
    for place in upwards(os.path.realpath(folder)):
        if place == own or os.path.lexists(os.path.join(place, LOCK)):  # noqa: PTH118
            return place
        if place == top:
            break
    return None


def file_bytes(
    path: str, shown: str, limit: int, boundary: access.Boundary | None = None
) -> bytes | Diagnostic:
    """The content of a regular file, or why it cannot be read."""
    try:
        with access.opened(path, boundary) as file:
            return stream_bytes(file, shown, limit)
    except OSError as error:
        return unreadable(shown, error)


def stream_bytes(stream: BinaryIO, shown: str, limit: int) -> bytes | Diagnostic:
    """What a stream holds, or why it cannot be read."""
    parts: list[bytes] = []
    left = limit + 1
    try:
        # A raw stream gives what there is, which may be less than asked for.
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
    except (OSError, ValueError) as error:
        return unreadable(shown, error)
    return b"".join(parts) if left else too_large(shown, limit)


def too_large(shown: str, limit: int) -> Diagnostic:
    """ET1007 for a file of more than `limit` bytes."""
    return diagnose(codes.FILE_TOO_LARGE, Location(shown), limit=f"{limit / _MEBIBYTE:g}")


def shown_path(path: str) -> str:
    """The path as it can be printed: a byte that is not UTF-8 becomes an escape."""
    try:
        return os.fsencode(path).decode(errors="backslashreplace")
    except UnicodeEncodeError:  # a text of a program's, which no file is named by
        return path.encode(errors="backslashreplace").decode()


def _status(path: str, boundary: access.Boundary | None) -> os.stat_result | Diagnostic:
    try:
        return access.status(path, boundary)
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.islink(path):  # noqa: PTH114
            return unreadable(shown_path(path), error)
        return diagnose(codes.NO_SUCH_PATH, Location(shown_path(path)))
    except (OSError, ValueError) as error:
        return unreadable(shown_path(path), error)


def unreadable(shown: str, error: Exception) -> Diagnostic:
    """Why a file cannot be read, whichever way the system or the boundary refused it."""
    if isinstance(error, access.OutsideError):
        return diagnose(_OUTSIDE, Location(shown), root=shown_path(error.boundary.root))
    if isinstance(error, access.SpecialFileError):
        return diagnose(codes.NOT_A_REGULAR_FILE, Location(shown), what=error.what)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return diagnose(codes.UNREADABLE_FILE, Location(shown), reason=reason[:1].lower() + reason[1:])


def _file(path: str, relative: str, status: os.stat_result) -> SourceFile | Diagnostic:
    """The file, unless opening it might block for ever."""
    shown = shown_path(path)
    if not stat.S_ISREG(status.st_mode):
        return diagnose(
            codes.NOT_A_REGULAR_FILE, Location(shown), what=access.special(status.st_mode)
        )
    return SourceFile(path, shown, shown_path(relative), (status.st_dev, status.st_ino))


def _directory_files(
    directory: str, boundary: access.Boundary | None
) -> Iterator[SourceFile | Diagnostic]:
    """The files below a directory, in the order of their names, level by level.

    A directory that was already listed under another name is passed over: its files are the
    same. One that stands inside itself is reported.
    """
    listed: set[Identity] = set()
    waiting: list[tuple[str, str, tuple[Identity, ...]]] = [(directory, "", ())]
    while waiting:
        path, relative, above = waiting.pop()
        status = _status(path, boundary)
        if isinstance(status, Diagnostic):
            # A link to nowhere is no concern of ours unless it would have been read.
            leads_out = status.code == _OUTSIDE and os.path.isdir(path)  # noqa: PTH112
            if path.endswith(_SUFFIXES) or leads_out or not os.path.islink(path):  # noqa: PTH114
                yield status
            continue
        if not stat.S_ISDIR(status.st_mode):
            if _is_input(path):
                yield _file(path, relative, status)
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            yield diagnose(codes.DIRECTORY_LOOP, Location(shown_path(path)))
        elif identity not in listed:
            listed.add(identity)
            names = _names(path, boundary)
            if isinstance(names, Diagnostic):
                yield names
                continue
            waiting += [
                (
                    os.path.join(path, name),  # noqa: PTH118
                    f"{relative}/{name}" if relative else name,
                    (*above, identity),
                )
                for name in reversed(names)
            ]


def _is_input(path: str) -> bool:
    return path.endswith(_SUFFIXES) and path.rpartition("/")[2] != LOCK


def _names(
    directory: str, boundary: access.Boundary | None, *, hidden: bool = False
) -> list[str] | Diagnostic:
    """The names in a directory that are hidden, or those that are not; digits count as numbers."""
    try:
        names = access.names(directory, boundary)
    except OSError as error:
        return unreadable(shown_path(directory), error)
    return sorted((name for name in names if name.startswith(".") == hidden), key=natural)


def _glob_files(
    pattern: str, boundary: access.Boundary | None
) -> Iterator[SourceFile | Diagnostic]:
    last = pattern.rpartition("/")[2]
    paths, problems = _glob_paths(pattern, boundary)
    yield from problems
    if not paths and not problems:
        yield diagnose(codes.NO_SUCH_PATH, Location(shown_path(pattern)))
    for path in paths:
        status = _status(path, boundary)
        if isinstance(status, Diagnostic):
            yield status
        elif stat.S_ISDIR(status.st_mode):
            yield from _directory_files(path, boundary)
        elif _is_input(path) or last not in ("*", "**"):
            yield _file(path, os.path.basename(path), status)  # noqa: PTH119


def _glob_paths(
    pattern: str, boundary: access.Boundary | None
) -> tuple[list[str], list[Diagnostic]]:
    """The paths that a pattern matches, and the directories that could not be listed.

    The standard library's glob follows a link that points upwards until the kernel refuses,
    which takes for ever where there are two. Here `**` enters each real directory once.
    """
    paths: set[str] = set()
    problems: list[Diagnostic] = []
    entered: set[tuple[Identity, int]] = set()
    waiting: list[tuple[str, list[str]]] = [("", pattern.split("/"))]
    while waiting:
        base, parts = waiting.pop()
        if not parts:
            paths.add(base)
            continue
        part, rest = parts[0], parts[1:]
        if not _MAGIC.search(part):
            path = f"{base}{part}/" if rest else f"{base}{part}"
            waiting += [(path, rest)] if os.path.lexists(path) else []
            continue
        status = _status(base or ".", boundary)
        names = _names(base or ".", boundary, hidden=part.startswith("."))
        if isinstance(status, Diagnostic) or isinstance(names, Diagnostic):
            problems += [answer for answer in (status, names) if isinstance(answer, Diagnostic)][:1]
            continue
        anywhere = part == "**"
        if anywhere:
            visit = ((status.st_dev, status.st_ino), len(parts))
            if visit in entered:
                continue
            entered.add(visit)
            waiting += [(base, rest)] if rest else []
        matching = re.compile(translate("*" if anywhere else part))
        for name in names:
            path = f"{base}{name}"
            is_directory = os.path.isdir(path)  # noqa: PTH112
            if anywhere and is_directory:
                waiting.append((f"{path}/", parts))
            elif matching.match(name) and (is_directory or not rest) and not (anywhere and rest):
                waiting.append((f"{path}/" if rest else path, rest))
    return sorted(paths, key=natural), problems
