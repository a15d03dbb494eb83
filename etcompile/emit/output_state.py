"""Compares an output folder with what it should hold, and tells whose each file is.

This only reads: `etcompile.emit.directory` acts on the result, and `render --check` shows it. The
lock file decides which files are ours; without one, the header of each file does.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.emit.lock import LOCK, LockError, digest, locked_digests
from etcompile.emit.stream import HEADER

_LOCK = PurePosixPath(LOCK)


class OutputState(Struct, frozen=True):
    """What a folder holds, as paths relative to it.

    Args:
        ours: Files that an earlier run wrote.
        foreign: All other files, symbolic links, and everything that is no file.
        headed: Those foreign files that have our header, but are not in the lock.
        folders: All folders below it.
        empty: Those of them without an entry: nobody's but the user's, as we make none.
        digests: The files as the earlier run wrote them; None if there is no lock to tell.
        damage: Why the lock cannot be read, if there is one that cannot.
    """

    ours: frozenset[PurePosixPath] = frozenset()
    foreign: frozenset[PurePosixPath] = frozenset()
    headed: frozenset[PurePosixPath] = frozenset()
    folders: frozenset[PurePosixPath] = frozenset()
    empty: frozenset[PurePosixPath] = frozenset()
    digests: Mapping[PurePosixPath, str] | None = None
    damage: str | None = None


class Comparison(Struct, frozen=True):
    """How an output folder differs from what it should hold, as paths relative to it.

    Args:
        kept: Files that are right.
        changed: Files that are there with other content.
        missing: Files that are not there.
        stale: Files of an earlier run that should not be there any more.
        edited: Those of the changed and the stale that somebody has changed since an earlier
            run wrote them, or that none wrote.
        in_the_way: What is not ours and stands where a file or a folder of ours must.
        damage: Why the lock file cannot be read, if there is one that cannot.
        diagnostics: Why nothing could be compared.
    """

    kept: frozenset[PurePosixPath] = frozenset()
    changed: tuple[PurePosixPath, ...] = ()
    missing: tuple[PurePosixPath, ...] = ()
    stale: tuple[PurePosixPath, ...] = ()
    edited: Mapping[PurePosixPath, str] = field(default_factory=dict)
    in_the_way: tuple[PurePosixPath, ...] = ()
    damage: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether writing would change nothing."""
        return not (
            self.changed or self.missing or self.stale or self.in_the_way or self.diagnostics
        )


def compare(directory: Path, files: Mapping[str, str]) -> Comparison:
    """How an output folder differs from the files that it should hold."""
    wanted = {PurePosixPath(path): text.encode() for path, text in files.items()}
    if os.path.lexists(directory) and not directory.is_dir():
        reason = {"path": str(directory), "reason": "it is not a directory"}
        advice = "name a folder of its own, such as out/"
        return Comparison(
            diagnostics=(diagnose(codes.OUTPUT_DIRECTORY, None, **reason, advice=advice),)
        )
    try:
        return compared(directory, output_state(directory), wanted)
    except OSError as error:
        place = Location(os.fsdecode(error.filename or directory))
        unread = diagnose(codes.UNREADABLE_FILE, place, reason=error.strerror or str(error))
        return Comparison(diagnostics=(unread,))


def output_state(target: Path) -> OutputState:
    """What a folder holds; nothing if there is none.

    Raises:
        OSError: something in it cannot be read.
    """
    if not target.exists():
        return OutputState()
    digests, damage = _lock(target)
    ours: set[PurePosixPath] = set()
    foreign: set[PurePosixPath] = set()
    headed, folders, empty = set(), set(), set()
    unread = [PurePosixPath()]
    while unread:
        folder = unread.pop()
        with os.scandir(target / folder) as scanned:
            entries = list(scanned)
        if not entries and folder.parts:
            empty.add(folder)
        for entry in entries:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.add(path)
                unread.append(path)
            elif not entry.is_file(follow_symlinks=False):
                foreign.add(path)
            elif path == _LOCK:
                (foreign if digests is None else ours).add(path)
            elif digests is not None and path in digests:
                ours.add(path)
            elif not _has_header(entry):
                foreign.add(path)
            elif digests is None:
                ours.add(path)
            else:
                foreign.add(path)
                headed.add(path)
    return OutputState(
        frozenset(ours),
        frozenset(foreign),
        frozenset(headed),
        frozenset(folders),
        frozenset(empty),
        digests,
        damage,
    )


def compared(target: Path, found: OutputState, wanted: Mapping[PurePosixPath, bytes]) -> Comparison:
    """How what stands in a folder differs from what should.

    Raises:
        OSError: a file cannot be read.
    """
    kept, changed, edited = set(), [], {}
    stale = sorted(found.ours - wanted.keys())
    for path in sorted((found.ours | found.headed) & wanted.keys()):
        content = (target / path).read_bytes()
        if content == wanted[path]:
            kept.add(path)
            continue
        changed.append(path)
        if path in found.headed:
            edited[path] = f"{LOCK} does not list it"
        elif _is_edited(path, content, found.digests):
            edited[path] = _EDITED
    for path in stale:
        if found.digests and _is_edited(path, (target / path).read_bytes(), found.digests):
            edited[path] = _EDITED
    damaged = [_LOCK] if found.damage and _LOCK in wanted else []
    in_the_way = [path for path in _in_the_way(found, wanted) if path not in damaged]
    there = {*kept, *changed, *in_the_way, *damaged}
    return Comparison(
        kept=frozenset(kept),
        changed=tuple(sorted([*changed, *damaged])),
        missing=tuple(sorted(path for path in wanted if path not in there)),
        stale=tuple(stale),
        edited=edited,
        in_the_way=tuple(in_the_way),
        damage=found.damage,
    )


_EDITED = "it was edited by hand"


def _lock(target: Path) -> tuple[dict[PurePosixPath, str] | None, str | None]:
    """The digests that the folder's lock lists, and why it cannot be read, if it cannot."""
    file = target / LOCK
    if file.is_symlink() or not file.is_file():
        return None, None
    try:
        listed = locked_digests(file.read_bytes())
    except LockError as error:
        return None, str(error)
    except PermissionError as error:
        return None, error.strerror or str(error)
    return {PurePosixPath(path): found for path, found in listed.items()}, None


def _has_header(entry: os.DirEntry[str]) -> bool:
    header = HEADER.encode()
    try:
        with Path(entry).open("rb") as file:
            return file.read(len(header)) == header
    except PermissionError:
        return False


def _is_edited(
    path: PurePosixPath, content: bytes, digests: Mapping[PurePosixPath, str] | None
) -> bool:
    return digests is not None and path in digests and digest(content) != digests[path]


def _in_the_way(found: OutputState, wanted: Mapping[PurePosixPath, bytes]) -> list[PurePosixPath]:
    """Foreign entries that stand where a file or a folder of ours must."""
    folders = {folder for path in wanted for folder in path.parents}
    files_and_folders = (wanted.keys() - found.headed) | folders

    def hides(path: PurePosixPath) -> bool:
        """Whether a file of ours would stand where one of the entry's own folders is."""
        return not wanted.keys().isdisjoint(path.parents)

    blocking = {path for path in found.foreign if path in files_and_folders or hides(path)}
    blocking |= {path for path in found.empty if path in wanted or hides(path)}
    return sorted(blocking)
