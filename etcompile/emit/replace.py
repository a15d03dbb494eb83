"""Replaces one directory tree by another, so that nobody ever sees half of it.

This is what writing an output folder needs of the operating system: a lock against other runs, the
swap, and tidying up after a run that was killed.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
# The call's number, for C libraries without a function for it (musl had none for years).
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}

_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked(target: Path) -> Iterator[bool]:
    """Keeps other runs away from a directory, which need not exist.

    Waits for a run that has the lock. The lock is on the parent, so it leaves no file behind,
    and the system frees it when its holder dies.

    Args:
        target: The directory, without symbolic links; its parent exists.

    Yields:
        Whether there is a lock: network file systems have none for directories. Two runs at
        once without one still leave the tree of one of them, whole.

    Raises:
        OSError: the parent cannot be read.
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


def new_tree(target: Path) -> Path:
    """Makes an empty directory beside `target`, to be put in its place.

    Raises:
        OSError: the parent cannot be written to.
    """
    tree = _beside(target, "new")
    tree.mkdir(mode=0o755)
    return tree


def put_in_place(tree: Path, target: Path) -> Path | None:
    """Makes `tree` the directory `target`.

    At every moment `target` is wholly what it was or wholly what it becomes, where the system
    can exchange two directories. Elsewhere it is missing for a moment; if the run dies in it,
    `recover` brings the old tree back.

    Args:
        tree: The new tree, from `new_tree`.
        target: The directory to replace; it need not exist.

    Returns:
        Where the old tree is now, if there was one.

    Raises:
        OSError: the system refused; `target` is as it was.
    """
    if not os.path.lexists(target):
        tree.rename(target)
        old = None
    elif exchange(tree, target):
        old = tree
    else:
        old = _beside(target, "old")
        target.rename(old)
        try:
            tree.rename(target)
        except OSError:
            old.rename(target)
            raise
    sync_directory(target.parent)
    return old


def exchange(one: Path, other: Path) -> bool:
    """Swaps two directories at once.

    Returns:
        Whether the system and the file system can do that; if not, nothing has happened.

    Raises:
        OSError: it is possible, but was refused.
    """
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = library.renamex_np(*paths, ctypes.c_uint(_RENAME_SWAP))
    elif hasattr(library, "renameat2"):
        failed = library.renameat2(
            _AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)
        )
    elif number := _RENAMEAT2.get(platform.machine()):
        failed = library.syscall(
            ctypes.c_long(number), _AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE
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
    """Makes up for runs that were killed while they replaced `target`.

    Args:
        target: The directory; if it is missing because a run died while replacing it, the old
            tree takes its place again.
        tidy: Remove what else such runs left. Needs the lock: it might be a living run's.

    Raises:
        OSError: the parent cannot be read, or the old tree not be renamed.
    """
    leftover = re.compile(rf"\.{re.escape(target.name)}\.etcompile-(new|old)-[0-9a-f]{{16}}")
    for entry in sorted(os.scandir(target.parent), key=lambda entry: entry.name, reverse=True):
        found = leftover.fullmatch(entry.name)
        if not found or not _is_own_directory(entry):
            continue
        if found[1] == "old" and not os.path.lexists(target):
            Path(entry).rename(target)
        elif tidy:
            delete(Path(entry))


def delete(tree: Path) -> None:
    """Removes a tree as far as the system lets us; the next run's `recover` tries again."""
    for folder, _, _ in os.walk(tree):
        # What was carried over may be write-protected.
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)


def sync(file: Path) -> None:
    """Waits until a file is on the disk.

    Raises:
        OSError: the disk failed.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Waits until a directory's entries are on the disk, where there is such a thing."""
    with contextlib.suppress(OSError):
        sync(directory)


def _beside(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.etcompile-{role}-{secrets.token_hex(8)}")


def _is_own_directory(entry: os.DirEntry[str]) -> bool:
    # Others may write to a shared parent such as /tmp: what they put there is not ours.
    return entry.is_dir(follow_symlinks=False) and (
        entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    )
