"""Write an output folder: all of its files or none.

Other programs read a folder of manifests while it is written, and applying half of one with pruning
deletes a training. So the new tree is built next to the folder and swapped in at once, under a lock
against other runs. Files that etcompile did not write stay.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.emit.output_state import LOCK, Comparison, OutputState, compared, output_state

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


class WriteResult(Struct, frozen=True):
    """What writing an output folder did."""

    written: int = 0
    unchanged: int = 0
    removed: tuple[str, ...] = ()  # stale files, relative to the folder, with `/`
    diagnostics: tuple[Diagnostic, ...] = ()  # why nothing was written


def write(
    directory: Path,
    files: Mapping[str, str],
    *,
    inputs: Iterable[Path] = (),
    force: bool = False,
    agrees: Callable[[Comparison], bool] | None = None,
) -> WriteResult:
    """Make a folder hold exactly these files, and foreign ones.

    Files of an earlier run, known by the lock file or else by their header, are replaced or
    removed. A correct folder is not touched. If the process is killed at any moment, the folder is
    entirely the old or entirely the new one, and the next run cleans up.

    Args:
        agrees: Called with the difference before anything is written; False stops the run.

    Returns:
        What was done, or why nothing was: ET5001 for every foreign file in the way, ET5002 for a
        folder that cannot be replaced, ET5003 if the system refuses, ET5007 for every file changed
        by hand, ET5011 for a lock file that cannot be read.
    """
    target = directory
    try:
        target = Path(os.path.realpath(directory))
        if problem := refusal(directory, inputs):
            return WriteResult(diagnostics=(problem,))
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target) as tidy:
            recover(target, tidy=tidy)
            desired = {PurePosixPath(path): text.encode() for path, text in files.items()}
            state = output_state(target)
            comparison = compared(target, state, desired)
            problems = refusals(directory, comparison, force=force)
            agreed = agrees is None or agrees(comparison)
            if problems or not agreed:
                return WriteResult(diagnostics=problems)
            if not comparison.equal:
                _replace(target, desired, comparison.unchanged, state)
            return WriteResult(
                written=len(desired) - len(comparison.unchanged),
                unchanged=len(comparison.unchanged),
                removed=tuple(str(path) for path in comparison.stale),
            )
    except OSError as error:
        # Name a path that the user knows, never one of a temporary tree.
        path = Path(os.fsdecode(error.filename)) if error.filename else target
        known = directory / path.relative_to(target) if path.is_relative_to(target) else directory
        reason = error.strerror or str(error)
        problem = diagnose(codes.WRITE_FAILED, None, path=str(known), reason=reason)
        return WriteResult(diagnostics=(problem,))


def refusals(
    directory: Path, comparison: Comparison, *, force: bool = False
) -> tuple[Diagnostic, ...]:
    problems = [
        diagnose(codes.FOREIGN_FILE, None, path=str(directory / path))
        for path in comparison.in_the_way
    ]
    if not force and comparison.damage:
        lock, reason = str(directory / LOCK), comparison.damage
        problems.append(diagnose(codes.LOCK_UNREADABLE, None, path=lock, reason=reason))
    if not force:
        problems += [
            diagnose(codes.EDITED_BY_HAND, None, path=str(directory / path), reason=reason)
            for path, reason in sorted(comparison.edited.items())
        ]
    return (*comparison.diagnostics, *problems)


def refusal(
    directory: Path, inputs: Iterable[Path] = (), *, reads_only: bool = False
) -> Diagnostic | None:
    target = Path(os.path.realpath(directory))
    reason, advice = None, "name a folder of its own, such as out/"
    if os.path.lexists(target) and not target.is_dir():
        reason = "it is not a directory"
    elif not reads_only and Path.cwd().is_relative_to(target):
        reason = "it is the current directory, or holds it"
    elif held := next(
        # A link's place and its target: a link to a file elsewhere is input as well.
        (
            path
            for path in inputs
            for place in (Path(os.path.realpath(path.parent), path.name), path.resolve())
            if place.is_relative_to(target)
        ),
        None,
    ):
        reason = f"it holds the input {held}"
    elif not reads_only and target.is_mount():
        reason = "it is a mount point, which cannot be replaced"
        advice = f"name a folder inside it, such as {directory / 'manifests'}"
    if reason is None:
        return None
    return diagnose(codes.OUTPUT_DIRECTORY, None, path=str(directory), reason=reason, advice=advice)


def _replace(
    target: Path,
    desired: Mapping[PurePosixPath, bytes],
    unchanged: frozenset[PurePosixPath],
    state: OutputState,
) -> None:
    tree = _sibling(target, "new")
    tree.mkdir(mode=0o755)
    try:
        _build(tree, target, desired, unchanged, state)
        old = put_in_place(tree, target)
    except BaseException:
        _delete(tree)
        raise
    if old is None:
        return
    # Foreign files that appeared after the scan are moved over, unless the new tree has one of
    # that name.
    with contextlib.suppress(OSError):
        for path in sorted(output_state(old).foreign - state.foreign):
            if not os.path.lexists(target / path):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (old / path).rename(target / path)
    _delete(old)


def _build(
    tree: Path,
    target: Path,
    desired: Mapping[PurePosixPath, bytes],
    unchanged: frozenset[PurePosixPath],
    state: OutputState,
) -> None:
    same = (state.foreign - desired.keys()) | unchanged
    folders = {folder for path in desired.keys() | same for folder in path.parents}
    folders |= {folder for path in state.empty for folder in (path, *path.parents)}
    in_order = sorted(folders - {PurePosixPath()})
    for folder in in_order:
        (tree / folder).mkdir(mode=0o755)
    for path in same:
        file = target / path
        if file.is_symlink():
            (tree / path).symlink_to(file.readlink())
            continue
        try:
            os.link(file, tree / path)
        except OSError:  # where the file system or its rules forbid that
            if not stat.S_ISREG(file.lstat().st_mode):
                raise
            shutil.copy2(file, tree / path)
    new = desired.keys() - unchanged
    for path in new:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(tree / path, flags, 0o644), "wb") as stream:  # noqa: PTH123 - no path
            stream.write(desired[path])
    # After all are written, because the first sync also writes most of the others.
    for path in new:
        _sync(tree / path)
    for folder in (*reversed(in_order), PurePosixPath()):
        if folder in state.folders or (not folder.parts and target.exists()):
            shutil.copymode(target / folder, tree / folder)
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            _sync(tree / folder)


# The swap ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(target: Path) -> Iterator[bool]:
    """Exclude other runs from a directory, which need not exist; wait for a run in progress.

    The lock is on the parent, so it leaves no file behind, and the system frees it when its holder
    dies.

    Yields:
        Whether there is a lock: network file systems have none for directories. Two runs at
        once without one still leave the whole tree of one of them.
    """
    parent = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(parent, fcntl.LOCK_EX)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(parent)


def put_in_place(tree: Path, target: Path) -> Path | None:
    """Make `tree` the directory `target`, which need not exist.

    If the system can exchange two directories, `target` is entirely old or entirely new at every
    moment. Otherwise it is missing for a moment; if the run dies then, `recover` restores the old
    tree.

    Returns:
        Where the old tree is now, if there was one.
    """
    if not os.path.lexists(target):
        tree.rename(target)
        old = None
    elif exchange(tree, target):
        old = tree
    else:
        old = _sibling(target, "old")
        target.rename(old)
        try:
            tree.rename(target)
        except OSError:
            old.rename(target)
            raise
    with contextlib.suppress(OSError):  # not every file system can sync a folder
        _sync(target.parent)
    return old


def exchange(one: Path, other: Path) -> bool:
    """Swap two directories at once.

    Returns:
        Whether the system and the file system can do that; if not, nothing has happened.

    Raises:
        OSError: It is possible, but was refused.
    """
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = library.renamex_np(*paths, ctypes.c_uint(_RENAME_SWAP))
    elif hasattr(library, "renameat2"):
        failed = library.renameat2(
            _AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)
        )
    else:
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(other))


def recover(target: Path, *, tidy: bool) -> None:
    """Clean up after runs that were killed while they replaced `target`.

    A missing `target` gets its old tree back.

    Args:
        tidy: Remove other leftovers. This needs the lock, because a living run may own them.
    """
    leftover = re.compile(rf"\.{re.escape(target.name)}\.etcompile-(new|old)-[0-9a-f]{{16}}")
    for entry in sorted(os.scandir(target.parent), key=lambda entry: entry.name, reverse=True):
        match = leftover.fullmatch(entry.name)
        if match is None or not entry.is_dir(follow_symlinks=False):
            continue
        # Other users' files in a shared parent such as /tmp are not ours.
        if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
            continue
        if match[1] == "old" and not os.path.lexists(target):
            Path(entry).rename(target)
        elif tidy:
            _delete(Path(entry))


def _delete(tree: Path) -> None:
    """Remove a tree as far as the system allows; the next run's `recover` tries again."""
    for folder, _, _ in os.walk(tree):
        # Linked and copied folders may be write-protected.
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sibling(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.etcompile-{role}-{secrets.token_hex(8)}")
