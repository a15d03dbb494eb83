"""Files to an output folder, all of them or none.

A folder of manifests is read by other programs while it is written, and a half-written one
applied with pruning deletes a training. So the whole tree is built beside it and put in its
place at once (`etcompile.emit.replace`); files that are not ours are carried over.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from etcompile.diagnostics import Diagnostic, diagnose
from etcompile.emit import replace
from etcompile.emit.stream import HEADER


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What writing an output folder did.

    Args:
        written: How many files are new or changed.
        unchanged: How many files were right already.
        removed: Files of an earlier run that are not part of the output any more, relative to
            the folder, with `/`.
        diagnostics: Why nothing was written; then the folder is as it was.
    """

    written: int = 0
    unchanged: int = 0
    removed: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class _Standing:
    """What a folder holds, as paths relative to it.

    Args:
        ours: Files with our header.
        foreign: Files without it, symbolic links, and everything that is no file.
        folders: All folders below it.
        empty: Those of them without an entry: nobody's but the user's, as we make none.
    """

    ours: frozenset[PurePosixPath]
    foreign: frozenset[PurePosixPath]
    folders: frozenset[PurePosixPath]
    empty: frozenset[PurePosixPath]


_NOTHING = _Standing(frozenset(), frozenset(), frozenset(), frozenset())


def write(directory: Path, files: Mapping[str, str], *, inputs: Iterable[Path] = ()) -> WriteResult:
    """Makes a folder hold exactly these files, and what others put there.

    Files of an earlier run, known by their header, are replaced or removed. A folder that is
    right already is not touched. If the process is killed at any moment, the folder is wholly
    the old or wholly the new one, and the next run tidies up.

    Args:
        directory: The output folder; it and its parents are made if they do not exist.
        files: Texts by path relative to the folder, with `/`, as `layout` makes them.
        inputs: What the files were made from; none of it may be in the folder.

    Returns:
        What was done, or the reasons why nothing was: ET5001 for every foreign file in the
        way, ET5002 for a folder that cannot be replaced, ET5003 if the system refused.
    """
    target = directory
    try:
        target = Path(os.path.realpath(directory))
        if refusal := _refusal(directory, target, inputs):
            return WriteResult(diagnostics=(refusal,))
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace.locked(target) as tidy:
            replace.recover(target, tidy=tidy)
            return _write(directory, target, files)
    except OSError as error:
        return WriteResult(diagnostics=(_failed(directory, target, error),))


def _write(directory: Path, target: Path, files: Mapping[str, str]) -> WriteResult:
    wanted = {PurePosixPath(path): text.encode() for path, text in files.items()}
    standing = _standing(target) if target.exists() else _NOTHING
    if in_the_way := _in_the_way(standing, wanted):
        found = tuple(diagnose("ET5001", None, path=str(directory / path)) for path in in_the_way)
        return WriteResult(diagnostics=found)
    kept = frozenset(
        path for path in wanted.keys() & standing.ours if _equal(target / path, wanted[path])
    )
    stale = sorted(standing.ours - wanted.keys())
    if stale or len(kept) < len(wanted):
        _replace(target, wanted, kept, standing)
    return WriteResult(
        written=len(wanted) - len(kept),
        unchanged=len(kept),
        removed=tuple(str(path) for path in stale),
    )


def _refusal(directory: Path, target: Path, inputs: Iterable[Path]) -> Diagnostic | None:
    """Why the folder must not be replaced, whatever is in it."""
    reason, advice = None, "name a folder of its own, such as out/"
    if os.path.lexists(target) and not target.is_dir():
        reason = "it is not a directory"
    elif Path.cwd().is_relative_to(target):
        reason = "it is the current directory, or holds it"
    elif given := next((path for path in inputs if _holds_input(target, path)), None):
        reason = f"it holds the input {given}"
    elif target.is_mount():
        reason = "it is a mount point, which cannot be replaced"
        advice = f"name a folder inside it, such as {directory / 'manifests'}"
    if reason is None:
        return None
    return diagnose("ET5002", None, path=str(directory), reason=reason, advice=advice)


def _holds_input(target: Path, given: Path) -> bool:
    # Both where the path leads and where it stands: a link to a file elsewhere is input, too.
    stands = Path(os.path.realpath(given.parent), given.name)
    return any(path.is_relative_to(target) for path in (Path(os.path.realpath(given)), stands))


def _failed(directory: Path, target: Path, error: OSError) -> Diagnostic:
    """The system's refusal, with a path that the user knows: never one of a temporary tree."""
    path = Path(os.fsdecode(error.filename)) if error.filename else target
    known = directory / path.relative_to(target) if path.is_relative_to(target) else directory
    return diagnose("ET5003", None, path=str(known), reason=error.strerror or str(error))


def _standing(target: Path) -> _Standing:
    ours, foreign, folders, empty = set(), set(), set(), set()
    unread = [PurePosixPath()]
    while unread:
        folder = unread.pop()
        entries = list(_entries(target / folder))
        if not entries and folder.parts:
            empty.add(folder)
        for entry in entries:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.add(path)
                unread.append(path)
            elif entry.is_file(follow_symlinks=False) and _has_header(entry):
                ours.add(path)
            else:
                foreign.add(path)
    return _Standing(frozenset(ours), frozenset(foreign), frozenset(folders), frozenset(empty))


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _has_header(entry: os.DirEntry[str]) -> bool:
    header = HEADER.encode()
    try:
        with Path(entry).open("rb") as file:
            return file.read(len(header)) == header
    except PermissionError:
        return False


def _equal(path: Path, content: bytes) -> bool:
    return path.stat().st_size == len(content) and path.read_bytes() == content


def _in_the_way(standing: _Standing, wanted: Mapping[PurePosixPath, bytes]) -> list[PurePosixPath]:
    """Foreign entries that stand where a file or a folder of ours must."""
    folders = {folder for path in wanted for folder in path.parents}
    files_and_folders = wanted.keys() | folders

    def hides(path: PurePosixPath) -> bool:
        """Whether a file of ours would stand where one of the entry's own folders is."""
        return not wanted.keys().isdisjoint(path.parents)

    blocking = {path for path in standing.foreign if path in files_and_folders or hides(path)}
    blocking |= {path for path in standing.empty if path in wanted or hides(path)}
    return sorted(blocking)


def _replace(
    target: Path,
    wanted: Mapping[PurePosixPath, bytes],
    kept: frozenset[PurePosixPath],
    standing: _Standing,
) -> None:
    """Builds the new tree beside the old one and puts it in its place."""
    tree = replace.new_tree(target)
    try:
        _build(tree, target, wanted, kept, standing)
        old = replace.put_in_place(tree, target)
    except BaseException:
        replace.delete(tree)
        raise
    if old is not None:
        _rescue(old, target, standing)
        replace.delete(old)


def _build(
    tree: Path,
    target: Path,
    wanted: Mapping[PurePosixPath, bytes],
    kept: frozenset[PurePosixPath],
    standing: _Standing,
) -> None:
    carried = standing.foreign | kept
    folders = {folder for path in wanted.keys() | carried for folder in path.parents}
    folders |= {folder for path in standing.empty for folder in (path, *path.parents)}
    in_order = sorted(folders - {PurePosixPath()})
    for folder in in_order:
        (tree / folder).mkdir(mode=0o755)
    for path in carried:
        _carry_over(target / path, tree / path)
    new = wanted.keys() - kept
    for path in new:
        _create(tree / path, wanted[path])
    # Only when all are written: the first wait takes most of the others with it.
    for path in new:
        replace.sync(tree / path)
    for folder in (*reversed(in_order), PurePosixPath()):
        if folder in standing.folders or (not folder.parts and target.exists()):
            shutil.copymode(target / folder, tree / folder)
        replace.sync_directory(tree / folder)


def _create(file: Path, content: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(descriptor, "wb") as opened:  # noqa: PTH123 - a descriptor has no path
        opened.write(content)


def _carry_over(old: Path, new: Path) -> None:
    """The same file in both trees; a copy where the file system or its rules forbid that."""
    if old.is_symlink():
        new.symlink_to(old.readlink())
        return
    try:
        os.link(old, new)
    except OSError:
        if not stat.S_ISREG(old.lstat().st_mode):
            raise
        shutil.copy2(old, new)


def _rescue(old: Path, target: Path, standing: _Standing) -> None:
    """Moves over what others put into the old tree after we had looked.

    What stands there and was not seen is moved; where the new tree has something of that name,
    that stays.
    """
    with contextlib.suppress(OSError):
        for path in sorted(_standing(old).foreign - standing.foreign):
            if not os.path.lexists(target / path):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (old / path).rename(target / path)
