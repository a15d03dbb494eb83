"""Write single files below a folder that the user named, without following links there.

The folder itself may be a link, as for any program. A link below it would let its creator choose
which file is overwritten. `etcompile.emit.directory` replaces whole folders of manifests.
"""

import contextlib
import itertools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from etcompile.diagnostics import Diagnostic, codes, diagnose

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_STREAMS = ("/dev", "/proc")
"""Folders in which names such as `/dev/stdout` are the kernel's links to open files."""


def write_files(
    folder: Path, files: Mapping[str, bytes], *, only_new: bool = False
) -> list[Diagnostic]:
    """Write files into a folder, replacing existing ones.

    Returns:
        ET5023 for each link in the way, and then nothing is written; ET5003 if the system refuses.
    """
    if problems := refused(folder, files):
        return problems
    path = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _opened(folder) as top:
            for name, content in files.items():
                path = folder / name
                _write(top, PurePosixPath(name), content, only_new=only_new)
    except OSError as error:
        return [_failed(path, error)]
    return []


def write_file(file: Path, content: bytes, *, only_new: bool = False) -> list[Diagnostic]:
    """Write a file that the user named, in an existing folder.

    Args:
        file: May also be a device or a pipe, such as `/dev/stdout`.

    Returns:
        ET5023 if it is a link to a file, ET5003 if the system refuses.
    """
    try:
        folder = Path(os.path.realpath(file.parent))
        is_file = not file.exists() or file.is_file() or file.is_dir()
        if not is_file or any(folder.is_relative_to(place) for place in _STREAMS):
            with file.open("wb") as stream:
                stream.write(content)
            return []
        if problems := refused(file.parent, [file.name]):
            return problems
        with _opened(file.parent) as top:
            _write(top, PurePosixPath(file.name), content, only_new=only_new)
    except OSError as error:
        return [_failed(file, error)]
    return []


def refused(folder: Path, names: Iterable[str]) -> list[Diagnostic]:
    reasons: dict[Path, str] = {}
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            reasons[folder / path] = "its name leads out of the folder"
            continue
        parts = (folder.joinpath(*path.parts[: count + 1]) for count in range(len(path.parts)))
        if link := next((part for part in parts if part.is_symlink()), None):
            reasons[link] = "it is a link"
    return [
        diagnose(codes.LINK_IN_OUTPUT, None, path=str(path), reason=reason, folder=str(folder))
        for path, reason in reasons.items()
    ]


def outside(file: Path, places: Iterable[str]) -> list[Diagnostic]:
    """Report if links lead from the places that the user named to a folder elsewhere.

    Args:
        file: The file to write, next to one that was read below the places.
    """
    places = [*places]
    folder = Path(os.path.realpath(file.parent))
    for place in places:
        parts = itertools.takewhile(lambda part: not set(part) & set("*?["), Path(place).parts)
        named = Path(*parts)
        if folder.is_relative_to(os.path.realpath(named if named.is_dir() else named.parent)):
            return []
    facts = {"path": str(file), "reason": "its folder is reached through a link"}
    return [diagnose(codes.LINK_IN_OUTPUT, None, **facts, folder=" and ".join(places))]


def _write(top: int, path: PurePosixPath, content: bytes, *, only_new: bool) -> None:
    with _entered(top, path.parts[:-1]) as folder:
        name = path.name if only_new else f".{path.name}.etcompile-{secrets.token_hex(8)}"
        descriptor = os.open(name, _NEW, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if not only_new:
                    _copy_mode(folder, path.name, descriptor)
                file.write(content)
            if not only_new:
                os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise


def _copy_mode(folder: int, name: str, descriptor: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(before.st_mode):
            new = os.fstat(descriptor)
            if (new.st_uid, new.st_gid) != (before.st_uid, before.st_gid):
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _entered(top: int, parts: Iterable[str]) -> Iterator[int]:
    """Open a folder below another, creating missing ones; refuse links on the way."""
    folder = os.dup(top)
    try:
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _failed(path: Path, error: OSError) -> Diagnostic:
    return diagnose(codes.WRITE_FAILED, None, path=str(path), reason=error.strerror or str(error))
