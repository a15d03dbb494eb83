"""Writes an output folder: all of its files or none.

Other programs read a folder of manifests while it is written, and applying half of one with pruning
deletes a training. So the new tree is built beside the folder and swapped in at once
(`etcompile.emit.replace`). Files that etcompile did not write stay.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.emit import replace
from etcompile.emit.lock import LOCK
from etcompile.emit.output_state import Comparison, OutputState, compared, output_state


class WriteResult(Struct, frozen=True):
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


def write(
    directory: Path,
    files: Mapping[str, str],
    *,
    inputs: Iterable[Path] = (),
    force: bool = False,
    agrees: Callable[[Comparison], bool] | None = None,
) -> WriteResult:
    """Makes a folder hold exactly these files, and what others put there.

    Files of an earlier run, known by the lock file or else by their header, are replaced or
    removed. A folder that is right already is not touched. If the process is killed at any
    moment, the folder is wholly the old or wholly the new one, and the next run tidies up.

    Args:
        directory: The output folder; it and its parents are made if they do not exist.
        files: Texts by path relative to the folder, with `/`, as `layout` makes them.
        inputs: What the files were made from; none of it may be in the folder.
        force: Overwrite what was changed by hand, and a lock file that cannot be read.
        agrees: Asked, with how the folder differs, before anything is written; nothing is
            unless it does.

    Returns:
        What was done, or the reasons why nothing was: ET5001 for every foreign file in the
        way, ET5002 for a folder that cannot be replaced, ET5003 if the system refused, ET5007
        for every file changed by hand, ET5011 for a lock file that cannot be read.
    """
    target = directory
    try:
        target = Path(os.path.realpath(directory))
        if problem := refusal(directory, inputs):
            return WriteResult(diagnostics=(problem,))
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace.locked(target) as tidy:
            replace.recover(target, tidy=tidy)
            return _write(directory, target, files, agrees, force=force)
    except OSError as error:
        return WriteResult(diagnostics=(_failed(directory, target, error),))


def _write(
    directory: Path,
    target: Path,
    files: Mapping[str, str],
    agrees: Callable[[Comparison], bool] | None,
    *,
    force: bool,
) -> WriteResult:
    wanted = {PurePosixPath(path): text.encode() for path, text in files.items()}
    found = output_state(target)
    comparison = compared(target, found, wanted)
    problems = refusals(directory, comparison, force=force)
    agreed = agrees is None or agrees(comparison)
    if problems or not agreed:
        return WriteResult(diagnostics=problems)
    if not comparison.equal:
        _replace(target, wanted, comparison.kept, found)
    return WriteResult(
        written=len(wanted) - len(comparison.kept),
        unchanged=len(comparison.kept),
        removed=tuple(str(path) for path in comparison.stale),
    )


def refusals(
    directory: Path, comparison: Comparison, *, force: bool = False
) -> tuple[Diagnostic, ...]:
    """Why a folder is not written over."""
    problems = [
        diagnose(codes.FOREIGN_FILE, None, path=str(directory / path))
        for path in comparison.in_the_way
    ]
    if not force and comparison.damage:
        reason = comparison.damage
        problems.append(
            diagnose(codes.LOCK_UNREADABLE, None, path=str(directory / LOCK), reason=reason)
        )
    if not force:
        problems += [
            diagnose(codes.EDITED_BY_HAND, None, path=str(directory / path), reason=reason)
            for path, reason in sorted(comparison.edited.items())
        ]
    return (*comparison.diagnostics, *problems)


def refusal(
    directory: Path, inputs: Iterable[Path] = (), *, reads_only: bool = False
) -> Diagnostic | None:
    """Why a folder cannot be the output folder, whatever is in it.

    Args:
        directory: The folder, as the user named it.
        inputs: What is rendered; none of it may be in the folder.
        reads_only: It is only compared, so it may be one that cannot be replaced.

    Returns:
        ET5002, or None if the folder will do.

    Raises:
        OSError: the system does not tell where the folder is.
    """
    target = Path(os.path.realpath(directory))
    reason, advice = None, "name a folder of its own, such as out/"
    if os.path.lexists(target) and not target.is_dir():
        reason = "it is not a directory"
    elif not reads_only and Path.cwd().is_relative_to(target):
        reason = "it is the current directory, or holds it"
    elif given := next((path for path in inputs if _holds_input(target, path)), None):
        reason = f"it holds the input {given}"
    elif not reads_only and target.is_mount():
        reason = "it is a mount point, which cannot be replaced"
        advice = f"name a folder inside it, such as {directory / 'manifests'}"
    if reason is None:
        return None
    return diagnose(codes.OUTPUT_DIRECTORY, None, path=str(directory), reason=reason, advice=advice)


def _holds_input(target: Path, given: Path) -> bool:
    # Both where the path leads and where it stands: a link to a file elsewhere is input, too.
    stands = Path(os.path.realpath(given.parent), given.name)
    return any(path.is_relative_to(target) for path in (Path(os.path.realpath(given)), stands))


def _failed(directory: Path, target: Path, error: OSError) -> Diagnostic:
    """The system's refusal, with a path that the user knows: never one of a temporary tree."""
    path = Path(os.fsdecode(error.filename)) if error.filename else target
    known = directory / path.relative_to(target) if path.is_relative_to(target) else directory
    return diagnose(codes.WRITE_FAILED, None, path=str(known), reason=error.strerror or str(error))


def _replace(
    target: Path,
    wanted: Mapping[PurePosixPath, bytes],
    kept: frozenset[PurePosixPath],
    found: OutputState,
) -> None:
    """Builds the new tree beside the old one and puts it in its place."""
    tree = replace.new_tree(target)
    try:
        _build(tree, target, wanted, kept, found)
        old = replace.put_in_place(tree, target)
    except BaseException:
        replace.delete(tree)
        raise
    if old is not None:
        _rescue(old, target, found)
        replace.delete(old)


def _build(
    tree: Path,
    target: Path,
    wanted: Mapping[PurePosixPath, bytes],
    kept: frozenset[PurePosixPath],
    found: OutputState,
) -> None:
    carried = (found.foreign - wanted.keys()) | kept
    folders = {folder for path in wanted.keys() | carried for folder in path.parents}
    folders |= {folder for path in found.empty for folder in (path, *path.parents)}
    in_order = sorted(folders - {PurePosixPath()})
    for folder in in_order:
        (tree / folder).mkdir(mode=0o755)
    for path in carried:
        _carry_over(target / path, tree / path)
    new = wanted.keys() - kept
    for path in new:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(tree / path, flags, 0o644), "wb") as file:  # noqa: PTH123 - no path
            file.write(wanted[path])
    # Only when all are written: the first wait takes most of the others with it.
    for path in new:
        replace.sync(tree / path)
    for folder in (*reversed(in_order), PurePosixPath()):
        if folder in found.folders or (not folder.parts and target.exists()):
            shutil.copymode(target / folder, tree / folder)
        replace.sync_directory(tree / folder)


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


def _rescue(old: Path, target: Path, found: OutputState) -> None:
    """Moves over what others put into the old tree after we had looked.

    What stands there and was not seen is moved; where the new tree has something of that name,
    that stays.
    """
    with contextlib.suppress(OSError):
        for path in sorted(output_state(old).foreign - found.foreign):
            if not os.path.lexists(target / path):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (old / path).rename(target / path)
