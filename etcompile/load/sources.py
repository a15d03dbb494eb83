"""List the files that paths, directories and globs name, and read their bytes.

Files are sorted by the code points of their names, whatever the file system or locale, because the
order of files is part of what makes output deterministic. Loops, pipes and permissions are handled
here, so that the reader of YAML knows nothing of them.
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
from etcompile.load.configuration import GLOB, upwards
from etcompile.naming import natural

SUFFIXES = (".yaml", ".yml", ".json")
"""The ends of the names of files that folders are read for."""
LOCK = "etcompile.lock.json"
"""The lock file of an output folder, which holds no objects."""
_MEBIBYTE = 1024 * 1024
_OUTSIDE = codes.OUTSIDE_THE_BOUNDARY

Identity = tuple[int, int]
"""Device and inode, equal for two paths to the same file."""


class SourceFile(Struct, frozen=True):
    """A regular file to read."""

    path: str
    shown: str
    relative: str
    identity: Identity


class Sources(Struct, frozen=True):
    """The files of one argument."""

    kind: Literal["file", "directory", "glob"]
    files: tuple[SourceFile | Diagnostic, ...]


def sources(path: str, boundary: access.Boundary | None = None) -> Sources:
    """List the files that a path on the command line names.

    A path that exists is a file or a directory, not a glob. A directory means its YAML and JSON
    files at any depth, except hidden ones; a glob means its matches, directories with all their
    files. A pattern that ends in `*` or `**` matches YAML and JSON files only.
    """
    if GLOB.search(path) and not os.path.lexists(path):
        return Sources("glob", tuple(_glob_files(path, boundary)))
    status = _status(path, boundary)
    if isinstance(status, Diagnostic):
        return Sources("file", (status,))
    if stat.S_ISDIR(status.st_mode):
        return Sources("directory", tuple(_directory_files(path, boundary)))
    return Sources("file", (_file(path, os.path.basename(path), status),))  # noqa: PTH119


def output_folder(folder: str, top: str, unlocked: str | None = None) -> str | None:
    """Return the output folder that a folder is or is inside, without links, up to `top`.

    `unlocked` is an output folder even without a lock file.
    """
    for place in upwards(os.path.realpath(folder)):
        if place == unlocked or os.path.lexists(os.path.join(place, LOCK)):  # noqa: PTH118
            return place
        if place == top:
            break
    return None


def file_bytes(
    path: str, shown: str, limit: int, boundary: access.Boundary | None = None
) -> bytes | Diagnostic:
    try:
        with access.opened(path, boundary) as file:
            return stream_bytes(file, shown, limit)
    except OSError as error:
        return unreadable(shown, error)


def stream_bytes(stream: BinaryIO, shown: str, limit: int) -> bytes | Diagnostic:
    parts: list[bytes] = []
    left = limit + 1
    try:
        # A raw stream may return less than requested.
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
    except (OSError, ValueError) as error:
        return unreadable(shown, error)
    return b"".join(parts) if left else too_large(shown, limit)


def too_large(shown: str, limit: int) -> Diagnostic:
    return diagnose(codes.FILE_TOO_LARGE, Location(shown), limit=f"{limit / _MEBIBYTE:g}")


def shown_path(path: str) -> str:
    """Return a printable path: a byte that is not UTF-8 becomes an escape."""
    try:
        return os.fsencode(path).decode(errors="backslashreplace")
    except UnicodeEncodeError:  # from a program; no file can have this name
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
    if isinstance(error, access.OutsideError):
        return diagnose(_OUTSIDE, Location(shown), root=shown_path(error.boundary.root))
    if isinstance(error, access.SpecialFileError):
        return diagnose(codes.NOT_A_REGULAR_FILE, Location(shown), what=error.what)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return diagnose(codes.UNREADABLE_FILE, Location(shown), reason=reason[:1].lower() + reason[1:])


def _file(path: str, relative: str, status: os.stat_result) -> SourceFile | Diagnostic:
    """Return the file, unless opening it might block for ever."""
    shown = shown_path(path)
    if not stat.S_ISREG(status.st_mode):
        return diagnose(
            codes.NOT_A_REGULAR_FILE, Location(shown), what=access.special(status.st_mode)
        )
    return SourceFile(path, shown, shown_path(relative), (status.st_dev, status.st_ino))


def _directory_files(
    directory: str, boundary: access.Boundary | None
) -> Iterator[SourceFile | Diagnostic]:
    """Yield the files below a directory in the order of their names, level by level.

    Skip a directory that was already listed under another name, and report one that contains
    itself.
    """
    listed: set[Identity] = set()
    waiting: list[tuple[str, str, tuple[Identity, ...]]] = [(directory, "", ())]
    while waiting:
        path, relative, above = waiting.pop()
        status = _status(path, boundary)
        if isinstance(status, Diagnostic):
            # Report a broken link only if its target would have been read.
            leads_out = status.code == _OUTSIDE and os.path.isdir(path)  # noqa: PTH112
            if path.endswith(SUFFIXES) or leads_out or not os.path.islink(path):  # noqa: PTH114
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
    return path.endswith(SUFFIXES) and path.rpartition("/")[2] != LOCK


def _names(
    directory: str, boundary: access.Boundary | None, *, hidden: bool = False
) -> list[str] | Diagnostic:
    """List a directory, hidden names or the others, with digits sorted as numbers."""
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
    """Return the paths that a pattern matches, and the directories that could not be listed.

    The standard library's glob follows a link that points upwards until the kernel refuses, which
    takes for ever if there are two such links. Here `**` enters each real directory once.
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
        if not GLOB.search(part):
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
